"""pg_dump, pg_restore and psql on the login's database. Imports nothing of Django.

Where to connect stands in a service file that only this user can read: no password is on a command line, where every
user of the machine would see it. The wheel's programs are taken, or those on the PATH where the server is newer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psycopg
from psycopg.conninfo import conninfo_to_dict

from config import database
from config.embedded import EmbeddedUnusable
from config.server_files import VERSION, wheel_binaries

_SERVICE = "counterfoil"


class DumpUnusable(Exception):
    """A dump cannot be made, read or put back; the message says why."""


@dataclass(frozen=True)
class Tools:
    """The programs, and the environment in which they find the database."""

    folder: Path
    environment: dict[str, str]

    def run(self, program: str, *arguments: str) -> None:
        """To its end. Raises DumpUnusable with what it said last."""
        with self.reading(program, *arguments) as output:
            for _ in output:
                pass

    @contextmanager
    def reading(self, program: str, *arguments: str) -> Iterator[IO[bytes]]:
        """Its output while it runs. Raises DumpUnusable at the end where it failed."""
        with tempfile.TemporaryFile() as said:
            command = [str(self.folder / program), *arguments]
            with subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
            ) as process:
                assert process.stdout is not None
                yield process.stdout
                process.stdout.close()
                code = process.wait()
            if code != 0:
                said.seek(0)
                raise DumpUnusable(f"{program} failed: {_last_words(said.read())}.")

    def feed(self, program: str, arguments: Sequence[str], chunks: Iterator[bytes]) -> None:
        """Run it with these chunks as its input. Raises DumpUnusable with what it said first."""
        with tempfile.TemporaryFile() as said:
            command = [str(self.folder / program), *arguments]
            with subprocess.Popen(
                command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said
            ) as process:
                assert process.stdin is not None
                try:
                    for chunk in chunks:
                        process.stdin.write(chunk)
                    process.stdin.close()
                except BrokenPipeError:
                    pass  # it has ended, and says why
                except BaseException:
                    process.kill()  # what it was given is not whole: nothing of it may be committed
                    raise
                code = process.wait()
            if code != 0:
                said.seek(0)
                raise DumpUnusable(f"{program} failed: {_last_words(said.read())}.")


@contextmanager
def tools() -> Iterator[Tools]:
    """For the login's database. Raises DumpUnusable, DatabaseUnusable."""
    url = database.login_url()
    database.check_server(url)
    with psycopg.connect(url, connect_timeout=database.CONNECT_SECONDS) as connection:
        server = connection.info.server_version // 10000
    with tempfile.TemporaryDirectory(prefix="counterfoil-") as folder:
        service = Path(folder) / "service"
        with open(
            os.open(service, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            lines = [f"{name}={value}" for name, value in conninfo_to_dict(url).items()]
            file.write("\n".join([f"[{_SERVICE}]", *lines, ""]))
        yield Tools(
            _binaries(server),
            {**os.environ, "PGSERVICEFILE": str(service), "PGSERVICE": _SERVICE, "PGTZ": "UTC"},
        )


def _binaries(server: int) -> Path:
    if server <= VERSION:
        try:
            return wheel_binaries()
        except EmbeddedUnusable:
            pass
    on_path = shutil.which("pg_dump")
    if on_path is not None and _major(on_path) >= server:
        return Path(on_path).parent
    raise DumpUnusable(
        f"The database server is PostgreSQL {server}, and there is no pg_dump here that is as new: install its client "
        f"programs, and put them on the PATH"
    )


def _major(program: str) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.split()[2].split(".")[0])


def _last_words(said: bytes) -> str:
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    wrong = [line for line in lines if "error" in line.lower()] or lines or ["it did not say why"]
    return wrong[0].strip().rstrip(".")
