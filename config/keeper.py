"""The keeper of the embedded server: `config/embedded.py` says who starts it and when it ends."""

import fcntl
import os
import pwd
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from config import server_files
from config.embedded import (
    LOGIN,
    PORT,
    START_SECONDS,
    STOP_SECONDS,
    EmbeddedUnusable,
    log_file,
    server_url,
    socket_directory,
)
from config.server_files import as_user
from config.var import var_file

SUPERUSER = server_files.SUPERUSER

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


def keep(tell: Callable[[str], None]) -> None:
    """Run the server until its last user has left. `tell` gets "ready", or one sentence on why it does not start."""
    ready = var_file("run", "ready")
    ready.unlink(missing_ok=True)
    try:
        server = Server.prepared()
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
    fcntl.flock(os.open(var_file("run", "users.lock"), os.O_RDONLY), fcntl.LOCK_EX)
    stopping.set()
    ready.unlink(missing_ok=True)
    server.stop()


def _restart_when_it_ends(
    server: "Server",
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
class Server:
    binaries: Path
    data: Path
    """The real folder: `var/postgres`, or what that link points to."""
    sockets: Path
    user: pwd.struct_passwd | None
    """The system user it runs as when the keeper is root; None means the keeper's own."""

    @classmethod
    def prepared(cls) -> "Server":
        """With binaries, a system user, a data folder and a socket folder that all fit together."""
        data = var_file("postgres")
        binaries = server_files.wheel_binaries()
        user = server_files.system_user(data) if os.geteuid() == 0 else None
        binaries = server_files.reachable_binaries(binaries, user)
        if not (data / "PG_VERSION").exists():
            server_files.initialise(data, binaries, user)
        server_files.check_data(data, user)
        sockets = socket_directory()
        if sockets != data:
            server_files.check_socket_directory(sockets, user)
        return cls(binaries, data.resolve(), sockets, user)

    def start(self) -> "subprocess.Popen[bytes] | None":
        """The started process, or None when the server already runs: then it is adopted."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.accepts():
                return None
            position = log_file().stat().st_size if log_file().exists() else 0
            process = self._launch()
            while process.poll() is None and time.monotonic() < deadline:
                if self.accepts():
                    return process
                time.sleep(0.02)
            if time.monotonic() >= deadline:
                process.kill()
                process.wait()
                raise EmbeddedUnusable(
                    f"The embedded PostgreSQL did not start within {START_SECONDS} seconds: see {log_file()}."
                )
            reason = _last_fatal(position)
            # After kill -9 of the postmaster its backends need a moment to notice and to let go of the memory.
            if not re.search(r"shared memory block|lock file .* exists|lock file .* is empty", reason):
                raise EmbeddedUnusable(f"The embedded PostgreSQL did not start: {reason} See {log_file()}.")
            time.sleep(0.1)

    def _launch(self) -> "subprocess.Popen[bytes]":
        settings = {**SETTINGS, "unix_socket_directories": str(self.sockets)}
        if self.sockets == var_file("postgres"):
            settings["unix_socket_directories"] = str(self.data)
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(log_file(), "ab") as log:
            return subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, "-p", str(PORT), *arguments],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **as_user(self.user),
            )

    def accepts(self) -> bool:
        """Whether it answers a query, not only a connection: a starting server accepts and then refuses."""
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
                **as_user(self.user),
            )
            if stopped.returncode == 0 or not (self.data / "postmaster.pid").exists():
                break
        if self.sockets != var_file("postgres"):
            with suppress(OSError):
                self.sockets.rmdir()


def _last_fatal(position: int) -> str:
    with open(log_file(), "rb") as log:
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
