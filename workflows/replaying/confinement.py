"""The first wall of a rerun: whatever has an effect outside of this process is stopped with a sentence.

An audit hook, which nothing can take away again, sees every connection, look-up, program, signal and file that Python
code asks for; what has no audit event is replaced. The exception that it raises is none of `Exception`, so that no
handler's `except` goes on as if nothing had been; what somebody caught all the same is told too (`refused`).
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

import psycopg
from django.db import connection

from workflows.replaying import kernel

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OPENS_THE_DATABASE = re.compile(
    r"\bread\s+write\b|transaction_read_only|session\s+authorization|\b(set|reset)\s+(local\s+|session\s+)?role\b"
    r"|^\s*notify\b|\bpg_notify\s*\(",
    re.IGNORECASE,
)
_PROGRAMS = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn",
)  # fmt: skip
_SIGNALS = ("os.kill", "os.killpg", "signal.pthread_kill")
_PATHS = (
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.utime", "os.setxattr", "os.removexattr",
)  # fmt: skip


class EffectRefused(BaseException):
    """The code of a step tried to do something that would have had an effect; the message says what."""


class Wall:
    """What is open, and what was refused. One a process, and for the rest of its life."""

    def __init__(self, *, scratch: str, provider: str) -> None:
        self.refused: list[str] = []
        self._scratch = os.path.realpath(scratch)
        self._open: set[tuple[str, int]] = set()
        self._hosts: set[str] = set()
        self._is_up = False
        if provider:
            self._let_in(provider)

    def raise_it(self) -> bool:
        """From here on nothing has an effect. Whether the kernel stands behind it."""
        self._replace()
        sys.addaudithook(self._look)
        behind = kernel.close(network=not self._open)
        self._is_up = True
        return behind

    @contextmanager
    def database(self) -> Iterator[None]:
        """The session that is open stays open, for reading."""
        with connection.execute_wrapper(self._only_reads):
            yield

    def refuse(self, what: str, instead: str = "In a replay nothing has an effect.") -> NoReturn:
        """Keep what the step tried to do, and stop it there. Raises EffectRefused, always."""
        sentence = f"The step tried to {what}. {instead}"
        if sentence not in self.refused:
            self.refused.append(sentence)
        raise EffectRefused(sentence)

    def _let_in(self, provider: str) -> None:
        parts = urlsplit(provider)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._hosts.add(host)
        for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            self._open.add((str(address[0]), port))

    def _replace(self) -> None:
        """What no audit event tells of."""
        ends = "end the process by itself ({})"
        os._exit = lambda *_: self.refuse(ends.format("os._exit"))
        os.abort = lambda: self.refuse(ends.format("os.abort"))
        import _posixsubprocess

        _posixsubprocess.fork_exec = lambda *_: self.refuse("start another program")
        session = "open another session with a database"
        own = "In a replay it reads through its own session, in its first thread."
        psycopg.connect = lambda *_, **__: self.refuse(session, own)
        for kind in (psycopg.Connection, psycopg.AsyncConnection):
            kind.connect = classmethod(lambda *_, **__: self.refuse(session, own))  # type: ignore[assignment, method-assign]

    def _look(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._is_up:
            return
        if event == "open":
            self._look_at_open(*args)
        elif event.startswith("socket."):
            self._look_at_socket(event, args)
        elif event in _PROGRAMS:
            self.refuse(f"start another program{_named(event, args)}")
        elif event in _SIGNALS:
            self.refuse("send a signal to a process")
        elif (
            event in _PATHS
            or event.startswith("shutil.")
            or (event == "sqlite3.connect" and args[0] not in (":memory:", "", b":memory:"))
        ):
            self._look_at_paths(event, args)

    def _look_at_open(self, path: Any, _mode: Any, flags: Any) -> None:
        if isinstance(path, int) or not (flags or 0) & WRITES or path == os.devnull:
            return
        if not self._is_scratch(path):
            self.refuse(f"write the file {os.fspath(path)!r}")

    def _look_at_paths(self, event: str, args: tuple[Any, ...]) -> None:
        paths = [a for a in args if isinstance(a, (str, bytes, os.PathLike))]
        if not all(self._is_scratch(path) for path in paths):
            self.refuse(f"change files ({event})")

    def _look_at_socket(self, event: str, args: tuple[Any, ...]) -> None:
        instead = "In a replay the network is closed; --allow-provider opens it to the model provider alone."
        if event == "socket.__new__" and not self._open and args[1] != socket.AF_UNIX:
            self.refuse("open a network socket", instead)
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"):
            address = args[1]
            if isinstance(address, tuple) and tuple(address[:2]) in self._open and event == "socket.connect":
                return
            if address is not None:
                self.refuse(f"reach {_place(address)}", instead)
        elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
            host = args[0].decode() if isinstance(args[0], bytes) else args[0]
            if host not in self._hosts and host not in {address for address, _ in self._open}:
                self.refuse(f"reach {_place((host, args[1] if len(args) > 1 else None))}", instead)

    def _is_scratch(self, path: Any) -> bool:
        given = os.fsdecode(path)
        return (os.path.realpath(given) + os.sep).startswith(self._scratch + os.sep)

    def _only_reads(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        statement = str(sql)
        if _OPENS_THE_DATABASE.search(statement):
            self.refuse(
                f"have an effect on the database ({_verb(statement)})", "In a replay it is only read."
            )
        try:
            return execute(sql, params, many, context)
        except Exception as error:
            if is_refused_write(error):
                self.refuse(f"write to the database ({_verb(statement)})", "In a replay it is only read.")
            raise


def is_refused_write(error: BaseException | None) -> bool:
    """Whether the database said that nothing can be written."""
    while error is not None:
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            return True
        error = error.__cause__ or error.__context__
    return False


def _verb(statement: str) -> str:
    """The statement's first words: never its values."""
    return " ".join(statement.split()[:3])[:60].upper()


def _place(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}{'' if address[1] is None else f', port {address[1]},'} over the network"
    return f"{os.fsdecode(address)!r}, which another process listens at"


def _named(event: str, args: tuple[Any, ...]) -> str:
    name = args[0] if args and event in ("subprocess.Popen", "os.exec", "os.posix_spawn") else None
    return f" ({os.path.basename(os.fsdecode(name))})" if isinstance(name, (str, bytes)) and name else ""
