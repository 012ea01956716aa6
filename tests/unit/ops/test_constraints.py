"""What a table asks of new rows: what is filled in, what is worked out, what is refused and how it is told."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltasql.errors import InvalidInputError, SchemaError, UnsupportedError
from deltasql.ops.constraints import enforce, rules_of
from deltasql.protocol.actions import Metadata, TableProtocol
from deltasql.protocol.schema import schema_string

pytestmark = pytest.mark.unit

FEATURES = ("allowColumnDefaults", "checkConstraints", "generatedColumns", "identityColumns", "invariants")
PROTOCOL = TableProtocol(min_reader_version=1, min_writer_version=7, writer_features=FEATURES)
NOON = datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def column(name: str, kind: Any = "long", *, nullable: Any = True, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def generated(name: str, kind: str, expression: str, **more: Any) -> dict[str, Any]:
    made = column(name, kind, **more)
    return {**made, "metadata": {"delta.generationExpression": expression}}


def table_of(*columns: dict[str, Any], **checks: str) -> Metadata:
    schema = json.dumps({"type": "struct", "fields": columns})
    configuration = {f"delta.constraints.{name}": expression for name, expression in checks.items()}
    return Metadata(id="i", schema_string=schema, configuration=configuration)


def put(metadata: Metadata, protocol: TableProtocol = PROTOCOL, **values: Any) -> list[dict[str, Any]]:
    return enforce(metadata, protocol, pa.table(values), table="t").to_pylist()


class TestChecks:
    def test_rows_that_make_it_true_pass_as_they_are(self) -> None:
        metadata = table_of(column("id"), column("name", "string"), positive="id > 0", named="name LIKE 'a%'")
        assert put(metadata, id=[1, 2], name=["a", "ab"]) == [{"id": 1, "name": "a"}, {"id": 2, "name": "ab"}]
        assert put(metadata, id=pa.array([], pa.int64()), name=pa.array([], pa.string())) == []

    def test_a_row_that_does_not_is_shown_with_its_values(self) -> None:
        metadata = table_of(column("id"), column("name", "string"), positive="id > 0 OR name = 'x'")
        with pytest.raises(InvalidInputError) as refused:
            put(metadata, id=[1, -5, -6, 2], name=["a", "b", None, "d"])
        assert refused.value.message == (
            "table t: 2 of 4 rows break the constraint 'positive' (id > 0 OR name = 'x'); "
            "the first has id = -5, name = 'b'"
        )
        assert refused.value.field == "constraints.positive"
        assert "nothing was written" in (refused.value.hint or "")

    def test_unknown_is_not_true(self) -> None:
        metadata = table_of(column("id"), positive="id > 0")
        with pytest.raises(InvalidInputError, match=r"1 of 2 rows break .* the first has id = null"):
            put(metadata, id=[1, None])
        assert put(table_of(column("id"), positive="id > 0 OR id IS NULL"), id=[1, None]) == [{"id": 1}, {"id": None}]

    def test_the_name_of_the_property_is_found_in_any_case(self) -> None:
        metadata = Metadata(
            id="i",
            schema_string=table_of(column("id")).schema_string,
            configuration={"DELTA.Constraints.Positive": "id > 0"},
        )
        with pytest.raises(InvalidInputError, match="'Positive'"):
            put(metadata, id=[0])

    def test_columns_inside_structs_can_be_asked_for(self) -> None:
        inner = {"type": "struct", "fields": [column("n", "integer")]}
        metadata = table_of(column("s", inner), inside="s.n < 10")
        assert put(metadata, s=[{"n": 9}]) == [{"s": {"n": 9}}]
        with pytest.raises(InvalidInputError, match=r"s\.n = 10"):
            put(metadata, s=[{"n": 10}])
        with pytest.raises(InvalidInputError, match=r"s\.n = null"):
            put(metadata, s=[None])

    def test_what_cannot_be_checked_here_forbids_the_write(self) -> None:
        metadata = table_of(column("id"), odd="pmod(id, 2) = 1")
        with pytest.raises(UnsupportedError, match=r"'odd'.*functions such as pmod") as refused:
            put(metadata, id=[1])
        assert "Delta Spark" in (refused.value.hint or "")

    def test_a_long_value_is_cut_in_the_error(self) -> None:
        with pytest.raises(InvalidInputError) as refused:
            put(table_of(column("name", "string"), short="name = 'a'"), name=["x" * 10_000])
        assert len(refused.value.message) < 300

    def test_they_hold_whatever_the_protocol_says(self) -> None:
        plain = TableProtocol(min_reader_version=1, min_writer_version=2)
        with pytest.raises(InvalidInputError, match="'positive'"):
            put(table_of(column("id"), positive="id > 0"), plain, id=[0])


class TestInvariants:
    RULE = json.dumps({"expression": {"expression": "id > 3"}})

    def test_a_condition_kept_with_the_column_is_checked(self) -> None:
        metadata = table_of(column("id", **{"delta.invariants": self.RULE}))
        assert put(metadata, id=[4]) == [{"id": 4}]
        for bad in (3, None):
            with pytest.raises(InvalidInputError, match=r"constraint 'id' \(id > 3\)"):
                put(metadata, id=pa.array([bad], pa.int64()))

    def test_also_inside_a_struct(self) -> None:
        rule = json.dumps({"expression": {"expression": "s.n > 3"}})
        inner = {"type": "struct", "fields": [column("n", "integer", **{"delta.invariants": rule})]}
        with pytest.raises(InvalidInputError, match=r"constraint 's\.n'"):
            put(table_of(column("s", inner)), s=[{"n": 3}])

    @pytest.mark.parametrize("rule", ["", "{", "{}", '{"expression":null}', '{"expression":{"expression":1}}', 7])
    def test_one_that_is_not_understood_forbids_the_write(self, rule: object) -> None:
        with pytest.raises(UnsupportedError, match="invariant of column 'id'"):
            put(table_of(column("id", **{"delta.invariants": rule})), id=[4])


class TestNulls:
    def test_a_null_where_there_may_be_none(self) -> None:
        with pytest.raises(SchemaError, match="column id has nulls"):
            put(table_of(column("id", nullable=False)), id=[1, None])

    def test_also_inside_structs_lists_and_maps(self) -> None:
        inner = {"type": "struct", "fields": [column("n", "long", nullable=False)]}
        with pytest.raises(SchemaError, match=r"column s\.n has nulls"):
            put(table_of(column("s", inner)), s=pa.array([{"n": None}], pa.struct([("n", pa.int64())])))
        items = {"type": "array", "elementType": "long", "containsNull": False}
        with pytest.raises(SchemaError, match=r"column s\.element has nulls"):
            put(table_of(column("s", items)), s=[[1, None]])


class TestDefaults:
    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [
            ("long", "42", 42),
            ("byte", "-1", -1),
            ("string", "'it''s'", "it's"),
            ("string", "NULL", None),
            ("boolean", "true", True),
            ("double", "1.5", 1.5),
            ("double", "CAST('-Infinity' AS DOUBLE)", -math.inf),
            ("decimal(5,2)", "1.5", Decimal("1.50")),
            ("date", "DATE '2026-01-31'", date(2026, 1, 31)),
            ("timestamp", "TIMESTAMP '2026-01-31 23:59:59.999999Z'", NOON),
            ("binary", "X'00ff'", b"\x00\xff"),
            ({"type": "array", "elementType": "long", "containsNull": True}, "null", None),
        ],
    )
    def test_a_missing_column_gets_its_literal(self, kind: Any, text: str, value: object) -> None:
        metadata = table_of(column("a"), column("d", kind, CURRENT_DEFAULT=text), column("z"))
        assert put(metadata, Z=[9, 8], a=[1, 2]) == [{"a": 1, "d": value, "z": 9}, {"a": 2, "d": value, "z": 8}]

    def test_a_value_that_is_given_stays_null_or_not(self) -> None:
        metadata = table_of(column("d", CURRENT_DEFAULT="42"))
        assert put(metadata, D=pa.array([1, None], pa.int64())) == [{"d": 1}, {"d": None}]

    @pytest.mark.parametrize(
        "text", ["current_date()", "1 + 1", "'x'", "1.5", "1 OR true", "1 AND d = 1", "d", "1 = 1", "", "99999999999"]
    )
    def test_anything_but_a_literal_of_the_type_is_refused_where_it_is_needed(self, text: str) -> None:
        metadata = table_of(column("a"), column("d", "integer", CURRENT_DEFAULT=text))
        with pytest.raises(UnsupportedError, match="default of column 'd'") as refused:
            put(metadata, a=[1])
        assert refused.value.hint == "give the column d in the data"
        assert put(metadata, a=[1], d=[2]) == [{"a": 1, "d": 2}]

    def test_without_the_feature_a_missing_column_is_missing(self) -> None:
        plain = TableProtocol(min_reader_version=1, min_writer_version=2)
        with pytest.raises(SchemaError, match="column d is missing"):
            put(table_of(column("a"), column("d", CURRENT_DEFAULT="42")), plain, a=[1])

    def test_where_missing_columns_are_filled_a_default_goes_before_null(self) -> None:
        metadata = table_of(
            column("a"), column("d", CURRENT_DEFAULT="42"), generated("g", "long", "b"), column("b", "long")
        )
        assert enforce(metadata, PROTOCOL, pa.table({"a": [1]}), table="t", fill=True).to_pylist() == [
            {"a": 1, "d": 42, "g": None, "b": None}
        ]
        with pytest.raises(SchemaError, match="column b is missing"):
            put(metadata, a=[1])

    def test_a_default_must_keep_the_constraints_too(self) -> None:
        with pytest.raises(InvalidInputError, match="'positive'"):
            put(table_of(column("a"), column("d", CURRENT_DEFAULT="0"), positive="d > 0"), a=[1])


class TestGenerated:
    @pytest.mark.parametrize(
        ("kind", "expression", "value"),
        [
            ("timestamp", "at", NOON),
            ("date", "CAST(at AS DATE)", date(2026, 1, 31)),
            ("date", "cast ( `at` as date )", date(2026, 1, 31)),
            ("date", "(DATE(at))", date(2026, 1, 31)),
            ("date", "to_date(AT)", date(2026, 1, 31)),
            ("integer", "YEAR(at)", 2026),
            ("integer", "MONTH(CAST(at AS DATE))", 1),
            ("integer", "day(at)", 31),
            ("integer", "dayofmonth(at)", 31),
            ("integer", "HOUR(at)", 23),
            ("long", "CAST(s.n AS BIGINT)", 7),
            ("string", "CAST(s.n AS STRING)", "7"),
            ("string", "CAST(CAST(at AS DATE) AS STRING)", "2026-01-31"),
            ("double", "CAST(f AS DOUBLE)", 1.5),
        ],
    )
    def test_it_is_worked_out_where_it_is_missing_and_compared_where_it_is_given(
        self, kind: str, expression: str, value: object
    ) -> None:
        inner = {"type": "struct", "fields": [column("n", "integer")]}
        metadata = table_of(
            generated("g", kind, expression), column("at", "timestamp"), column("s", inner), column("f", "float")
        )
        data = {
            "at": pa.array([NOON, None], pa.timestamp("us", "UTC")),
            "s": [{"n": 7}, None],
            "f": pa.array([1.5, None], pa.float32()),
        }
        made = enforce(metadata, PROTOCOL, pa.table(data), table="t")
        assert made.column_names == ["g", "at", "s", "f"]
        assert made["g"].to_pylist() == [value, None]
        given = {**data, "G": made["g"]}
        assert put(metadata, **given) == made.to_pylist()
        with pytest.raises(InvalidInputError, match="1 of 2 rows have another value in the generated column 'g'"):
            put(metadata, **{**given, "G": pa.array([value, value], made["g"].type)})
        with pytest.raises(InvalidInputError, match=r"1 of 2 rows .*; the first has null, it must be "):
            put(metadata, **{**given, "G": pa.array([None, None], made["g"].type)})

    def test_a_moment_before_1970_belongs_to_its_own_day(self) -> None:
        metadata = table_of(column("at", "timestamp"), generated("g", "date", "CAST(at AS DATE)"))
        before = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
        assert put(metadata, at=pa.array([before], pa.timestamp("us", "UTC")))[0]["g"] == date(1969, 12, 31)

    def test_nan_equals_itself(self) -> None:
        metadata = table_of(column("f", "double"), generated("g", "double", "f"))
        (row,) = put(metadata, f=[math.nan], g=[math.nan])
        assert math.isnan(row["g"])

    def test_a_generated_null_where_there_may_be_none(self) -> None:
        metadata = table_of(column("a"), generated("g", "long", "a", nullable=False))
        with pytest.raises(SchemaError, match="column g has nulls"):
            put(metadata, a=pa.array([None], pa.int64()))

    def test_constraints_see_it(self) -> None:
        metadata = table_of(column("a"), generated("g", "long", "a"), positive="g > 0")
        with pytest.raises(InvalidInputError, match="g = 0"):
            put(metadata, a=[0])

    @pytest.mark.parametrize(
        ("expression", "said"),
        [
            ("date_format(at, 'yyyy-MM')", "'as|date_format|is not understood"),
            ("upper(name)", "the function upper is not known"),
            ("a + 1", "is not understood"),
            ("nope", "there is no column nope"),
            ("a.b", "there is no column a.b"),
            ("CAST(name AS BIGINT)", "CAST from string to"),
            ("CAST(a AS INT)", "CAST from"),
            ("YEAR(a)", "YEAR of a column of type"),
            ("HOUR(CAST(at AS DATE))", "HOUR of a column of type date"),
            ("name", "it gives string"),
            ("other", "another generated column"),
            ("CAST(a AS BIGINT", "missing"),
            ("a a", "not expected"),
            ("", "a name is missing"),
        ],
    )
    def test_what_cannot_be_worked_out_forbids_the_write_even_where_it_is_given(
        self, expression: str, said: str
    ) -> None:
        metadata = table_of(
            column("a"),
            column("name", "string"),
            column("at", "timestamp"),
            generated("other", "long", "a"),
            generated("g", "long", expression),
        )
        with pytest.raises(UnsupportedError, match=f"generated column 'g'.*(?:{said})"):
            rules_of(metadata, PROTOCOL, table="t")

    def test_without_the_feature_it_is_a_plain_column(self) -> None:
        metadata = table_of(column("a"), generated("g", "long", "nonsense("))
        plain = TableProtocol(min_reader_version=1, min_writer_version=2)
        assert put(metadata, plain, a=[1], g=[5]) == [{"a": 1, "g": 5}]


class TestIdentity:
    def test_a_column_that_counts_by_itself_forbids_the_write(self) -> None:
        metadata = table_of(column("id", **{"delta.identity.start": 1, "delta.identity.step": 1}))
        with pytest.raises(UnsupportedError, match="column 'id' counts by itself"):
            put(metadata, id=[1])


def test_the_rules_of_a_plain_table_are_its_schema() -> None:
    metadata = table_of(column("a"), column("b", "string"))
    rules = rules_of(metadata, PROTOCOL, table="t")
    assert (rules.constraints, rules.defaults, rules.generated) == ((), (), {})
    assert json.loads(schema_string(rules.schema)) == json.loads(metadata.schema_string)
    assert rules.fit(pa.table({"B": ["x"], "a": [1]})).to_pylist() == [{"a": 1, "b": "x"}]
