"""Table properties: meaning, defaults, refusals."""

from __future__ import annotations

import pytest

from deltasql.errors import DeltaSqlError, InvalidInputError, UnsupportedError
from deltasql.protocol import properties

pytestmark = pytest.mark.unit

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 7 days", 7 * DAY),
        ("interval 1 week", 7 * DAY),
        ("INTERVAL 2 WEEKS", 14 * DAY),
        ("interval 1 day 12 hours", DAY + DAY // 2),
        ("3 minutes", 180_000),
        ("interval 0 hours", 0),
        ("interval 90 seconds 500 milliseconds", 90_500),
    ],
)
def test_intervals(text: str, milliseconds: int) -> None:
    assert properties.duration(text, "p") == milliseconds


@pytest.mark.parametrize("text", ["", "interval", "interval 1 month", "interval x days", "1 day and more", "7"])
def test_what_is_no_interval_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        properties.duration(text, "delta.logRetentionDuration")
    assert caught.value.field == "properties.delta.logRetentionDuration"


def test_defaults_are_deltas() -> None:
    assert properties.deleted_file_retention({}) == 7 * DAY
    assert properties.transaction_retention({}) is None
    assert properties.indexed_columns({}) == 32
    assert properties.stats_columns({}) is None
    assert properties.checkpoint_interval({}, 10) == 10
    assert not properties.append_only({})
    assert not properties.in_commit_timestamps({})


def test_a_tables_own_values_go_first() -> None:
    own = {
        "delta.checkpointInterval": "3",
        "delta.deletedFileRetentionDuration": "interval 1 hour",
        "delta.setTransactionRetentionDuration": "interval 2 hours",
        "delta.dataSkippingNumIndexedCols": "-1",
        "delta.dataSkippingStatsColumns": "a, `b`",
        "delta.appendOnly": "TRUE",
    }
    properties.check_properties(own)
    assert properties.checkpoint_interval(own, 10) == 3
    assert properties.deleted_file_retention(own) == 3_600_000
    assert properties.transaction_retention(own) == 7_200_000
    assert properties.indexed_columns(own) == -1
    assert properties.stats_columns(own) == ("a", "b")
    assert properties.append_only(own)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("delta.checkpointInterval", "0", InvalidInputError),
        ("delta.checkpointInterval", "ten", InvalidInputError),
        ("delta.appendOnly", "yes", InvalidInputError),
        ("delta.dataSkippingNumIndexedCols", "-2", InvalidInputError),
        ("delta.parquet.compression.codec", "zip", InvalidInputError),
        ("delta.isolationLevel", "WriteSerializable", InvalidInputError),
        ("delta.enableDeletionVectors", "true", UnsupportedError),
        ("delta.unheardOf", "1", UnsupportedError),
        ("mine", 1, InvalidInputError),
    ],
)
def test_bad_properties_are_refused_by_name(name: str, value: object, kind: type[DeltaSqlError]) -> None:
    with pytest.raises(kind) as caught:
        properties.check_properties({name: value})  # pyright: ignore[reportArgumentType]
    assert caught.value.hint
    assert name in caught.value.message


def test_properties_of_users_are_theirs() -> None:
    properties.check_properties({"owner": "sales", "quality": "gold"})
