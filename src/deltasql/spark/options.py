"""The options of `format("deltasql")`, checked whole."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from deltasql.errors import ConfigError

_STORAGE = "storage."
# Spark folds option names to lower case; these are the spellings people write.
_KNOWN = {
    name.lower(): name
    for name in ("ledger", "table", "versionAsOf", "timestampAsOf", "filter", "commitToken", "maxFileBytes")
}


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a read or write was asked for. Crosses to other processes, so it holds nothing but text."""

    ledger: str
    table: str
    version: int | None = None
    timestamp: str | None = None
    filter: str | None = None
    token: str | None = None
    max_file_bytes: int | None = None
    storage: Mapping[str, str] = {}


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    options = {name.lower(): value for name, value in given.items()}
    storage = {name.removeprefix(_STORAGE): options.pop(name) for name in list(options) if name.startswith(_STORAGE)}
    if unknown := sorted(set(options) - set(_KNOWN)):
        raise ConfigError(
            f"the option {unknown[0]!r} of format deltasql is not known",
            hint=f"known are {', '.join(sorted(_KNOWN.values()))} and {_STORAGE}<key>; a table is named, not a path",
            field=unknown[0],
        )
    for name in ("ledger", "table"):
        if not options.get(name):
            raise ConfigError(
                f"format deltasql needs the option {name!r}",
                hint=f'add .option("{name}", {"sqlite:///lake.db" if name == "ledger" else "sales.orders"!r})',
                field=name,
            )
    version, timestamp = options.get("versionasof"), options.get("timestampasof")
    if version is not None and timestamp is not None:
        raise ConfigError("both versionAsOf and timestampAsOf", hint="give one of them", field="versionAsOf")
    size = _number("maxFileBytes", options.get("maxfilebytes"))
    if size is not None and size <= 0:
        raise ConfigError(f"maxFileBytes is {size}", hint="give a number above 0", field="maxFileBytes")
    if options.get("committoken") == "":
        raise ConfigError("commitToken is empty", hint="give text that is this commit's own", field="commitToken")
    return SourceOptions(
        ledger=options["ledger"],
        table=options["table"],
        version=_number("versionAsOf", version),
        timestamp=timestamp,
        filter=options.get("filter"),
        token=options.get("committoken"),
        max_file_bytes=size,
        storage=storage,
    )


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r:.100}", hint="give a whole number", field=name) from error
