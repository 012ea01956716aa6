"""Two commits that looked at the same version: what the first one wrote, and whether the second may still stand.

Each case is data, so that the rules here, Delta Spark's and those a reader of the documentation expects are asked
about the same thing. Where Delta Spark decides otherwise, the case says what it does and why this differs.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from deltasql.outcomes import ConflictReason
from deltasql.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.conflicts import IsolationLevel, Reads
from deltasql.protocol.features import FEATURES as KNOWN
from deltasql.protocol.predicate import parse
from deltasql.protocol.schema import parse_schema
from deltasql.protocol.skipping import facts_from, may_match

# Version 0 of the table: two files in partition a, one in b. `plain` has the same files without partitions, and
# `tracked` gives its rows ids.
Kind = Literal["partitioned", "plain", "tracked"]

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
)
WIDER = SCHEMA.replace("]}", ',{"name":"more","type":"long","nullable":true,"metadata":{}}]}')
MAPPED = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":'
    '{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"id"}},'
    '{"name":"p","type":"string","nullable":true,"metadata":'
    '{"delta.columnMapping.id":2,"delta.columnMapping.physicalName":"p"}}]}'
)

# What Delta Spark raises for each reason.
RAISES: dict[ConflictReason, str] = {
    "concurrent_append": "ConcurrentAppendException",
    "concurrent_delete_read": "ConcurrentDeleteReadException",
    "concurrent_delete_delete": "ConcurrentDeleteDeleteException",
    "metadata_changed": "MetadataChangedException",
    "protocol_changed": "ProtocolChangedException",
    "concurrent_transaction": "ConcurrentTransactionException",
    "concurrent_domain": "ConcurrentTransactionException",
}


def partition(path: str) -> str:
    return path[0]


def add(path: str, *, data_change: bool = True, ids: tuple[int, int] = (0, 99), vector: bool = False) -> AddFile:
    low, high = ids
    return AddFile(
        path=path,
        partition_values={"p": partition(path)},
        size=1,
        modification_time=1,
        data_change=data_change,
        stats=f'{{"numRecords":10,"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}},"nullCount":{{"id":0}}}}',
        tags={},
        deletion_vector=_VECTOR if vector else None,
    )


def remove(path: str, *, data_change: bool = True) -> RemoveFile:
    return RemoveFile(
        path=path,
        deletion_timestamp=1,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values={"p": partition(path)},
        size=1,
    )


def metadata(kind: Kind = "partitioned", schema: str = SCHEMA, **configuration: str) -> Metadata:
    return Metadata(
        id="5f4c5a52-7f7c-4b0e-9b3a-6b1f3c1d2e3f",
        schema_string=schema,
        partition_columns=() if kind == "plain" else ("p",),
        configuration={f"delta.{name}": value for name, value in configuration.items()},
        created_time=1,
    )


def protocol(*features: str) -> TableProtocol:
    return TableProtocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=tuple(name for name in features if name in KNOWN and KNOWN[name].reader),
        writer_features=features,
    )


_VECTOR = DeletionVector(storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", size_in_bytes=36, cardinality=1)
FEATURES = ("deletionVectors", "domainMetadata")
BASE = (add("a1", ids=(0, 9)), add("a2", ids=(10, 19)), add("b1", ids=(0, 9)))


def domain(name: str, text: str = "{}", *, removed: bool = False) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration=text, removed=removed)


def txn(app: str, version: int = 1) -> SetTransaction:
    return SetTransaction(app_id=app, version=version)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the second commit looked at: everything, the rows of some files, or the rows for which `where` holds."""

    whole_table: bool = False
    files: tuple[str, ...] = ()
    where: str | None = None

    def read(self, kind: Kind) -> list[AddFile]:
        """The files of version 0 whose rows were used."""
        return [file for file in BASE if file.path in self.files or self._matches(file, kind)]

    def reads(self, kind: Kind) -> Reads:
        return Reads(
            whole_table=self.whole_table,
            files=frozenset((file.path, file.dv_id) for file in self.read(kind)),
            may_match=None if self.where is None else lambda file: self._matches(file, kind),
        )

    def _matches(self, file: AddFile, kind: Kind) -> bool:
        if self.where is None:
            return False
        structure = parse_schema(SCHEMA)
        return may_match(parse(self.where, structure), facts_from(file, structure, metadata(kind).partition_columns))


