"""Table properties: which ones there are, what their values mean, and what they stand at when unset."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from deltasql.errors import InvalidInputError, UnsupportedError

APPEND_ONLY = "delta.appendOnly"
CHECKPOINT_INTERVAL = "delta.checkpointInterval"
DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
LOG_RETENTION = "delta.logRetentionDuration"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
CODEC = "delta.parquet.compression.codec"

CODECS = ("none", "uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli")

_UNITS = {
    "microsecond": 0.001,
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_DURATION = re.compile(r"\s*(\d+)\s+([a-z]+?)s?(?=\s|$)", re.IGNORECASE)


def in_commit_timestamps(configuration: Mapping[str, str]) -> bool:
    return _is_true(configuration.get(IN_COMMIT_TIMESTAMPS))


def append_only(configuration: Mapping[str, str]) -> bool:
    return _is_true(configuration.get(APPEND_ONLY))


def checkpoint_interval(configuration: Mapping[str, str], default: int) -> int:
    text = configuration.get(CHECKPOINT_INTERVAL)
    return default if text is None else _positive(CHECKPOINT_INTERVAL, text)


def indexed_columns(configuration: Mapping[str, str]) -> int:
    """How many leading leaf columns get statistics; -1 means all."""
    return int(configuration.get(INDEXED_COLUMNS, "32"))


def stats_columns(configuration: Mapping[str, str]) -> tuple[str, ...] | None:
    """The columns named for statistics, where the table names them."""
    text = configuration.get(STATS_COLUMNS)
    return None if text is None else tuple(part.strip().strip("`") for part in text.split(",") if part.strip())


def deleted_file_retention(configuration: Mapping[str, str]) -> int:
    """How long a tombstone must stay, in milliseconds."""
    return duration(configuration.get(DELETED_FILE_RETENTION, "interval 1 week"), DELETED_FILE_RETENTION)


def transaction_retention(configuration: Mapping[str, str]) -> int | None:
    """How long an application's progress must stay, in milliseconds; None means for ever."""
    text = configuration.get(TRANSACTION_RETENTION)
    return None if text is None else duration(text, TRANSACTION_RETENTION)


def duration(text: str, name: str) -> int:
    """A Spark interval such as `interval 7 days` in milliseconds."""
    body = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    place, total = 0, 0.0
    while match := _DURATION.match(body, place):
        unit = match[2].lower()
        if unit not in _UNITS:
            break
        total += int(match[1]) * _UNITS[unit]
        place = match.end()
    if place == 0 or body[place:].strip():
        raise _bad(name, text, "an interval such as 'interval 7 days' (months and years have no fixed length)")
    return int(total)


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse values that Delta would not understand, and features that deltasql does not write."""
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(
                f"the property {name!r} must be text with a text value",
                hint=f'write {{"{name}": "{value}"}}',
                field="properties",
            )
        if name.startswith("delta."):
            check = _CHECKS.get(name)
            if check is None:
                raise UnsupportedError(
                    f"deltasql does not know the property {name!r}, or does not write tables that have it",
                    hint=f"leave it out; known are: {', '.join(sorted(_CHECKS))}",
                    field=f"properties.{name}",
                )
            check(name, value)


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"


def _bad(name: str, value: str, wanted: str) -> InvalidInputError:
    return InvalidInputError(
        f"the property {name} has the value {value!r:.100}", hint=f"give {wanted}", field=f"properties.{name}"
    )


def _positive(name: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise _bad(name, value, "a whole number above 0")
    return int(value)


def _boolean(name: str, value: str) -> None:
    if value.lower() not in ("true", "false"):
        raise _bad(name, value, "true or false")


def _interval(name: str, value: str) -> None:
    duration(value, name)


def _count(name: str, value: str) -> None:
    _positive(name, value)


def _indexed(name: str, value: str) -> None:
    if value != "-1" and not value.isdecimal():
        raise _bad(name, value, "a whole number, or -1 for all columns")


def _codec(name: str, value: str) -> None:
    if value.lower() not in CODECS:
        raise _bad(name, value, f"one of {', '.join(CODECS)}")


def _serializable(name: str, value: str) -> None:
    if value != "Serializable":
        raise _bad(name, value, "Serializable: a weaker level is chosen by the call, never by the table")


def _any(name: str, value: str) -> None:
    pass


_CHECKS: dict[str, Callable[[str, str], None]] = {
    APPEND_ONLY: _boolean,
    CHECKPOINT_INTERVAL: _count,
    "delta.checkpoint.writeStatsAsJson": _boolean,
    "delta.checkpoint.writeStatsAsStruct": _boolean,
    INDEXED_COLUMNS: _indexed,
    STATS_COLUMNS: _any,
    DELETED_FILE_RETENTION: _interval,
    IN_COMMIT_TIMESTAMPS: _boolean,
    "delta.isolationLevel": _serializable,
    LOG_RETENTION: _interval,
    CODEC: _codec,
    TRANSACTION_RETENTION: _interval,
}
