"""Literals of Spark SQL: from their spelling to a typed value, from one type to another, and back to a spelling.

A `ValueError` says what is wrong with a value; the parser adds where it stands. Times without a zone are UTC.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import msgspec

from deltasql.protocol.numbers import single
from deltasql.protocol.schema import MAX_DECIMAL_PRECISION, DataType, DecimalType, PrimitiveType

Value = bool | int | float | Decimal | str | bytes | date | datetime

VOID = PrimitiveType("void")
BOOLEAN = PrimitiveType("boolean")
INTEGER = PrimitiveType("integer")
LONG = PrimitiveType("long")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
STRING = PrimitiveType("string")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

# Wide enough for any double beside any scale: nothing is ever rounded in it.
EXACT = Context(prec=800)

_SQL_TYPES = {
    "boolean": BOOLEAN,
    "tinyint": PrimitiveType("byte"),
    "byte": PrimitiveType("byte"),
    "smallint": PrimitiveType("short"),
    "short": PrimitiveType("short"),
    "int": INTEGER,
    "integer": INTEGER,
    "bigint": LONG,
    "long": LONG,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}

_SUFFIX_TYPES = {"L": "long", "S": "short", "Y": "byte"}
_NUMBER = re.compile(r"([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++))(e[+-]?[0-9]++)?(bd|[lsydf])?", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[01][0-7]{2}|.)", re.DOTALL)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL_FLOATS = {
    "nan": math.nan,
    "infinity": math.inf,
    "inf": math.inf,
    "+infinity": math.inf,
    "+inf": math.inf,
    "-infinity": -math.inf,
    "-inf": -math.inf,
}
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T](?:([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?(?: ?([A-Za-z+-].*))?)?)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")


class Literal(msgspec.Struct, frozen=True):
    """A value with the type Spark gives its spelling; None is NULL."""

    value: Value | None
    type: DataType


def type_name(kind: DataType) -> str:
    return (
        kind.name if isinstance(kind, PrimitiveType | DecimalType) else type(kind).__name__.removesuffix("Type").lower()
    )


def sql_type(name: str, arguments: tuple[int, ...]) -> DataType:
    """The type a CAST names."""
    if name.lower() in {"decimal", "dec", "numeric"} and len(arguments) <= 2:
        precision, scale = (*arguments, *(10, 0)[len(arguments) :])
        if not (0 < precision <= MAX_DECIMAL_PRECISION and scale <= precision):
            raise ValueError(f"decimal({precision},{scale}) does not exist")
        return DecimalType(precision, scale)
    kind = _SQL_TYPES.get(name.lower())
    if kind is None or arguments:
        raise ValueError(f"{name} is not a type that CAST knows here")
    return kind


def number_literal(text: str) -> Literal:
    """A number, sign included: `1`, `-1.5` (a decimal), `1e3` (a double), `10L`, `1.5D`, `2BD` …"""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:50]!r} is not a number")
    digits, exponent, suffix = match[1], match[2] or "", (match[3] or "").upper()
    if suffix in {"D", "F"} or (exponent and suffix != "BD"):
        number = float(digits + exponent)
        if suffix == "F":
            number = to_float32(number)
        if math.isinf(number):
            raise ValueError(f"{text[:50]} is beyond the range of its type")
        return Literal(number, FLOAT if suffix == "F" else DOUBLE)
    if suffix in _SUFFIX_TYPES:
        if "." in digits:
            raise ValueError(f"{text[:50]} is not a whole number")
        kind = PrimitiveType(_SUFFIX_TYPES[suffix])
        return Literal(fit_number(_decimal(digits), kind), kind)
    exact = _decimal(digits + exponent)
    if suffix or "." in digits:
        scale = max(0, -int(exact.as_tuple().exponent))
        return Literal(exact, DecimalType(max(scale, exact.adjusted() + 1 + scale, 1), scale))
    whole = int(exact)
    bits = whole.bit_length() if whole >= 0 else (whole + 1).bit_length()
    return Literal(whole, INTEGER if bits < 32 else LONG if bits < 64 else DecimalType(len(digits.lstrip("+-0")), 0))


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError("a number has too large an exponent") from None
    exponent = int(number.as_tuple().exponent)
    digits = max(number.adjusted() + 1, 0) + max(-exponent, 0)
    if digits > MAX_DECIMAL_PRECISION:
        raise ValueError(f"a decimal has at most {MAX_DECIMAL_PRECISION} digits")
    return number


def string_literal(token: str) -> str:
    """The text of a quoted token, its escapes and doubled quotes resolved."""
    quote, body = token[0], token[1:-1]
    pieces: list[str] = []
    end = 0
    for match in _ESCAPE.finditer(body):
        pieces += body[end : match.start()].replace(quote * 2, quote), _unescape(match[1])
        end = match.end()
    text = "".join([*pieces, body[end:].replace(quote * 2, quote)])
    if _SURROGATE.search(text):
        # Escapes may spell a character as a pair of surrogates, as Java does.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if "\ufffd" in text:
            raise ValueError("half of a surrogate pair is no character")
    return text


def _unescape(code: str) -> str:
    if len(code) == 1:
        return _ESCAPES.get(code, code)
    point = int(code, 8) if code[0] in "01" else int(code[1:], 16)
    if point > 0x10FFFF:
        raise ValueError(f"\\{code} is not a character")
    return chr(point)


def cast_literal(literal: Literal, kind: DataType) -> Literal:
    """What CAST gives under ANSI rules: a value that does not fit is an error."""
    value = literal.value
    if value is None or literal.type == kind:
        return Literal(value, kind)
    if isinstance(value, str):
        return Literal(_fitted(parse_text(value, kind), kind), kind)
    match kind, value:
        case PrimitiveType("string"), bool():
            return Literal(str(value).lower(), kind)
        case PrimitiveType("string"), int():
            return Literal(str(value), kind)
        case PrimitiveType("string"), Decimal():
            return Literal(f"{value:f}", kind)
        case PrimitiveType("string"), bytes():
            return Literal(value.decode(), kind)
        case PrimitiveType("boolean"), int() | float() | Decimal():
            return Literal(value != 0, kind)
        case PrimitiveType("date"), datetime():
            return Literal(naive(value).date(), kind)
        case PrimitiveType("timestamp"), date():
            return Literal(naive(value).replace(tzinfo=UTC), kind)
        case PrimitiveType("timestamp_ntz"), date():
            return Literal(naive(value), kind)
        case _, bool() | int() | float() | Decimal() if is_numeric(kind):
            return Literal(fit_number(value, kind), kind)
        case _:
            raise ValueError(f"CAST from {type_name(literal.type)} to {type_name(kind)} is not known here")


def _fitted(value: Value, kind: DataType) -> Value:
    return fit_number(value, kind) if isinstance(value, int | float | Decimal) and is_numeric(kind) else value


def is_numeric(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or (
        isinstance(kind, PrimitiveType) and (kind.name in INTEGER_BITS or kind.name in {"float", "double"})
    )


def fit_number(value: int | float | Decimal, kind: DataType) -> Value:
    """A number as the numeric type holds it: cut to a whole number, or rounded to the scale; never wrapped around."""
    if kind == DOUBLE:
        return clean_float(float(value))
    if kind == FLOAT:
        return to_float32(float(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} does not fit {type_name(kind)}")
    exact = exact_number(value)
    if isinstance(kind, DecimalType):
        rounded = round_to_scale(Decimal(exact), kind.scale)
        if rounded.copy_abs() >= 10 ** (kind.precision - kind.scale):
            raise ValueError(f"{value} does not fit {kind.name}")
        return rounded
    low, high = integer_range(type_name(kind))
    whole = int(exact)
    if not low <= whole <= high:
        raise ValueError(f"{value} does not fit {type_name(kind)}")
    return whole


def round_to_scale(number: Decimal, scale: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)


def integer_range(name: str) -> tuple[int, int]:
    bits = INTEGER_BITS[name] - 1
    return -(1 << bits), (1 << bits) - 1


def exact_number(value: int | float | Decimal) -> int | float | Decimal:
    """A number for exact columns: a double counts as the shortest decimal that names it; only infinities stay floats.

    NaN becomes infinity: it lies above every number, and no exact column holds either.
    """
    if not isinstance(value, float):
        return value
    return Decimal(repr(value)) if math.isfinite(value) else value if value < 0 else math.inf


def clean_float(value: float) -> float:
    """One NaN and one zero, because Spark takes all NaNs for equal and both zeros for equal."""
    return math.nan if math.isnan(value) else value + 0.0


def to_float32(value: float) -> float:
    """The nearest 32-bit number; beyond the range it is infinite."""
    try:
        return clean_float(single(value))
    except OverflowError:
        return math.copysign(math.inf, value)


def naive(value: date) -> datetime:
    """Any date or time as a UTC time without a zone."""
    if not isinstance(value, datetime):
        return datetime.combine(value, time())
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


def parse_text(text: str, kind: DataType) -> Value:
    """A string as Spark casts it under ANSI rules. A decimal keeps all its digits."""
    if kind == STRING:
        return text
    if kind == BINARY:
        return text.encode()
    value = _parse_trimmed(text.strip(), kind)
    if value is None:
        raise ValueError(f"{text[:50]!r} is not of type {type_name(kind)}")
    return value


def _parse_trimmed(text: str, kind: DataType) -> Value | None:
    match type_name(kind):
        case "boolean":
            return text.lower() in _TRUE if text.lower() in _TRUE | _FALSE else None
        case name if name in INTEGER_BITS:
            return fit_number(_decimal(text), kind) if re.fullmatch("[+-]?[0-9]+", text) else None
        case "float" | "double":
            special = _SPECIAL_FLOATS.get(text.lower())
            return special if special is not None else fit_number(float(text), kind) if _is_number(text) else None
        case "date":
            return _parse_date(text)
        case "timestamp" | "timestamp_ntz":
            return _parse_timestamp(text, zoned=kind == TIMESTAMP)
        case _ if isinstance(kind, DecimalType) and _is_number(text):
            return exact_number(float(text)) if "e" in text.lower() else _decimal(text)
        case _:
            return None


def _is_number(text: str) -> bool:
    match = _NUMBER.fullmatch(text)
    return match is not None and match[3] is None


def _parse_date(text: str) -> date | None:
    match = _DATE.fullmatch(text)
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1)) if match else None
    except ValueError:
        return None


def _parse_timestamp(text: str, *, zoned: bool) -> datetime | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if zone and not zoned:
        raise ValueError(f"{text[:50]!r} has a time zone, and a timestamp_ntz has none")
    try:
        local = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "")[:6].ljust(6, "0")),
            _zone(zone),
        )
        return local.astimezone(UTC) if zoned else local.replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone:
    if text is None or text in {"Z", "UTC", "GMT", "UT"}:
        return UTC
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise ValueError("names of zones are not known here, because their rules differ from machine to machine")
    offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    return timezone(-offset if match[1] == "-" else offset)


def spell(value: Value) -> str:
    """A literal of Spark SQL that means the same in every session."""
    match value:
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case float():
            if math.isfinite(value):
                return f"{value!r}D"
            return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\u0000")
            return f"'{escaped}'"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime():
            name, zone = ("TIMESTAMP", "Z") if value.tzinfo else ("TIMESTAMP_NTZ", "")
            return f"{name} '{naive(value).isoformat(' ')}{zone}'"
        case date():
            return f"DATE '{value.isoformat()}'"
