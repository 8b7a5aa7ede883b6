"""A backup is one moment, read back; a restore is all or nothing, and leaves dispatch shut."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError
from django.db import connections
from django.utils import timezone

from access.switches import switches_of, was_copied
from access.tenancy import reading
from config import database
from config.dumping import tools
from config.var import PROJECT
from tests import databases
from tests.config.processes import environment
from tests.dispatch.world import Dispatching, a_contract, states
from tests.support import command
from workflows.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture(autouse=True)
def _own_database() -> Iterator[None]:
    """What is put back takes the place of a database of its own, not of the one that all tests share."""
    with databases.own():
        yield


def test_a_restore_brings_back_what_was_and_leaves_dispatch_shut(tmp_path: Path) -> None:
    d = Dispatching.make("http://127.0.0.1:9", a_contract())
    kept, file = d.ready(), tmp_path / "a backup"
    assert "1 jobs" in command("backup", file)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandError, match="is there already"):
        command("backup", file)
    lost = d.ready("V-2")
    with pytest.raises(CommandError, match="Lost would be 1 jobs that the backup does not know") as refused:
        command("restore", file)
    assert "--overwrite" in str(refused.value)
    assert states(d, lost) == ("READY_TO_COMMIT", ["PREPARED"])
    assert not was_copied()

    assert "Dispatch is shut" in command("restore", file, "--overwrite")

    assert not was_copied()
    assert states(d, kept) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
    with reading(d.tenant_id):
        assert not Job.objects.filter(pk=lost.pk).exists()
        restored = switches_of(d.tenant_id).restored
    assert restored is not None
    assert restored.shut_at is not None
    assert "shut, restored" in command("dispatch", "status")
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        (rows,) = owner.execute(
            "SELECT reltuples FROM pg_class WHERE relname = 'dispatch_operation'"
        ).fetchone() or (0,)
    assert rows == 1, "the server knows how large the tables are that came back"
    again = d.ready("V-3", at=timezone.now())
    assert (
        d.job_state(again) == "AWAITING_APPROVAL"
    )  # of two people; the rights of the app's role are back, too


def test_a_dump_that_is_not_whole_or_no_backup_changes_nothing(tmp_path: Path) -> None:
    d = Dispatching.make("http://127.0.0.1:9", a_contract())
    job, file = d.ready(), tmp_path / "backup"
    command("backup", file)
    whole = file.read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text").write_text("no dump")
    for name in ("half", "text"):
        with pytest.raises(CommandError, match="pg_restore failed"):
            command("restore", tmp_path / name, "--overwrite")
    with pytest.raises(CommandError, match="There is no file"):
        command("restore", tmp_path / "none")
    assert states(d, job) == ("READY_TO_COMMIT", ["PREPARED"])


def test_a_restore_waits_for_nobody_and_ends_no_one(tmp_path: Path) -> None:
    d = Dispatching.make("http://127.0.0.1:9", a_contract())
    job, file = d.ready(), tmp_path / "backup"
    command("backup", file)
    with (
        psycopg.connect(os.environ["DATABASE_URL"]),
        pytest.raises(CommandError, match="1 others are connected"),
    ):
        command("restore", file, "--overwrite")
    assert states(d, job) == ("READY_TO_COMMIT", ["PREPARED"])


@pytest.mark.long
def test_a_backup_is_put_back_on_a_server_that_never_saw_this_application(tmp_path: Path) -> None:
    """Another machine after a fire: an embedded server of its own, made by the command itself."""
    d = Dispatching.make("http://127.0.0.1:9", a_contract())
    d.ready()
    command("backup", tmp_path / "backup")
    said = ""
    for arguments in (("restore", str(tmp_path / "backup")), ("dispatch", "status")):
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "manage.py", *arguments],
            cwd=PROJECT, env=environment(tmp_path / "var"), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        said += ended.stdout
    assert "1 jobs are back, and every journal is whole" in said
    assert "operations without an outcome: 1, of them nobody's: 1;" in said


def test_a_password_stands_in_a_file_of_ones_own_and_on_no_command_line() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_URL", f"{os.environ['DATABASE_URL']}&password=not-for-others")
        with tools() as programs:
            service = Path(programs.environment["PGSERVICEFILE"])
            assert service.stat().st_mode & 0o777 == 0o600
            assert "password=not-for-others" in service.read_text()
            with programs.reading(
                "psql", "--no-psqlrc", "-Atc", "SELECT count(*) FROM workflows_job"
            ) as said:
                assert said.read() == b"0\n"
        assert not service.exists()


def test_a_dump_that_somebody_puts_back_by_hand_is_noticed_before_anything_is_sent(tmp_path: Path) -> None:
    """What an administrator does without our command: into an empty database, and the workers are started."""
    d = Dispatching.make("http://127.0.0.1:9", a_contract())
    job, file = d.ready(), tmp_path / "backup"
    command("backup", file)
    connections.close_all()
    by_hand = f"counterfoil_test_{secrets.token_hex(5)}"
    url = database.create_database(by_hand)
    try:
        with tools() as programs, psycopg.connect(url, autocommit=True) as owner:
            with programs.reading("pg_restore", "--no-owner", "-f", "-", str(file)) as output:
                script = output.read()
            owner.execute("DROP SCHEMA public CASCADE")
            programs.feed("psql", ["--no-psqlrc", "--set=ON_ERROR_STOP=1", url], iter([script]))
        with databases.used_by_this_process(by_hand, url):
            assert was_copied()
            command("migrate", "--verbosity", "0")
            assert not was_copied()
            assert states(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
    finally:
        database.drop_database(by_hand)
