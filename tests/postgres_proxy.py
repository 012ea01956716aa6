"""A proxy before PostgreSQL that cuts the connection around a COMMIT, where the answer is worth most."""

from __future__ import annotations

import random
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

When = Literal["before", "after", "midway"]

_ENCRYPTION_REQUESTS = (80877103, 80877104)  # TLS and GSSAPI: answered with a no, since a proxy must read along
# Alone, or among the statements of one simple query; an END there would rather be that of a function's body.
_COMMIT = re.compile(
    rb"(?:^\s*END|(?:^|;)\s*COMMIT)(?:\s+(?:WORK|TRANSACTION))?(?:\s+AND\s+(?:NO\s+)?CHAIN)?\s*(?:;|$)", re.IGNORECASE
)


class Counts(msgspec.Struct):
    """What a proxy has seen and done."""

    connections: int = 0
    refused: int = 0
    commits: int = 0
    cut_before: int = 0
    cut_after: int = 0
    cut_midway: int = 0
    cut_all: int = 0


class _Fault(msgspec.Struct):
    when: When
    times: int | None
    chance: float


class PostgresProxy:
    """Forwards to a server until told otherwise. A context manager: it listens inside, and cuts all when it ends.

    Its threads need the interpreter: a client in the same process must wait as psycopg's connections and cursors do,
    never in a bare `pgconn.get_result()`, which keeps the interpreter to itself.
    """

    def __init__(self, upstream: tuple[str, int], *, seed: int = 0) -> None:
        self.upstream = upstream
        self.counts = Counts()
        # Seconds that everything a client sends is held up.
        self.delay = 0.0
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._fault: _Fault | None = None
        self._refusing = False
        self._links: set[_Link] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> PostgresProxy:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for link in self._cut_links():
            link.join()

    def url(self, of_url: str) -> str:
        """The same database by way of this proxy."""
        parts = urlsplit(of_url)
        user, at, _ = parts.netloc.rpartition("@")
        host, port = self.address
        query = [(name, value) for name, value in parse_qsl(parts.query) if name not in ("host", "hostaddr", "port")]
        return urlunsplit(parts._replace(netloc=f"{user}{at}{host}:{port}", query=urlencode(query)))

    # ------------------------------------------------------------ faults

    def cut_commit(self, when: When, *, times: int | None = 1, chance: float = 1.0) -> None:
        """Cut both sides at the next `times` commits (None: at all of them), each with this chance.

        before: the server gets everything up to the COMMIT, never the COMMIT itself;
        after: the server has answered the COMMIT, and the client is cut without having seen it;
        midway: the COMMIT is sent, and nobody waits for what comes of it.
        A new fault takes the place of the one before.
        """
        with self._lock:
            self._fault = _Fault(when, times, chance)

    def heal(self) -> None:
        """No more faults for commits."""
        with self._lock:
            self._fault = None

    def cut_all(self) -> None:
        """Cut every connection there is."""
        self.counts.cut_all += len(self._cut_links())

    def refuse(self, refusing: bool) -> None:
        """Close new connections at once, or stop doing so. Those there are stay."""
        self._refusing = refusing

    # ------------------------------------------------------------ what links ask

    def draw(self) -> When | None:
        """What shall happen to a commit that is about to be forwarded."""
        with self._lock:
            self.counts.commits += 1
            fault = self._fault
            if fault is None or fault.times == 0 or self._random.random() >= fault.chance:
                return None
            if fault.times is not None:
                fault.times -= 1
            return fault.when

    def give_back(self) -> None:
        """A commit that was drawn was never run: an earlier statement of its pipeline failed."""
        with self._lock:
            if self._fault is not None and self._fault.times is not None:
                self._fault.times += 1

    def count_cut(self, when: When) -> None:
        with self._lock:
            setattr(self.counts, f"cut_{when}", getattr(self.counts, f"cut_{when}") + 1)

    def forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)

    # ------------------------------------------------------------ connections

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                self.counts.refused += 1
                client.close()
                continue
            try:
                server = socket.create_connection(self.upstream)
            except OSError:
                client.close()
                continue
            self.counts.connections += 1
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()

    def _cut_links(self) -> list[_Link]:
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()
        return links