NOTHING = Look()
EVERYTHING = Look(whole_table=True)
IN_A = Look(where="p = 'a'")
A1 = Look(files=("a1",))


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """`ours` is the reason why the second commit is refused here, or None; `delta` what Delta Spark raises."""

    name: str
    look: Look
    mine: tuple[Action, ...]
    winner: tuple[Action, ...]
    ours: ConflictReason | None
    delta: str | None
    difference: str = ""
    kind: Kind = "partitioned"
    isolation: IsolationLevel = "Serializable"
    info: CommitInfo
    # Whether the second commit asked how far the applications that it writes markers for had come.
    asked: bool = True


def _case(
    name: str,
    look: Look,
    mine: Action | tuple[Action, ...],
    winner: Action | tuple[Action, ...],
    ours: ConflictReason | None,
    *,
    but: tuple[str | None, str] | None = None,
    kind: Kind = "partitioned",
    isolation: IsolationLevel = "Serializable",
    blind: bool = False,
    tags: dict[str, str] | None = None,
    asked: bool = True,
) -> Case:
    info = {"timestamp": 2, "operation": "WRITE", "operationParameters": {}, "isBlindAppend": blind, "tags": tags or {}}
    delta, difference = but or (None if ours is None else RAISES[ours], "")
    return Case(
        name=name,
        look=look,
        mine=mine if isinstance(mine, tuple) else (mine,),
        winner=winner if isinstance(winner, tuple) else (winner,),
        ours=ours,
        delta=delta,
        difference=difference,
        kind=kind,
        isolation=isolation,
        info=CommitInfo(info),
        asked=asked,
    )


_ORDER = "both refuse: Delta looks for appended files first and removed ones last, here the file both touched is named"
_REWRITE = "the rows of a rewritten file are those of the files removed beside it, and whoever read these is refused"
_STATISTICS = "Delta looks at partition values only; statistics show as surely that no row would have been read"
_RECHECK = "Delta checks again at the commit what the table asks for; here that was done before, so it is done again"
_MARKER = "Delta asks whether the application's marker was read; whoever writes one must have known the one before"
_UNREAD = "Delta takes any commit that removes files of an unpartitioned table for one that read all of it"

SWAP_A1 = (remove("a1"), add("a9"))
COMPACT_A = (remove("a1", data_change=False), remove("a2", data_change=False), add("a8", data_change=False))
MARKED = (remove("a1"), add("a1", vector=True))
WS: IsolationLevel = "WriteSerializable"

