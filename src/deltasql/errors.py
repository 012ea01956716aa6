"""Every error deltasql raises, in one tree.

    DeltaSqlError
    ├── ConfigError                 wrong use: a URL, a setting, an option
    │   ├── LedgerVersionError      the database's schema is older or newer than this release
    │   └── UnsupportedError        a feature that deltasql does not do (here, or yet)
    ├── NotFoundError
    │   ├── TableNotFoundError
    │   └── VersionNotFoundError    a version or instant outside the table's history
    ├── TableExistsError
    ├── InvalidInputError           a value that cannot be accepted; names the field
    │   ├── SchemaError             a schema that Delta cannot express, or data that does not fit the table
    │   └── PredicateError          a predicate that does not parse or names an unknown column
    ├── ConflictError               a concurrent commit won; carries the `Conflict`
    ├── LedgerError                 the database refused or failed
    │   ├── LedgerBusyError         locked by another process; trying again may help
    │   │   └── LedgerRaceError     the database gave this transaction up for another
    │   ├── LedgerUnavailableError  the database cannot be reached
    │   │   └── CommitUnknownError  the connection was lost during a commit, which may or may not stand
    │   ├── LedgerCorruptError      the ledger contradicts itself
    │   └── LedgerFullError         the database's disk is full
    ├── StorageError                the object store refused or failed
    │   ├── ObjectNotFoundError
    │   ├── StoragePermissionError
    │   ├── StorageFullError        no space left, or a quota is used up
    │   └── StorageUnavailableError an answer never came, or a passing failure
    └── LogError                    a `_delta_log` that is not what it must be
        ├── MalformedLogError       a file of it cannot be read as the protocol says
        ├── ForeignCommitError      a commit that the ledger does not know
        └── QuarantinedError        the table is stopped until an operator decides

Two questions decide what a caller does with one: may the same call be tried again (`retry`), and would it
succeed on a newer snapshot (`rebase`)?

    class                     error_class  severity  retry  rebase
    ConfigError               config       error     no     no
    NotFoundError             config       error     no     no
    TableExistsError          config       error     no     no
    InvalidInputError         config       error     no     no
    ConflictError             conflict     warning   no     yes
    LedgerError               bug          critical  no     no
    LedgerBusyError           transient    warning   yes    no
    LedgerUnavailableError    transient    critical  yes    no
    CommitUnknownError        transient    critical  no     no
    LedgerCorruptError        corrupt      critical  no     no
    LedgerFullError           capacity     critical  yes    no
    StorageError              bug          error     no     no
    ObjectNotFoundError       config       error     no     no
    StoragePermissionError    auth         error     no     no
    StorageFullError          capacity     error     no     no
    StorageUnavailableError   transient    warning   yes    no
    LogError                  corrupt      error     no     no
    MalformedLogError         corrupt      error     no     no
    ForeignCommitError        foreign      critical  no     no
    QuarantinedError          foreign      error     no     no

Expected outcomes are not errors below the client: a lost race is a `Conflict` value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from deltasql.outcomes import Conflict

ErrorClass = Literal["transient", "throttled", "auth", "config", "conflict", "foreign", "corrupt", "capacity", "bug"]
Severity = Literal["warning", "error", "critical"]


class DeltaSqlError(Exception):
    """Base of every error. `hint` is the next step in words; `field` names the input at fault, where there is one."""

    error_class: ClassVar[ErrorClass] = "bug"
    severity: ClassVar[Severity] = "error"
    retry: ClassVar[bool] = False
    rebase: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.field = field

    def __str__(self) -> str:
        return f"{self.message} → {self.hint}" if self.hint else self.message

    def as_dict(self) -> dict[str, object]:
        """The error as plain values, for `--json` and reports."""
        return {
            "error": type(self).__name__,
            "error_class": self.error_class,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
            "field": self.field,
        }


class ConfigError(DeltaSqlError):
    error_class = "config"


class LedgerVersionError(ConfigError):
    pass


class UnsupportedError(ConfigError):
    pass


class NotFoundError(DeltaSqlError):
    error_class = "config"


class TableNotFoundError(NotFoundError):
    pass


class VersionNotFoundError(NotFoundError):
    pass


class TableExistsError(DeltaSqlError):
    error_class = "config"


class InvalidInputError(DeltaSqlError):
    error_class = "config"


class SchemaError(InvalidInputError):
    pass


class PredicateError(InvalidInputError):
    pass


class ConflictError(DeltaSqlError):
    """A concurrent commit won and the two cannot both stand; `conflict` names the winning version and the files."""

    error_class = "conflict"
    severity = "warning"
    rebase = True

    def __init__(self, conflict: Conflict) -> None:
        super().__init__(
            f"table {conflict.table}: {conflict.detail} (winning version {conflict.winning_version})",
            hint="read the table again and repeat the operation on the new version",
        )
        self.conflict = conflict


class LedgerError(DeltaSqlError):
    severity = "critical"


class LedgerBusyError(LedgerError):
    error_class = "transient"
    severity = "warning"
    retry = True


class LedgerRaceError(LedgerBusyError):
    pass


class LedgerUnavailableError(LedgerError):
    error_class = "transient"
    retry = True


class CommitUnknownError(LedgerUnavailableError):
    """Whether the commit stands is not known. Repeated with `token`, it is made once, whatever happened."""

    # Blindly repeated it might be made twice.
    retry = False

    def __init__(self, message: str, *, token: str) -> None:
        super().__init__(message, hint=f"repeat it with token={token!r}: where it stands, that returns its version")
        self.token = token


class LedgerCorruptError(LedgerError):
    error_class = "corrupt"


class LedgerFullError(LedgerError):
    error_class = "capacity"
    retry = True


class StorageError(DeltaSqlError):
    pass


class ObjectNotFoundError(StorageError):
    error_class = "config"


class StoragePermissionError(StorageError):
    error_class = "auth"


class StorageFullError(StorageError):
    error_class = "capacity"


class StorageUnavailableError(StorageError):
    error_class = "transient"
    severity = "warning"
    retry = True


class LogError(DeltaSqlError):
    error_class = "corrupt"


class MalformedLogError(LogError):
    pass


class ForeignCommitError(LogError):
    error_class = "foreign"
    severity = "critical"


class QuarantinedError(LogError):
    error_class = "foreign"


class DurabilityWarning(UserWarning):
    """The database's settings allow it to lose what it has acknowledged."""
