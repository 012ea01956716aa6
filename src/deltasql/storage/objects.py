"""Objects in the stores that obstore reaches."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import obstore
from obstore import exceptions as obstore_errors

from deltasql.errors import InvalidInputError, ObjectNotFoundError
from deltasql.storage.base import ObjectMeta
from deltasql.storage.failures import classify, http_status
from deltasql.storage.keys import check_key, check_prefix

if TYPE_CHECKING:
    from obstore import ObjectMeta as FoundObject
    from obstore.store import ObjectStore as AnyObstore

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ObstoreStore:
    """An `ObjectStore` over a store of obstore that points at the folder `url`.

    Build that store without retries: a put-if-absent sent again after a lost answer meets its own object.
    """

    def __init__(self, store: AnyObstore, url: str) -> None:
        self._store = store
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    def get(self, key: str) -> bytes:
        with _classified(key):
            return bytes(obstore.get(self._store, _path(key)).bytes())

    def head(self, key: str) -> ObjectMeta | None:
        try:
            with _classified(key):
                return _meta(obstore.head(self._store, _path(key)))
        except ObjectNotFoundError:
            return None

    def put(self, key: str, data: bytes) -> None:
        with _classified(key):
            obstore.put(self._store, _path(key), data)

    def put_if_absent(self, key: str, data: bytes, *, modified: int | None = None) -> bool:  # noqa: ARG002
        # `modified` is not for these stores: they show their own times.
        with _classified(key):
            try:
                obstore.put(self._store, _path(key), data, mode="create")
            except obstore_errors.AlreadyExistsError as error:
                if http_status(error) == 409:  # another put is under way: nobody knows yet who wins
                    raise
                return False
        return True

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        # obstore matches prefixes by whole folders, takes only valid keys as offsets, and promises no order.
        folder, after = check_prefix(prefix).rpartition("/")[0], start_after or ""
        if _CONTROL.search(folder):
            return iter(())
        with _classified(prefix):
            found = obstore.list(self._store, folder, offset=after if _is_path(after) else None).collect()
        metas = [_meta(each) for each in found if each["path"].startswith(prefix) and each["path"] > after]
        return iter(sorted(metas, key=lambda meta: meta.key))

    def delete(self, key: str) -> None:
        try:
            with _classified(key):
                obstore.delete(self._store, _path(key))
        except ObjectNotFoundError:
            return

    def rename(self, source: str, target: str) -> None:
        with _classified(source):
            obstore.rename(self._store, _path(source), _path(target), overwrite=False)

    def sync(self, keys: Sequence[str]) -> None:
        """Nothing to do: these stores answer a put once it is durable."""


def _path(key: str) -> str:
    if _CONTROL.search(check_key(key)):
        raise InvalidInputError(
            f"key {key!r} has a control character, which this store cannot hold", hint="escape it", field="key"
        )
    return key


def _is_path(text: str) -> bool:
    try:
        _path(text)
    except InvalidInputError:
        return False
    return True


def _meta(found: FoundObject) -> ObjectMeta:
    modified = int(found["last_modified"].timestamp() * 1000)
    return ObjectMeta(key=found["path"], size=found["size"], modified=modified, etag=found["e_tag"])


@contextmanager
def _classified(key: str) -> Generator[None]:
    try:
        yield
    except (OSError, obstore_errors.BaseError) as error:
        raise classify(error, key) from error