CASES = (
    # Appends look at nothing.
    _case("append, append", NOTHING, add("a7"), add("a8"), None, blind=True),
    _case("append, delete", NOTHING, add("a7"), remove("a1"), None),
    _case("append, rewrite of a file", NOTHING, add("a7"), SWAP_A1, None),
    _case("append, compaction", NOTHING, add("a7"), COMPACT_A, None),
    _case("append, nothing but a marker", NOTHING, add("a7"), txn("app"), None),
    _case("append to an unpartitioned table, append", NOTHING, add("a7"), add("a8"), None, kind="plain", blind=True),
    # Whoever read the whole table.
    _case("overwrite, append", EVERYTHING, (remove("a1"), add("a7")), add("b8"), "concurrent_append", blind=True),
    _case("overwrite, delete of a file it kept", EVERYTHING, add("a7"), remove("b1"), "concurrent_delete_read"),
    _case("overwrite, marker", EVERYTHING, (remove("a1"), add("a7")), txn("app"), None),
    _case(
        "overwrite, delete of the same file",
        EVERYTHING,
        (remove("a1"), add("a7")),
        remove("a1"),
        "concurrent_delete_delete",
        but=(RAISES["concurrent_delete_read"], _ORDER),
    ),
    _case(
        "overwrite, rewrite of another file",
        EVERYTHING,
        (remove("a1"), add("a7")),
        (remove("b1"), add("b9")),
        "concurrent_delete_read",
        but=(RAISES["concurrent_append"], _ORDER),
    ),
    _case(
        "overwrite, compaction",
        EVERYTHING,
        add("a7"),
        COMPACT_A,
        "concurrent_delete_read",
        but=(RAISES["concurrent_append"], _ORDER),
    ),
    _case(
        "overwrite, the same file described again",
        EVERYTHING,
        add("a7"),
        add("a1", data_change=False),
        None,
        but=(RAISES["concurrent_append"], _REWRITE),
    ),
    # Whoever read by a predicate.
    _case("delete in a, append to a", IN_A, SWAP_A1, add("a8"), "concurrent_append"),
    _case("delete in a, blind append to a", IN_A, SWAP_A1, add("a8"), "concurrent_append", blind=True),
    _case("delete in a, append to b", IN_A, SWAP_A1, add("b8"), None, blind=True),
    _case("delete in a, delete in b", IN_A, SWAP_A1, remove("b1"), None),
    _case("delete in a, delete of a file it only read", IN_A, SWAP_A1, remove("a2"), "concurrent_delete_read"),
    _case(
        "delete in a, delete of the same file",
        IN_A,
        SWAP_A1,
        remove("a1"),
        "concurrent_delete_delete",
        but=(RAISES["concurrent_delete_read"], _ORDER),
    ),
    _case(
        "delete in a, rewrite of the same file",
        IN_A,
        SWAP_A1,
        (remove("a1"), add("a8")),
        "concurrent_delete_delete",
        but=(RAISES["concurrent_append"], _ORDER),
    ),
    _case(
        "delete in a, compaction of a",
        IN_A,
        SWAP_A1,
        COMPACT_A,
        "concurrent_delete_delete",
        but=(RAISES["concurrent_append"], _ORDER),
    ),
    _case(
        "delete in a, rewrite in a of what it did not read",
        Look(where="p = 'a' AND id < 10"),
        SWAP_A1,
        (remove("a2", data_change=False), add("a8", data_change=False)),
        None,
        but=(RAISES["concurrent_append"], _REWRITE),
    ),
    _case("insert what a holds into b, append to a", IN_A, add("b7"), add("a8"), "concurrent_append"),
    _case(
        "delete of an id, append of other ids",
        Look(where="id = 5"),
        SWAP_A1,
        add("a8", ids=(50, 60)),
        None,
        but=(RAISES["concurrent_append"], _STATISTICS),
    ),
    _case(
        "unpartitioned, delete of an id, append of other ids",
        Look(where="id = 5"),
        SWAP_A1,
        add("a8", ids=(50, 60)),
        None,
        kind="plain",
        but=(RAISES["concurrent_append"], _STATISTICS),
    ),
    _case(
        "unpartitioned, delete of an id, append of that id",
        Look(where="id = 5"),
        SWAP_A1,
        add("a8"),
        "concurrent_append",
        kind="plain",
    ),
    # Whoever read some files and no more.
    _case("read a1, append", A1, add("a7"), add("a8"), None),
    _case("read a1, delete of a1", A1, add("a7"), remove("a1"), "concurrent_delete_read"),
    _case("read a1, delete of a2", A1, add("a7"), remove("a2"), None),
    _case("read a1, a deletion vector for a1", A1, add("a7"), MARKED, "concurrent_delete_read"),
    _case("removed unread, removed too", NOTHING, remove("a1"), remove("a1"), "concurrent_delete_delete"),
    _case("removed unread, append", NOTHING, remove("a1"), add("a8"), None),
    _case("removed unread, a deletion vector for it", NOTHING, remove("a1"), MARKED, "concurrent_delete_delete"),
    _case(
        "unpartitioned, removed unread, append",
        NOTHING,
        remove("a1"),
        add("a8"),
        None,
        kind="plain",
        but=(RAISES["concurrent_append"], _UNREAD),
    ),
    # Compactions change no row.
    _case("compaction, append", IN_A, COMPACT_A, add("a9"), None, blind=True),
    _case("compaction, delete elsewhere", IN_A, COMPACT_A, remove("b1"), None),
    _case("compaction of what it read, delete there", A1, COMPACT_A, remove("a2"), "concurrent_delete_delete"),
    _case(
        "compaction, delete of a file of it",
        IN_A,
        COMPACT_A,
        remove("a1"),
        "concurrent_delete_delete",
        but=(RAISES["concurrent_delete_read"], _ORDER),
    ),
    _case(
        "compaction, the same compaction",
        IN_A,
        COMPACT_A,
        COMPACT_A,
        "concurrent_delete_delete",
        but=(RAISES["concurrent_delete_read"], _ORDER),
    ),
    _case("compaction, a file of it described again", IN_A, COMPACT_A, add("a1", data_change=False), None),
    _case("compaction and a marker, append", IN_A, (*COMPACT_A, txn("app")), add("a9"), "concurrent_append"),
    _case("compaction that reads everything, delete", EVERYTHING, COMPACT_A, remove("b1"), "concurrent_delete_read"),
    # WriteSerializable: as if the blind append had come second.
    _case("weaker: delete in a, blind append to a", IN_A, SWAP_A1, add("a8"), None, isolation=WS, blind=True),
    _case("weaker: delete in a, append to a after a look", IN_A, SWAP_A1, add("a8"), "concurrent_append", isolation=WS),
    _case("weaker: overwrite, blind append", EVERYTHING, SWAP_A1, add("b8"), None, isolation=WS, blind=True),
    _case("weaker: overwrite, delete", EVERYTHING, add("a7"), remove("b1"), "concurrent_delete_read", isolation=WS),
    _case("weaker: read a1, delete of a1", A1, add("a7"), remove("a1"), "concurrent_delete_read", isolation=WS),
    _case(
        "weaker: new schema after a look, blind append",
        EVERYTHING,
        (metadata(schema=WIDER, isolationLevel=WS), add("a7")),
        add("b8"),
        "concurrent_append",
        isolation=WS,
        blind=True,
    ),
    _case("weaker: compaction, append after a look", IN_A, COMPACT_A, add("a9"), None, isolation=WS),
    # Metadata.
    _case("append, new column", NOTHING, add("a7"), metadata(schema=WIDER), "metadata_changed"),
    _case("append, property", NOTHING, add("a7"), metadata(logRetentionDuration="interval 9 days"), "metadata_changed"),
    _case("new column, append", NOTHING, metadata(schema=WIDER), add("a8"), None, blind=True),
    _case("new column, new column", NOTHING, metadata(schema=WIDER), metadata(schema=WIDER), "metadata_changed"),
    _case("compaction, property", IN_A, COMPACT_A, metadata(appendOnly="true"), "metadata_changed"),
    _case(
        "append, the same metadata again",
        NOTHING,
        add("a7"),
        metadata(),
        "metadata_changed",
        but=(None, _RECHECK),
    ),
    _case(
        "append, deletion vectors switched on",
        NOTHING,
        add("a7"),
        metadata(enableDeletionVectors="true"),
        "metadata_changed",
        but=(None, _RECHECK),
    ),
    _case(
        "append, row tracking switched on",
        NOTHING,
        add("a7"),
        metadata("tracked", enableRowTracking="true"),
        "metadata_changed",
        kind="tracked",
        but=(None, _RECHECK),
    ),
    _case(
        "append, identity values given out",
        NOTHING,
        add("a7"),
        (metadata(schema=WIDER), add("a8")),
        "metadata_changed",
        tags={"delta.identity.schemaUpdate": "true"},
        but=(None, _RECHECK),
    ),
    # Protocol.
    _case(
        "append, a feature more",
        NOTHING,
        add("a7"),
        protocol(*FEATURES, "appendOnly"),
        "protocol_changed",
        but=(None, _RECHECK),
    ),
    _case(
        "append, the same protocol again",
        NOTHING,
        add("a7"),
        protocol(*FEATURES),
        "protocol_changed",
        but=(None, _RECHECK),
    ),
    _case("append, a feature less", NOTHING, add("a7"), protocol("deletionVectors"), "protocol_changed"),
    _case(
        "append, a feature nobody knows",
        NOTHING,
        add("a7"),
        protocol(*FEATURES, "novel"),
        "protocol_changed",
        but=("DeltaUnsupportedTableFeatureException", "both refuse: Delta names the feature it does not know"),
    ),
    _case(
        "a feature more, another feature more",
        NOTHING,
        protocol(*FEATURES, "appendOnly"),
        protocol(*FEATURES, "invariants"),
        "protocol_changed",
    ),
    _case("a feature more, append", NOTHING, protocol(*FEATURES, "appendOnly"), add("a8"), None, blind=True),
    _case(
        "append, a feature and its property",
        NOTHING,
        add("a7"),
        (protocol(*FEATURES, "appendOnly"), metadata(appendOnly="true")),
        "protocol_changed",
        but=(RAISES["metadata_changed"], _RECHECK),
    ),
    _case(
        "append, in-commit timestamps switched on",
        NOTHING,
        add("a7"),
        (
            protocol(*FEATURES, "inCommitTimestamp"),
            metadata(
                enableInCommitTimestamps="true",
                inCommitTimestampEnablementVersion="1",
                inCommitTimestampEnablementTimestamp="2",
            ),
        ),
        "protocol_changed",
        but=(None, _RECHECK),
    ),
    _case(
        "append, V2 checkpoints switched on",
        NOTHING,
        add("a7"),
        (protocol(*FEATURES, "v2Checkpoint"), metadata(checkpointPolicy="v2")),
        "protocol_changed",
        but=(None, _RECHECK),
    ),
    _case(
        "append, column mapping switched on",
        NOTHING,
        add("a7"),
        (
            protocol(*FEATURES, "columnMapping"),
            metadata("partitioned", MAPPED, **{"columnMapping.mode": "name", "columnMapping.maxColumnId": "2"}),
        ),
        "protocol_changed",
        but=(None, _RECHECK),
    ),
    # Applications and domains.
    _case("same application", NOTHING, (add("a7"), txn("app", 2)), (add("a8"), txn("app")), "concurrent_transaction"),
    _case(
        "same application, never asked for",
        NOTHING,
        (add("a7"), txn("app", 2)),
        (add("a8"), txn("app")),
        "concurrent_transaction",
        but=(None, _MARKER),
        asked=False,
    ),
    _case("other application", NOTHING, (add("a7"), txn("app", 2)), (add("a8"), txn("other")), None, blind=True),
    _case("same domain", NOTHING, domain("d"), domain("d", '{"x":1}'), "concurrent_domain"),
    _case("same domain, removed meanwhile", NOTHING, domain("d"), domain("d", removed=True), "concurrent_domain"),
    _case("other domain", NOTHING, domain("d"), domain("e"), None),
    _case(
        "row ids given out by both",
        NOTHING,
        add("a7"),
        (add("a8"), domain("delta.rowTracking", '{"rowIdHighWaterMark":39}')),
        None,
        kind="tracked",
        blind=True,
    ),
)