class _Link:
    """One client and its connection to the server, a thread for each direction.

    The server ends its answers to a simple query, and to everything up to a Sync, with ReadyForQuery: that is a round.
    Within a round it answers Executes one by one. So a COMMIT's answer is known by its round and its place in it.
    """

    def __init__(self, proxy: PostgresProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads = [
            threading.Thread(target=self._run, args=(pump,), daemon=True) for pump in (self._upward, self._downward)
        ]
        self._running = len(self._threads)
        self._lock = threading.Lock()
        # Named statements and portals that are a COMMIT; the unnamed ones have the name b"".
        self._statements: set[bytes] = set()
        self._portals: set[bytes] = set()
        # Where the client is: its round, the Executes in it, and which rounds are simple queries.
        self._round = 0
        self._executes = 0
        self._simple: set[int] = set()
        # The answer to cut at: its round, and its place there (None for a simple query, which has one answer).
        self._awaited: tuple[int, int | None] | None = None

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        for side in (self._client, self._server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _run(self, pump: Callable[[], None]) -> None:
        try:
            with suppress(OSError):
                pump()
        finally:
            self.cut()
            with self._lock:
                self._running -= 1
                last = not self._running
            if last:
                self._client.close()
                self._server.close()
                self._proxy.forget(self)

    # ------------------------------------------------------------ client to server

    def _upward(self) -> None:
        rest = self._greet()
        for frames in _frames(self._client, rest):
            if self._proxy.delay:
                time.sleep(self._proxy.delay)
            ready: list[bytes] = []
            for frame in frames:
                when = self._proxy.draw() if self._is_commit(frame) else None
                if when == "after":
                    self._awaited = (self._round, None if frame[:1] == b"Q" else self._executes)
                if when != "before":
                    ready.append(frame)
                if when in ("before", "midway"):
                    self._server.sendall(b"".join(ready))
                    self._proxy.count_cut(when)
                    return
                self._move_on(frame)
            self._server.sendall(b"".join(ready))

    def _greet(self) -> bytes:
        """Pass on the start of a session, which is a frame without a type; what was read beyond it."""
        data = b""
        while True:
            while len(data) < 8 or len(data) < struct.unpack_from("!i", data)[0]:
                more = self._client.recv(65536)
                if not more:
                    return b""
                data += more
            length, code = struct.unpack_from("!ii", data)
            if code not in _ENCRYPTION_REQUESTS:
                self._server.sendall(data[:length])
                return data[length:]
            self._client.sendall(b"N")
            data = data[length:]

    def _is_commit(self, frame: bytes) -> bool:
        """Whether the server commits when it gets this frame. Statements and portals are learnt on the way."""
        body = frame[5:]
        match frame[:1]:
            case b"Q":
                self._simple.add(self._round)
                return _commits(body.rstrip(b"\0"))
            case b"P":
                name, sql, *_ = body.split(b"\0", 2)
                _mark(self._statements, name, _commits(sql))
            case b"B":
                portal, statement, *_ = body.split(b"\0", 2)
                _mark(self._portals, portal, statement in self._statements)
            case b"C":
                known = self._statements if body[:1] == b"S" else self._portals
                known.discard(body[1:].rstrip(b"\0"))
            case b"E":
                self._executes += 1
                return body.split(b"\0", 1)[0] in self._portals
            case _:
                pass
        return False

    def _move_on(self, frame: bytes) -> None:
        if frame[:1] in (b"Q", b"S", b"F"):
            self._round += 1
            self._executes = 0

    # ------------------------------------------------------------ server to client

    def _downward(self) -> None:
        """Answers go to the client up to the one awaited, which ends the connection."""
        # The first ReadyForQuery answers the greeting: it opens round 0.
        place, answered = -1, 0
        for frames in _frames(self._server):
            ready: list[bytes] = []
            for frame in frames:
                kind = frame[:1]
                if kind in (b"C", b"I", b"s"):
                    answered += 1
                if kind == b"G" and place not in self._simple:
                    # A Sync sent together with a COPY is ignored, so two rounds of the client are one of the server.
                    place, answered = place + 1, -1
                if self._reached(kind, place, answered):
                    self._client.sendall(b"".join(ready))
                    self._proxy.count_cut("after")
                    return
                if self._awaited != (place, None):
                    ready.append(frame)
                if kind == b"Z":
                    place, answered = place + 1, 0
            self._client.sendall(b"".join(ready))

    def _reached(self, kind: bytes, place: int, answered: int) -> bool:
        """Whether this is the end of the awaited answer."""
        if self._awaited is None or self._awaited[0] != place:
            return False
        number = self._awaited[1]
        if number is None:
            return kind == b"Z"
        if kind == b"Z":
            # The round is over, and its COMMIT was skipped: an earlier statement had failed.
            self._awaited = None
            self._proxy.give_back()
            return False
        return answered == number or (kind == b"E" and answered == number - 1)


def _commits(sql: bytes) -> bool:
    return _COMMIT.search(sql.strip()) is not None


def _mark(names: set[bytes], name: bytes, commit: bool) -> None:
    if commit:
        names.add(name)
    else:
        names.discard(name)


def _frames(side: socket.socket, data: bytes = b"") -> Iterator[list[bytes]]:
    """The whole frames of each read, until the other side ends."""
    while True:
        frames: list[bytes] = []
        at = 0
        while len(data) >= at + 5 and len(data) >= (end := at + 1 + struct.unpack_from("!i", data, at + 1)[0]):
            frames.append(data[at:end])
            at = end
        if frames:
            yield frames
        more = side.recv(262_144)
        if not more:
            return
        data = data[at:] + more
