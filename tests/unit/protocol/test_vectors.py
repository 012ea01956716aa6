"""Where deletion vectors lie, by the protocol's own examples."""

from __future__ import annotations

import pytest

from deltasql.errors import MalformedLogError
from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.vectors import vector_path

pytestmark = pytest.mark.unit


def vector(storage_type: str, text: str) -> DeletionVector:
    return DeletionVector(storage_type=storage_type, path_or_inline_dv=text, size_in_bytes=40, cardinality=6)


@pytest.mark.parametrize(
    ("storage_type", "text", "path"),
    [
        ("u", "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("p", "s3://mytable/deletion_vector_d2c639aa.bin", "s3://mytable/deletion_vector_d2c639aa.bin"),
        ("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None),
    ],
    ids=["in a folder", "in the table's root", "absolute", "inline"],
)
def test_the_place_of_a_vector(storage_type: str, text: str, path: str | None) -> None:
    assert vector_path(vector(storage_type, text)) == path


@pytest.mark.parametrize(
    ("storage_type", "text"), [("x", "a"), ("u", ""), ("u", "short"), ("u", "^-aqEH.-t@S}K{vb[*k~"), ("u", "é" * 20)]
)
def test_a_vector_the_protocol_does_not_know_is_refused(storage_type: str, text: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        vector_path(vector(storage_type, text))
    assert caught.value.field == "deletionVector"
    assert caught.value.hint
