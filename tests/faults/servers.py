"""A PostgreSQL server of the tests' own, which nobody starts again but the test, and an installation on it."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.utils import timezone

from config.embedded import server_url
from config.keeper import SUPERUSER, Server
from examples.demos.installation import Installation
from examples.demos.telling import Teller
from examples.demos.workers import Cluster, live_workers
from examples.management import sample
from examples.simulators.client import (
    BureauControl,
    Call,
    ErpControl,
    IndexControl,
    ProviderControl,
    start_erp,
    start_provider,
)
from tests.support import eventually

NOT_STARTED = "http://127.0.0.1:9"
"""The simulators that the expense policy does not ask."""
WORKFLOWS = "examples.vendor_onboarding,examples.expense_policy"


class OwnServer:
    """PostgreSQL from the wheel, in a `var` of its own."""

    def __init__(self, var: Path) -> None:
        self.var = var
        self._patch = pytest.MonkeyPatch()
        self._patch.setenv("COUNTERFOIL_VAR", str(var))
        self._server = Server.prepared()
        self.url = server_url()
        self.superuser_url = server_url(user=SUPERUSER, database="postgres")
        self._process: subprocess.Popen[bytes] | None = None
        self._patch.undo()

    def start(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COUNTERFOIL_VAR", str(self.var))
            self._process = self._server.start()
            self._server.ensure_login()

    def stop(self) -> None:
        """A fast shutdown: every session is ended."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As by a power cut."""
        for pid in [*self._children(), self._pid]:
            with suppress(ProcessLookupError):  # one that has ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)
        self._wait()

    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def accepts(self) -> bool:
        return self._server.accepts()

    def run(self, *statements: str) -> None:
        """As the superuser, each in a transaction of its own."""
        with psycopg.connect(self.superuser_url, autocommit=True) as superuser:
            for statement in statements:
                superuser.execute(statement)

    def cut(self, which: str = "true") -> int:
        """End the sessions of everybody else for whom a condition on pg_stat_activity holds; how many."""
        with psycopg.connect(self.superuser_url, autocommit=True) as superuser:
            row = superuser.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                f" WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND ({which})"
            ).fetchone()
        assert row is not None
        return int(row[0])

    @property
    def _pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _end(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)
        self._wait()

    def _wait(self) -> None:
        assert self._process is not None
        self._process.wait(30)

    def _children(self) -> list[int]:
        listed = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text()
        return [int(pid) for pid in listed.split()]


@contextmanager
def own_server(var: Path | None = None) -> Iterator[OwnServer]:
    """It runs when the block begins, and is gone with its files after it."""
    folder = var or Path(tempfile.mkdtemp(prefix="cf-"))
    folder.chmod(0o711)
    server = OwnServer(folder)
    try:
        server.start()
        yield server
    finally:
        if not server.has_ended():
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class OnOwnServer:
    """The sample organisation with its simulators, on a server that the test takes away."""

    server: OwnServer
    on: Installation
    environment: dict[str, str]
    folder: Path

    def cluster(
        self, *, workers: int = 2, slots: int = 2, lease: float = 30, name: str = "workers"
    ) -> Cluster:
        """Another cluster, started; the test stops it."""
        made = Cluster(
            environment={
                **self.environment,
                "COUNTERFOIL_WORKERS": str(workers),
                "COUNTERFOIL_SLOTS": str(slots),
                "COUNTERFOIL_LEASE_SECONDS": str(lease),
            },
            log=self.folder / f"{name}.log",
        )
        before = len(live_workers())
        made.start()
        eventually(lambda: len(live_workers()) >= before + workers, seconds=40, what=f"{workers} workers")
        return made

    def policy(self, reference: str, *, contract: str = "keyed") -> int:
        """A job of the expense policy: 42 calls to the model, then one effect."""
        value: dict[str, object] = {
            "reference": reference,
            "title": f"Policy {reference}",
            "text": "Every expense above 10.00 needs a legible receipt. Claims are handed in within 60 days.",
            "erp": contract,
        }
        return self.on.submit("expense-policy", value).pk

    def calls(self) -> list[Call]:
        return self.on.provider.calls()

    def asked(self) -> list[str]:
        """The first line of what each call asked, sorted."""
        return sorted(call["last_user"].splitlines()[0] for call in self.calls())


@contextmanager
def installed_on(server: OwnServer, folder: Path) -> Iterator[OnOwnServer]:
    """This process, too, uses that server as long as the block runs."""
    with ExitStack() as stack:
        stack.enter_context(_used_here(server.url))
        call_command("migrate", verbosity=0)
        erp = stack.enter_context(start_erp(database=folder / "erp.sqlite3"))
        provider = stack.enter_context(start_provider(database=folder / "provider.sqlite3"))
        environment = {
            "COUNTERFOIL_ERP_URL": erp.base_url,
            "COUNTERFOIL_PROVIDER_URL": provider.base_url,
            "COUNTERFOIL_WORKFLOWS": WORKFLOWS,
            "DATABASE_URL": server.url,
        }
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("django.conf.settings.COUNTERFOIL_ERP_URL", erp.base_url)
        patch.setattr("django.conf.settings.COUNTERFOIL_PROVIDER_URL", provider.base_url)
        loaded = sample.load(now=timezone.now(), sign_in=False)
        idle = Cluster(environment=environment, log=folder / "unused.log")
        made = Installation(
            loaded,
            idle,
            ErpControl(erp.base_url),
            ProviderControl(provider.base_url),
            BureauControl(NOT_STARTED),
            IndexControl(NOT_STARTED),
            Teller(io.StringIO()),
        )
        yield OnOwnServer(server, made, environment, folder)


@contextmanager
def _used_here(url: str) -> Iterator[None]:
    parameters = psycopg.conninfo.conninfo_to_dict(url)
    before = dict(connection.settings_dict)
    connections.close_all()
    connection.settings_dict.update(
        NAME=parameters["dbname"], HOST=parameters["host"], PORT=str(parameters["port"]),
        USER=parameters["user"], PASSWORD="",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_URL", url)
        try:
            yield
        finally:
            connections.close_all()
            connection.settings_dict.clear()
            connection.settings_dict.update(before)


def pass_time(seconds: float) -> None:
    """What an outage is made of; nothing is waited for that could be looked at."""
    until = time.monotonic() + seconds
    quiet = threading.Event()
    while (left := until - time.monotonic()) > 0:
        quiet.wait(left)
