"""Data files: rows come out as they went in, in files of a size, with statistics, and memory has a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import MalformedLogError
from deltasql.ops.files import RowWriter, read_file, write_files
from deltasql.protocol.actions import AddFile, Metadata
from deltasql.protocol.arrow import schema_from_arrow
from deltasql.protocol.column_mapping import MODE, PHYSICAL_NAME, map_fields, switch_on
from deltasql.protocol.schema import StructField, StructType, parse_schema, schema_string
from deltasql.protocol.stats import collect_stats
from deltasql.storage.locations import open_store
from deltasql.storage.memory import MemoryStore

pytestmark = pytest.mark.unit

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("name", pa.string())])
PLACE = "memory://test-files"


@pytest.fixture(autouse=True)
def store() -> Iterator[MemoryStore]:
    store = open_store(PLACE)
    assert isinstance(store, MemoryStore)
    yield store
    for meta in list(store.list()):
        store.delete(meta.key)


def metadata(*partitioned: str, **configuration: str) -> Metadata:
    text = schema_string(schema_from_arrow(SCHEMA))
    return Metadata(id="1", schema_string=text, partition_columns=partitioned, configuration=configuration)


def batch(first: int, partitions: Sequence[str | None]) -> pa.Table:
    """A row for each partition named, with ids from `first` on."""
    ids = range(first, first + len(partitions))
    return pa.table({"id": ids, "p": partitions, "name": [f"name of {number}" for number in ids]}, schema=SCHEMA)


def read(description: Metadata, adds: list[AddFile]) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *(read_file(PLACE, {}, description, add) for add in adds)])


def waiting(writer: RowWriter) -> int:
    return sum(part.bytes for part in writer._waiting.values())


def kept_alive(writer: RowWriter) -> int:
    """All memory that the waiting rows hold on to, be it theirs or not."""
    return sum(rows.get_total_buffer_size() for part in writer._waiting.values() for rows in part.parts)


def test_many_partitions_and_little_memory(store: MemoryStore) -> None:
    description, bound = metadata("p"), 4_000
    writer = RowWriter(store, description, file_bytes=1_000, buffer_bytes=bound)
    batches = [batch(first, [f"p{number % 50}" for number in range(100)]) for first in range(0, 2_000, 100)]
    for rows in batches:
        assert rows.nbytes < bound
        writer.write(rows)
        assert waiting(writer) <= bound
    assert len(list(store.list())) > 0, "nothing was written before the end"
    adds = writer.close()
    assert waiting(writer) == 0
    files = Counter(add.partition_values["p"] for add in adds)
    assert len(files) == 50
    assert all(count > 1 for count in files.values()), "each partition fills several files"
    assert len(store.list().__next__().key.split("/")) == 2
    found, put_in = read(description, adds).sort_by("id"), pa.concat_tables(batches)
    assert found.equals(put_in)


def test_what_waits_keeps_nothing_else_in_memory(store: MemoryStore) -> None:
    """One row in a hundred goes elsewhere. It must not hold on to the other ninety-nine, which are long in a file."""
    writer = RowWriter(store, metadata("p"), file_bytes=20_000, buffer_bytes=40_000)
    for first in range(0, 20_000, 500):
        writer.write(batch(first, ["large"] * 495 + [f"small {number}" for number in range(5)]))
        assert kept_alive(writer) <= 40_000 + 64 * len(writer._waiting)
    assert len(read(metadata("p"), writer.close())) == 20_000


def test_a_file_ends_where_it_is_large_enough(store: MemoryStore) -> None:
    rows = batch(0, [None] * 1_000)
    size = rows.nbytes
    for file_bytes, files in ((size * 2, 1), (size, 1), (size // 2, 2), (size // 10, 10), (1, 1_000)):
        writer = RowWriter(store, metadata(), file_bytes=file_bytes)
        writer.write(rows)
        adds = writer.close()
        # Rounded to whole rows, so one may be left over.
        assert files <= len(adds) <= files + 1
        assert read(metadata(), adds).equals(rows)
    # A full one is not held back until the end.
    writer = RowWriter(store, metadata(), file_bytes=size)
    writer.write(rows)
    assert waiting(writer) == 0
    # Small batches share a file until it is full.
    writer = RowWriter(store, metadata(), file_bytes=size * 2)
    for start in range(0, 1_000, 10):
        writer.write(rows.slice(start, 10))
    adds = writer.close()
    assert len(adds) == 1
    assert read(metadata(), adds).equals(rows)


def test_no_rows_make_no_file(store: MemoryStore) -> None:
    for partitioned in ((), ("p",)):
        writer = RowWriter(store, metadata(*partitioned))
        writer.write(SCHEMA.empty_table())
        assert writer.close() == []
    assert list(store.list()) == []


def test_every_file_is_described_by_what_it_holds(store: MemoryStore) -> None:
    description = metadata("p", **{"delta.dataSkippingNumIndexedCols": "1"})
    adds = write_files(store, description, batch(0, ["a", "b", None, "a"]))
    inside = StructType(tuple(f for f in parse_schema(description.schema_string).fields if f.name != "p"))
    assert sorted(add.partition_values["p"] or "" for add in adds) == ["", "a", "b"]
    sizes = {meta.key: meta.size for meta in store.list()}
    for add in adds:
        rows = read_file(PLACE, {}, description, add).drop_columns(["p"])
        assert add.stats == collect_stats(rows, inside, indexed=1)
        assert '"name"' not in str(add.stats)
        assert add.data_change
        assert add.size == sizes.pop(add.path.replace("%20", " "))
    assert sizes == {}


def test_columns_with_nan_have_no_bounds_in_the_file(store: MemoryStore) -> None:
    """Spark takes NaN for the greatest number, and Parquet's bounds leave it out: Spark would skip rows with NaN."""
    nan, pair = float("nan"), pa.struct([("nan", pa.float32()), ("a.b", pa.float32())])
    schema = pa.schema(
        [
            ("nan", pa.float64()),
            ("d", pa.float64()),
            ("a.b", pa.float64()),
            ("deep", pair),
            ("l", pa.list_(pa.float64())),
        ]
    )
    clean = {"nan": 1.0, "d": 1.0, "a.b": 1.0, "deep": {"nan": 1.0, "a.b": 1.0}, "l": [1.0]}
    mixed = {"nan": nan, "d": 2.0, "a.b": nan, "deep": {"nan": nan, "a.b": 2.0}, "l": [nan]}
    for second, without in ((clean, set[str]()), (mixed, {"nan", "a.b", "deep.nan", "l.list.element"})):
        rows = pa.Table.from_pylist([clean, second, dict.fromkeys(clean)], schema=schema)
        description = Metadata(id="1", schema_string=schema_string(schema_from_arrow(schema)))
        [add] = write_files(store, description, rows)
        inside = pq.ParquetFile(pa.BufferReader(store.get(add.path))).metadata.row_group(0)
        columns = [inside.column(place) for place in range(inside.num_columns)]
        bounded = {column.path_in_schema for column in columns if column.statistics and column.statistics.has_min_max}
        assert {column.path_in_schema for column in columns} - bounded == without


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.sampled_from([None, "", "a", "b", "c d", "e/f"]), max_size=20), max_size=6),
    file_bytes=st.integers(1, 2_000),
    buffer_bytes=st.integers(1, 2_000),
    partitioned=st.booleans(),
)
def test_no_row_is_lost_or_doubled(
    batches: list[list[str | None]], file_bytes: int, buffer_bytes: int, partitioned: bool
) -> None:
    description = metadata("p") if partitioned else metadata()
    writer = RowWriter(open_store(PLACE), description, file_bytes=file_bytes, buffer_bytes=buffer_bytes)
    put_in: list[pa.Table] = [SCHEMA.empty_table()]
    for partitions in batches:
        put_in.append(batch(sum(map(len, put_in)), partitions))
        writer.write(put_in[-1])
        assert waiting(writer) <= buffer_bytes
    found = read(description, writer.close()).sort_by("id").to_pylist()
    wanted = pa.concat_tables(put_in).to_pylist()
    if partitioned:
        # As a partition value the empty text is null.
        wanted = [{**row, "p": row["p"] or None} for row in wanted]
    assert found == wanted


