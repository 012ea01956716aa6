"""TLS before a PostgreSQL that has none: a front that speaks it to clients, with certificates made on the spot."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

_SSL_REQUEST = bytes((0, 0, 0, 8)) + (80877103).to_bytes(4, "big")


def certificate(folder: Path, name: str, host: str) -> Path:
    """A certificate that vouches for itself, with its key in the same file."""
    key, file = folder / f"{name}.key", folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}"]
    names = ["-addext", f"subjectAltName=DNS:{host}", "-keyout", str(key), "-out", str(file)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    file.write_text(key.read_text() + file.read_text())
    return file


class TlsFront:
    """Listens inside its block, and hands what clients say on to a server, in the clear."""

    def __init__(self, upstream: tuple[str, int], certificate: Path) -> None:
        self._upstream = upstream
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    def url(self, of_url: str, host: str) -> str:
        """The same database by way of this front, which answers to `host`."""
        parts = urlsplit(of_url)
        user, _, _ = parts.netloc.rpartition("@")
        port = self._listener.getsockname()[1]
        # libpq compares the certificate with the host, and connects to the address.
        return urlunsplit(parts._replace(netloc=f"{user}@{host}:{port}", query="hostaddr=127.0.0.1"))

    def __enter__(self) -> TlsFront:
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for side in [self._listener, *self._sockets]:
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()
        for thread in self._threads:
            thread.join()

    def _run(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)  # pyright: ignore[reportArgumentType]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                self._run(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        # A client that does not like the certificate breaks off here.
        with suppress(OSError):
            if client.recv(len(_SSL_REQUEST), socket.MSG_WAITALL) != _SSL_REQUEST:
                client.close()
                return
            client.sendall(b"S")
            inside = self._context.wrap_socket(client, server_side=True)
            server = socket.create_connection(self._upstream)
            self._sockets += [inside, server]
            self._run(_pump, inside, server)
            _pump(server, inside)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for side in (source, target):
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
