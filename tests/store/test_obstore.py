"""What obstore does beyond the contract: no order, and errors without codes.

The errors are provoked by a real server that answers as told, and by nobody answering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from obstore.store import LocalStore, S3Store

from deltasql.errors import (
    ObjectNotFoundError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageUnavailableError,
)
from deltasql.storage.failures import classify
from deltasql.storage.objects import ObstoreStore

pytestmark = pytest.mark.store

SECRET = "canary-7f3a"


class Server(ThreadingHTTPServer):
    status = 500
    requests = 0


class Answer(BaseHTTPRequestHandler):
    server: Server

    def answer(self) -> None:
        self.server.requests += 1
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.status == 0:
            self.close_connection = True
            return
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_HEAD = answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Answer) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def store_at(port: int) -> ObstoreStore:
    store = S3Store(
        "bucket",
        endpoint=f"http://127.0.0.1:{port}",
        region="nowhere-1",
        access_key_id="id",
        secret_access_key=SECRET,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0, "retry_timeout": timedelta(0)},
    )
    return ObstoreStore(store, "s3://bucket")


OPERATIONS: dict[str, Callable[[ObstoreStore], object]] = {
    "get": lambda store: store.get("a key"),
    "put": lambda store: store.put("a key", b""),
    "list": lambda store: store.list("a key"),
}
MEANINGS = {
    400: StorageError,
    401: StoragePermissionError,
    403: StoragePermissionError,
    404: ObjectNotFoundError,
    409: StorageUnavailableError,
    412: StorageUnavailableError,
    418: StorageUnavailableError,
    429: StorageUnavailableError,
    500: StorageUnavailableError,  # the connection is closed without an answer
    503: StorageUnavailableError,
    507: StorageFullError,
    0: StorageUnavailableError,  # the connection is closed without an answer
}


@pytest.mark.parametrize("status", MEANINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_status_has_one_meaning(server: Server, status: int, operation: str) -> None:
    server.status = status
    with pytest.raises(StorageError) as caught:
        OPERATIONS[operation](store_at(server.server_port))
    assert type(caught.value) is MEANINGS[status]
    assert SECRET not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)
    assert server.requests == 1


def test_a_missing_object_has_no_head(server: Server) -> None:
    server.status = 404
    assert store_at(server.server_port).head("k") is None


def test_a_failed_precondition_means_that_one_is_there(server: Server) -> None:
    server.status = 412
    assert store_at(server.server_port).put_if_absent("k", b"") is False


def test_a_conflict_with_a_put_under_way_is_not_taken_for_an_object(server: Server) -> None:
    server.status = 409
    with pytest.raises(StorageUnavailableError, match="409"):
        store_at(server.server_port).put_if_absent("k", b"")


def test_nobody_there_is_unavailable(server: Server) -> None:
    port = server.server_port
    server.server_close()
    with pytest.raises(StorageUnavailableError) as caught:
        store_at(port).get("k")
    assert caught.value.retry is True


def test_a_store_that_lists_without_order_is_put_in_order(tmp_path: Path) -> None:
    bare = LocalStore(tmp_path)
    names = [f"{number * 7 % 100:03}" for number in range(100)]
    for name in names:
        bare.put(name, b"")
    assert [meta["path"] for meta in bare.list().collect()] != sorted(names)  # else this proves nothing
    assert [meta.key for meta in ObstoreStore(bare, tmp_path.as_uri()).list()] == sorted(names)


def test_what_no_store_raises_is_still_a_storage_error() -> None:
    error = classify(RuntimeError("odd"), "k")
    assert type(error) is StorageError
    assert "RuntimeError" in error.message
