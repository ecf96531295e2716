"""A connection pooler such as PgBouncer, as far as its clients notice: sessions that are shared, or not."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread

_KEY = struct.pack("!cIII", b"K", 12, 1, 2)  # of the pooler, and of no session of the server


@dataclass
class Session:
    """One session of the server: its greeting, and whose turn it is."""

    stream: socket.socket
    greeting: bytes
    turn: Lock = field(default_factory=Lock)


def _exactly(stream: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = stream.recv(size - len(found))
        if not more:
            raise ConnectionError
        found += more
    return found


def _message(stream: socket.socket) -> bytes:
    head = _exactly(stream, 5)
    return head + _exactly(stream, struct.unpack("!I", head[1:])[0] - 4)


def _startup(stream: socket.socket) -> bytes:
    """The first message of a client; one that asks for encryption is told that there is none."""
    while True:
        head = _exactly(stream, 4)
        rest = _exactly(stream, struct.unpack("!I", head)[0] - 4)
        if rest[:4] not in (struct.pack("!I", 80877103), struct.pack("!I", 80877104)):
            return head + rest
        stream.sendall(b"N")


def _session(server: Path, startup: bytes) -> Session:
    upstream = socket.socket(socket.AF_UNIX)
    upstream.connect(str(server))
    upstream.sendall(startup)
    greeting = b""
    while (message := _message(upstream))[:1] != b"Z":
        greeting += _KEY if message[:1] == b"K" else message
    return Session(upstream, greeting + message)


@dataclass
class Pooler:
    """With `shared`, a session is anybody's as soon as a transaction has ended; else it is its client's."""

    server: Path
    shared: bool
    sessions: list[Session] = field(default_factory=list)

    def serve(self, client: socket.socket) -> None:
        try:
            startup = _startup(client)
            if not (self.shared and self.sessions):
                self.sessions.append(_session(self.server, startup))
            session = self.sessions[-1]
            client.sendall(session.greeting)
            while True:
                self._transaction(client, session, _message(client))
        except OSError:
            client.close()

    def _transaction(self, client: socket.socket, session: Session, message: bytes) -> None:
        with session.turn:
            while message[:1] != b"X":
                session.stream.sendall(message)
                if message[:1] in b"QS" and self._answer(client, session) == b"I":
                    return
                message = _message(client)
        raise ConnectionError

    def _answer(self, client: socket.socket, session: Session) -> bytes:
        """Bring all that the server says; the state that it is in then."""
        while True:
            message = _message(session.stream)
            client.sendall(message)
            if message[:1] == b"Z":
                return message[5:6]


@contextmanager
def pooled(home: Path, shared: bool) -> Iterator[int]:
    """The port of a pooler in front of a server whose socket is in a folder."""
    with socket.create_server(("127.0.0.1", 0)) as entrance:
        pooler = Pooler(home / ".s.PGSQL.5432", shared)

        def accept() -> None:
            while True:
                try:
                    client, _ = entrance.accept()
                except OSError:
                    return
                Thread(target=pooler.serve, args=(client,), daemon=True).start()

        Thread(target=accept, daemon=True).start()
        yield entrance.getsockname()[1]
        entrance.shutdown(socket.SHUT_RDWR)
        for session in pooler.sessions:
            session.stream.close()
