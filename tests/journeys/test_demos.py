"""The demos from the outside: as commands, with the summary that they print and the exit code that they end with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

from config import database
from config.var import PROJECT, var_file
from tests.support import eventually

pytestmark = pytest.mark.processes
LONGEST_SECONDS = 600


@pytest.mark.parametrize(
    ("contract", "state"),
    [
        ("keyed", "CONFIRMED"),
        pytest.param("neither", "NEEDS_RECONCILIATION", marks=pytest.mark.long),
    ],
)
def test_vendor_change_has_one_effect_whoever_loses_the_answer(contract: str, state: str) -> None:
    told = demo("vendor-onboarding", "--contract", contract)

    assert told["promise_held"] is True
    assert told["killed_worker"]["pid"] != told["killed_worker"]["restarted_as"]
    for job in told["jobs"]:
        key = job["operation_key"]
        assert (job["state"], job["effects"], job["bodies"], job["journal_fault"]) == (state, 1, 1, "")
        assert job["keys_sent"] == ([] if contract == "neither" else [key])
    if contract == "neither":
        assert [job["requests"] for job in told["jobs"]] == [1, 1]


@pytest.mark.long
def test_receiver_that_confirms_later_is_heard_whoever_is_dead_and_believed_only_by_its_signature() -> None:
    told = demo("confirmed-later")

    assert [(j["state"], j["settled"], j["journal_fault"]) for j in told["jobs"]] == [
        ("CONFIRMED", 1, ""), ("CONFIRMED", 1, ""), ("CONFIRMED", 1, ""), ("FAILED", 1, ""),
    ]  # fmt: skip
    assert [j["confirmed_by"] for j in told["jobs"][1:3]] == ["receiver", "worker"]
    assert told["callbacks"] == {"answered": [200, 200, 401, 200], "kept": ["applied", "applied", "failed"]}


@pytest.mark.long
def test_expense_policy_asks_again_only_what_was_not_saved() -> None:
    told = demo("expense-policy")

    expected = {
        "promise_held": True,
        "state": "CONFIRMED",
        "saved_before_kill": 13,
        "calls_before_kill": 14,
        "calls_after_restart": 7,
        "rules_asked_again": [14, 15, 16, 17, 18, 19, 20],
        "saved_unchanged": True,
        "saved_in_the_end": 20,
        "effects": 1,
        "requests": 1,
        "journal_fault": "",
    }
    assert {name: told[name] for name in expected} == expected
    assert told["keys_sent"] == [told["operation_key"]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("contract", "state"),
    [("keyed", "CONFIRMED"), ("lookup", "CONFIRMED"), ("neither", "NEEDS_RECONCILIATION")],
)
def test_set_of_500_is_asked_about_once_approved_once_and_written_once(contract: str, state: str) -> None:
    told = demo("enrichment", "--contract", contract)

    expected = {
        "promise_held": True,
        "first_319_rated_before": True,
        "saved_unchanged": True,
        "model_calls": 500,
        "register_calls": 500,
        "credit_calls": 501,
        "asked_more_than_once": [320],
        "statuses_of_the_refused": [429, 200],
        "state": state,
        "operations": 500,
        "records_written_twice": [],
        "records_with_two_bodies": [],
        "journal_fault": "",
    }
    assert {name: told[name] for name in expected} == expected
    assert 319 <= told["rated_before_redeploy"] < 330
    assert told["waited_seconds"] >= 12
    assert told["killed_worker"]["pid"] != told["killed_worker"]["restarted_as"]
    if contract == "neither":
        assert told["operation_states"]["UNKNOWN"] >= 1
        assert told["effects"] == told["requests"] < 500
    else:
        assert (told["operation_states"], told["effects"]) == ({"CONFIRMED": 500}, 500)


@pytest.mark.long
def test_document_goes_on_from_its_summary_and_another_is_undone_last_first() -> None:
    told = demo("documents")

    record, undone = told["record"], told["undone"]
    assert told["promise_held"] is True
    expected = {
        "state": "CONFIRMED",
        "calls_for_the_summary": 1,
        "calls_for_the_fields": 2,
        "summary_unchanged": True,
        "effects": 1,
        "requests": 1,
        "taken_out": [],
        "journal_fault": "",
    }
    assert {name: record[name] for name in expected} == expected
    assert (undone["state"], undone["effects"], undone["left"], undone["asked_twice"]) == ("FAILED", 0, [], 1)
    assert sorted(undone["deleted"][:-1]) == sorted(undone["made"])
    assert undone["deleted"][-1].startswith("document-")


@pytest.mark.long
def test_demo_that_does_not_get_there_says_why_and_fails() -> None:
    """A provider that is given a millisecond: the model's step stops, and nothing is ever proposed."""
    ended = _run("vendor-onboarding", COUNTERFOIL_PROVIDER_TIMEOUT="0.001")

    told = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert told["promise_held"] is False
    assert re.match(r"JOB-\d is VALIDATED and does not go on: assess stopped with", told["why"]), told["why"]
    assert told["why"] in ended.stderr


@pytest.mark.long
def test_interrupted_demo_leaves_nothing_behind() -> None:
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "expense-policy", "--json"],
            cwd=PROJECT,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        try:
            name = eventually(lambda: _database_of(said), seconds=60, what="a database of its own")
            eventually(lambda: "submitted" in _text(said), seconds=60, what="a submitted job")
            running.send_signal(signal.SIGINT)
            assert running.wait(40) != 0
        finally:
            running.kill()

    assert not _exists(name)
    assert not var_file("demos", name).exists()
    assert _processes_that_know(name) == []


def demo(*arguments: str) -> dict[str, Any]:
    """Run a demo to its end, which has to be a good one; what it printed as JSON."""
    ended = _run(*arguments)
    assert ended.returncode == 0, ended.stderr[-6000:]
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "demo", *arguments, "--json"],
        cwd=PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )


def _text(said: Any) -> str:
    # By position, not by seek: the demo writes through the same open file.
    return os.pread(said.fileno(), 100_000, 0).decode(errors="replace")


def _database_of(said: Any) -> str:
    found = re.search(r"Database (\w+) made", _text(said))
    return found.group(1) if found else ""


def _exists(name: str) -> bool:
    with psycopg.connect(database.login_url(), autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM pg_database WHERE datname = %s", [name]).fetchone()
    return row != (0,)


def _processes_that_know(name: str) -> list[str]:
    """Commands whose line or environment names the demo's database or folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            known = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if name.encode() in known and int(folder.name) != os.getpid():
            found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