def mapped(mode: str) -> Metadata:
    """The table with its columns mapped, under names in files that nobody would choose."""
    described = switch_on(metadata("p"))
    schema = map_fields(
        parse_schema(described.schema_string),
        lambda field: StructField(
            field.name, field.type, field.nullable, {**field.metadata, PHYSICAL_NAME: f"{field.name}, in files"}
        ),
    )
    return Metadata(
        id="1",
        schema_string=schema_string(schema),
        partition_columns=("p",),
        configuration={**described.configuration, MODE: mode},
    )


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_mapped_table_is_written_and_read_by_physical_names_and_ids(store: MemoryStore, mode: str) -> None:
    rows = batch(1, ["a", "b", None])
    adds = write_files(store, mapped(mode), rows)
    assert {add.partition_values["p, in files"] for add in adds} == {"a", "b", None}
    assert read(mapped(mode), adds).sort_by("id").equals(rows)
    assert adds[1].stats == collect_stats(
        pa.table({"id, in files": [1], "name, in files": ["name of 1"]}),
        schema_from_arrow(pa.schema([("id, in files", pa.int64()), ("name, in files", pa.string())])),
    )


def test_a_file_without_ids_is_not_read_by_ids(store: MemoryStore) -> None:
    (add,) = write_files(store, metadata(), batch(1, ["a"]))
    with pytest.raises(MalformedLogError, match="no field ids"):
        read_file(PLACE, {}, mapped("id"), add)
    # By names, nothing of the table is in it.
    assert read_file(PLACE, {}, mapped("name"), add).column("id").to_pylist() == [None]
