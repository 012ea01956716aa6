"""Where deletion vectors lie."""

from __future__ import annotations

import base64
from uuid import UUID

from deltasql.errors import MalformedLogError
from deltasql.protocol.actions import DeletionVector

# The same digits in two orders: the protocol's Base85 (ZeroMQ's) and Python's.
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_DIGITS = str.maketrans(_Z85, _B85)
_UUID_DIGITS = 20


def vector_path(vector: DeletionVector) -> str | None:
    """The key of a vector's file below the table's root, or its absolute path; None where the action holds it whole."""
    text = vector.path_or_inline_dv
    match vector.storage_type:
        case "i":
            return None
        case "p":
            return text
        case "u":
            folder, encoded = text[:-_UUID_DIGITS], text[-_UUID_DIGITS:]
            if not set(encoded) <= set(_Z85):
                raise _bad(vector)
            try:
                name = f"deletion_vector_{UUID(bytes=base64.b85decode(encoded.translate(_DIGITS)))}.bin"
            except ValueError as error:
                raise _bad(vector) from error
            return f"{folder}/{name}" if folder else name
        case _:
            raise _bad(vector)


def _bad(vector: DeletionVector) -> MalformedLogError:
    return MalformedLogError(
        f"a deletion vector of storage type {vector.storage_type!r:.20} lies at {vector.path_or_inline_dv!r:.100}",
        hint="the protocol knows no such vector: find out which writer made it",
        field="deletionVector",
    )
