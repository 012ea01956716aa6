"""Values that readers get wrong, if any: the ends of every type, and text that paths, JSON and URLs trip over."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

_NAN, _INFINITY = float("nan"), float("inf")

# The types that a partition column may have too. Nothing had to be left out: all readers know the years 1 to 9999,
# both infinities, NaN and 38 digits.
PRIMITIVES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, 127, 0]),
    "short": (pa.int16(), [-32768, 32767, 0]),
    "integer": (pa.int32(), [-(2**31), 2**31 - 1, 0]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, 0, 2**53 + 1]),
    "float": (
        pa.float32(),
        [0.0, -0.0, _NAN, _INFINITY, -_INFINITY, 3.4028234663852886e38, 1.401298464324817e-45, 0.5, 16777216.0, 1e10],
    ),
    "double": (
        pa.float64(),
        [0.0, -0.0, _NAN, _INFINITY, -_INFINITY, 1.7976931348623157e308, 5e-324, 0.1, 1 / 3, 1e22, 1e-5, 123456789.125],
    ),
    "decimal": (pa.decimal128(9, 2), [Decimal("9999999.99"), Decimal("-9999999.00"), Decimal("0.00")]),
    "decimal_18": (pa.decimal128(18, 4), [Decimal("99999999999999.9999"), Decimal("-1.0000"), Decimal("0.0001")]),
    "decimal_38": (
        pa.decimal128(38, 18),
        [Decimal(f"{'9' * 20}.{'9' * 18}"), Decimal(f"-{'9' * 20}"), Decimal("0.000000000000000001")],
    ),
    "decimal_whole": (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0)]),
    "date": (
        pa.date32(),
        # Days on both sides of the epoch, of the Gregorian calendar's first day, and the first and last of all.
        [
            *(date(1970, 1, 1), date(1969, 12, 31), date(1582, 10, 4), date(1582, 10, 15)),
            *(date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)),
        ],
    ),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(1582, 10, 4, 23, 59, 59, 1, UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(2024, 3, 10, 2, 30, 0, 120000, UTC),
        ],
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        [
            datetime.fromisoformat("1970-01-01T00:00:00"),
            datetime.fromisoformat("1969-12-31T23:59:59.999999"),
            datetime.fromisoformat("0001-01-01T00:00:00"),
            datetime.fromisoformat("9999-12-31T23:59:59.999999"),
            # An hour that does not exist in most of Europe: a reader that thinks of zones moves it.
            datetime.fromisoformat("2024-03-31T02:30:00.000100"),
        ],
    ),
}

# Apart, because one reader does not know them as partition values.
NEGATIVE_FRACTIONS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "negative": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("-0.01")]),
    "negative_18": (pa.decimal128(18, 4), [Decimal("-99999999999999.9999"), Decimal("-0.9999")]),
    "negative_38": (pa.decimal128(38, 18), [Decimal(f"-{'9' * 20}.{'9' * 18}"), Decimal("-0.000000000000000001")]),
}

# Apart, because their partition values have cases of their own.
TEXT_AND_BYTES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (
        pa.string(),
        ["", "plain", 'q"\\\n\t\0\x1f\x7f', "é e\u0301 İ ß 日本 😀 \U0010ffff", "a" * 40, "\u2028" * 33],
    ),
    "binary": (pa.binary(), [b"", b"\0", b"\xff\xfe", "é".encode(), b"a" * 40]),
}

# As partition values each becomes a directory's name: escaped for Hive, then for the URL, then inside JSON.
STRINGS = [
    *("plain", "with space", " leading", "trailing ", "two  spaces", "UPPER", "upper", "x" * 100),
    *("a/b", "/", "c:d", "file:///x", "s3://b/c", "back\\slash", "\\", ".", "..", "a..b", ".hidden", "_x"),
    *("50%", "%", "%%", "%20", "%2F", "%zz", "a%3Ab", "\\u0041", "a+b", "a&b", "h#h", "q?q", "a=b", "p=1/q=2"),
    *('say "hi"', "it's", "`tick`", "{brace}", "[bracket]", "(round)", "<angle>", "^", "*", "|", "~", "!", "$", "@"),
    *(";", ",", "é", "e\u0301", "İ", "ß", "日本", "😀", "👩‍👧", "\U0010ffff", "\ud7ff", "שלום"),
    *(
        "\0",
        "a\0b",
        "\x01",
        "\x1f",
        "\x7f",
        "\x80",
        "\n",
        "\t",
        "\r",
        "\r\n",
        "\x85",
        "\xa0",
        "\u200b",
        "\u2028",
        "\ufeff",
    ),
    *("null", "NULL", "None", "true", "0", "1.0", "2024-01-01", "NaN"),
]
