"""Protocols and features: the smallest for a new table, and what may be read and written under others."""

from __future__ import annotations

import pytest

from deltasql.errors import UnsupportedError
from deltasql.protocol.actions import Metadata, TableProtocol
from deltasql.protocol.features import (
    check_alterable,
    check_readable,
    check_writable,
    protocol_for,
    reader_features,
    with_features,
    writer_features,
)
from deltasql.protocol.schema import ArrayType, PrimitiveType, StructField, StructType, schema_string

pytestmark = pytest.mark.unit

PLAIN = StructType((StructField("id", PrimitiveType("long")),))


def metadata(schema: StructType = PLAIN, **configuration: str) -> Metadata:
    named = {f"delta.{name.replace('_', '.')}": value for name, value in configuration.items()}
    return Metadata(id="i", schema_string=schema_string(schema), configuration=named)


def features(*names: str, reader: tuple[str, ...] = ()) -> TableProtocol:
    return TableProtocol(
        min_reader_version=3 if reader else 1,
        min_writer_version=7,
        reader_features=reader or None,
        writer_features=names,
    )


def test_a_new_table_gets_the_protocol_that_every_reader_was_tested_with() -> None:
    assert protocol_for(PLAIN, metadata(enableInCommitTimestamps="true")) == features("inCommitTimestamp")


def test_without_features_the_old_versions_do() -> None:
    assert protocol_for(PLAIN, metadata()) == TableProtocol(min_reader_version=1, min_writer_version=2)
    # Writer version 2 implies append-only.
    assert protocol_for(PLAIN, metadata(appendOnly="true")).min_writer_version == 2


def test_timestamps_without_a_zone_need_a_reader_feature_even_deep_inside() -> None:
    inner = StructType((StructField("n", PrimitiveType("timestamp_ntz")),))
    schema = StructType((StructField("a", ArrayType(inner)),))
    wanted = protocol_for(schema, metadata(schema, enableInCommitTimestamps="true"))
    assert wanted == features("inCommitTimestamp", "timestampNtz", reader=("timestampNtz",))


def test_not_null_is_an_invariant_even_deep_inside() -> None:
    inner = StructType((StructField("n", PrimitiveType("long"), nullable=False),))
    schema = StructType((StructField("a", inner),))
    wanted = protocol_for(schema, metadata(schema, enableInCommitTimestamps="true"))
    assert wanted == features("inCommitTimestamp", "invariants")
    assert protocol_for(schema, metadata(schema)).min_writer_version == 2


def test_older_versions_imply_features() -> None:
    protocol = TableProtocol(min_reader_version=2, min_writer_version=5)
    assert writer_features(protocol) == {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping")
    }
    assert reader_features(protocol) == {"columnMapping"}


def field(**mark: object) -> StructType:
    return StructType((StructField("id", PrimitiveType("long"), metadata=dict(mark.items())),))


MAPPED = field(**{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"})
NAMES = {"columnMapping_mode": "name"}
WIDENED = field(**{"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]})


@pytest.mark.parametrize(
    ("protocol", "described", "named"),
    [
        (features("rowTracking"), metadata(), "rowTracking"),
        (features("somethingNew"), metadata(), "somethingNew"),
        (TableProtocol(min_reader_version=1, min_writer_version=8), metadata(), "writer version 8"),
        (features("changeDataFeed"), metadata(enableChangeDataFeed="true"), "changeDataFeed"),
        (
            features("columnMapping", reader=("columnMapping",)),
            metadata(columnMapping_mode="name"),
            "lacks an id",
        ),
        (features(), metadata(columnMapping_mode="name"), "columnMapping"),
        (features("icebergCompatV2"), metadata(), "icebergCompatV2"),
        (features("identityColumns"), metadata(field(**{"delta.identity.start": 1})), "identityColumns"),
    ],
)
def test_writing_is_refused_where_a_promise_would_be_broken(
    protocol: TableProtocol, described: Metadata, named: str
) -> None:
    with pytest.raises(UnsupportedError, match=named) as caught:
        check_writable("t", protocol, described)
    assert caught.value.hint


def test_features_that_are_on_but_unused_do_not_stand_in_the_way() -> None:
    check_writable("t", TableProtocol(min_reader_version=2, min_writer_version=6), metadata())
    check_writable("t", features("appendOnly", "invariants", "deletionVectors"), metadata())


@pytest.mark.parametrize(
    ("protocol", "described", "named"),
    [
        (TableProtocol(min_reader_version=4, min_writer_version=7), metadata(), "reader version 4"),
        (features("novel", reader=("novel",)), metadata(), "novel"),
        (TableProtocol(min_reader_version=2, min_writer_version=5), metadata(columnMapping_mode="id"), "lacks an id"),
        (TableProtocol(min_reader_version=1, min_writer_version=6), metadata(MAPPED, **NAMES), "columnMapping"),
        (features("x"), metadata(field(**{"delta.columnMapping.physicalName": "other"})), "physical name"),
        (
            features("typeWidening", reader=("typeWidening",)),
            metadata(field(**{"delta.typeChanges": [{"fromType": "string", "toType": "long"}]})),
            "from string to long",
        ),
    ],
)
def test_reading_is_refused_where_rows_would_come_out_wrong(
    protocol: TableProtocol, described: Metadata, named: str
) -> None:
    with pytest.raises(UnsupportedError, match=named):
        check_readable("t", protocol, described)


def test_what_only_writers_must_know_does_not_stop_a_reader() -> None:
    check_readable("t", features("rowTracking", "somethingNew"), metadata())


@pytest.mark.parametrize(
    ("protocol", "described"),
    [
        (TableProtocol(min_reader_version=2, min_writer_version=5), metadata(MAPPED, **NAMES)),
        (TableProtocol(min_reader_version=2, min_writer_version=5), metadata(MAPPED, columnMapping_mode="id")),
        (features("columnMapping", reader=("columnMapping",)), metadata(MAPPED, **NAMES)),
        (features("typeWidening", reader=("typeWidening",)), metadata(WIDENED, enableTypeWidening="true")),
        (features("typeWidening-preview", reader=("typeWidening-preview",)), metadata(WIDENED)),
    ],
)
def test_mapped_and_widened_columns_are_read_written_and_altered(protocol: TableProtocol, described: Metadata) -> None:
    check_readable("t", protocol, described)
    check_writable("t", protocol, described)
    check_alterable("t", protocol, described)


def older(reader: int, writer: int) -> TableProtocol:
    return TableProtocol(min_reader_version=reader, min_writer_version=writer)


def test_columns_are_not_changed_under_features_that_may_ask_for_more() -> None:
    check_alterable("t", features("rowTracking", "clustering", "domainMetadata"), metadata())
    for protocol in (
        features("icebergCompatV2"),
        features("novel"),
        TableProtocol(min_reader_version=1, min_writer_version=8),
    ):
        with pytest.raises(UnsupportedError):
            check_alterable("t", protocol, metadata())


def named(reader: int, *names: str, readers: tuple[str, ...] | None = None) -> TableProtocol:
    return TableProtocol(
        min_reader_version=reader, min_writer_version=7, reader_features=readers, writer_features=names
    )


@pytest.mark.parametrize(
    ("before", "feature", "after"),
    [
        (
            older(1, 2),
            "columnMapping",
            named(3, "appendOnly", "invariants", "columnMapping", readers=("columnMapping",)),
        ),
        (older(2, 5), "columnMapping", older(2, 5)),
        (older(2, 5), "identityColumns", older(2, 6)),
        (older(1, 2), "checkConstraints", older(1, 3)),
        (older(1, 2), "generatedColumns", named(1, "appendOnly", "invariants", "generatedColumns")),
        (named(2, "columnMapping"), "domainMetadata", named(2, "columnMapping", "domainMetadata")),
        (
            features("inCommitTimestamp"),
            "columnMapping",
            named(3, "inCommitTimestamp", "columnMapping", readers=("columnMapping",)),
        ),
        (
            older(1, 2),
            "typeWidening",
            named(3, "appendOnly", "invariants", "typeWidening", readers=("typeWidening",)),
        ),
        (
            named(2, "x", "columnMapping"),
            "typeWidening",
            named(3, "x", "columnMapping", "typeWidening", readers=("columnMapping", "typeWidening")),
        ),
        (
            features("novel", reader=("novel",)),
            "columnMapping",
            named(3, "novel", "columnMapping", readers=("novel", "columnMapping")),
        ),
        (features("rowTracking"), "domainMetadata", named(1, "rowTracking", "domainMetadata")),
    ],
)
def test_a_feature_joins_and_the_others_stay(before: TableProtocol, feature: str, after: TableProtocol) -> None:
    assert with_features(before, feature) == after
    assert with_features(after, feature) == after
