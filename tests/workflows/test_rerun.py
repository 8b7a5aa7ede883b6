"""An attempt that runs again, in a real process of its own: with its own input, and without any effect."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from tests.support import eventually, install, make_person
from workflows.actions.correct import correct_item
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine
from workflows.models import Attempt, Checkpoint, JournalEntry, WorkItem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture(autouse=True)
def own_workflows(test_workflows: None, settings: Any) -> None:
    settings.COUNTERFOIL_WORKFLOWS = ["tests.workflows.effects", "tests.workflows.failing"]


@pytest.fixture
def requests() -> Iterator[tuple[str, list[str]]]:
    """A server that notes what it was asked: its address, and the requests."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/effect", seen
    server.shutdown()
    server.server_close()


def failed_attempt(tenant: Tenant, person: Person, workflow: str, **value: Any) -> tuple[int, int]:
    """(job, attempt) of a step that has failed for good."""
    job_id = submit_job(
        tenant_id=tenant.pk, workflow=workflow, value=value, submission_key=str(value), person_id=person.pk,
        source="test", now=timezone.now(),
    ).job_id  # fmt: skip

    def look() -> int | None:
        with reading(tenant.pk):
            rows = Attempt.objects.filter(item__job_id=job_id, outcome="permanent")
            told = rows.filter(
                item__reported_at__isnull=False
            )  # after that the engine has nothing left to do
            return told.values_list("pk", flat=True).first()

    return job_id, eventually(look, what="a failed attempt") or 0


def rerun(capsys: pytest.CaptureFixture[str], job_id: int, attempt_id: int, *more: str) -> tuple[str, str]:
    """(what was printed, why it failed or nothing)."""
    capsys.readouterr()
    try:
        call_command("replay", str(job_id), "--attempt", str(attempt_id), "--run", *more)
    except CommandError as error:
        return capsys.readouterr().out, str(error)
    return capsys.readouterr().out, ""


def everything(tenant: Tenant) -> tuple[Any, ...]:
    """What a rerun could have changed in our own rows."""
    with reading(tenant.pk):
        return (
            list(Attempt.objects.order_by("pk").values()),
            list(WorkItem.objects.order_by("pk").values()),
            Checkpoint.objects.count(),
            JournalEntry.objects.count(),
            list(Tenant.objects.order_by("pk").values()),
        )


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("post", "reach 127.0.0.1, port"),
        ("swallowed", "reach 127.0.0.1, port"),
        pytest.param("thread", "reach 127.0.0.1, port", marks=pytest.mark.long),
        pytest.param("udp", "open a network socket", marks=pytest.mark.long),
        pytest.param("unix", "reach '/tmp/nobody', which another process listens at", marks=pytest.mark.long),
        pytest.param("listen", "open a network socket", marks=pytest.mark.long),
        ("insert", "write to the database (INSERT INTO"),
        pytest.param("acting", "write to the database (UPDATE ACCESS_TENANT SET)", marks=pytest.mark.long),
        pytest.param(
            "read write",
            "have an effect on the database (SET SESSION CHARACTERISTICS)",
            marks=pytest.mark.long,
        ),
        pytest.param("raw", "read-only transaction", marks=pytest.mark.long),
        pytest.param("own session", "open another session with a database", marks=pytest.mark.long),
        ("program", "start another program (touch)"),
        pytest.param("shell", "start another program", marks=pytest.mark.long),
        pytest.param("exec", "start another program", marks=pytest.mark.long),
        ("fork", "start another program"),
        pytest.param("spawn", "start another program", marks=pytest.mark.long),
        ("exit", "end the process by itself (os._exit)"),
        pytest.param("abort", "end the process by itself (os.abort)", marks=pytest.mark.long),
        pytest.param("kill", "send a signal to a process", marks=pytest.mark.long),
        pytest.param("write", "write the file", marks=pytest.mark.long),
        pytest.param("remove", "change files (os.remove)", marks=pytest.mark.long),
        pytest.param("sqlite", "change files (sqlite3.connect)", marks=pytest.mark.long),
    ],
)
def test_effect_is_stopped_with_a_sentence_and_happens_nowhere(
    engine: Engine, tenant: Tenant, submitter: Person, requests: tuple[str, list[str]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], does: str, said: str,
) -> None:  # fmt: skip
    address, seen = requests
    target = tmp_path / "target"
    if does == "remove":
        target.touch()
    where = address if does in ("post", "swallowed", "thread") else str(target)
    job_id, attempt_id = failed_attempt(tenant, submitter, "test-effects", does=does, where=where)
    before = everything(tenant)
    monkeypatch.setenv("TEST_EFFECTS", "on")

    printed, why = rerun(capsys, job_id, attempt_id)

    assert why.startswith("It was stopped. "), printed + why
    assert said in why
    assert everything(tenant) == before
    assert seen == []
    assert target.exists() == (does == "remove")


def test_kernel_refuses_what_a_c_library_does_by_itself(
    engine: Engine, tenant: Tenant, submitter: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    made = [failed_attempt(tenant, submitter, "test-effects", does=d, where=str(tmp_path / d)) for d in ("c library", "c fork", "c signal")]  # fmt: skip
    monkeypatch.setenv("TEST_EFFECTS", "on")
    connected, _ = rerun(capsys, *made[0], "--show-values")
    if "without the kernel's help" in connected:
        pytest.skip("this kernel has no seccomp filters")
    assert '{"said":"socket -1, errno 1"}' in connected
    forked, _ = rerun(capsys, *made[1], "--show-values")
    assert '{"said":"errno 1"}' in forked
    assert not (tmp_path / "c fork").exists()
    assert '{"said":"none went out"}' in rerun(capsys, *made[2], "--show-values")[0]


@pytest.mark.long
def test_provider_can_be_reached_where_it_was_allowed_and_nothing_else(
    engine: Engine, tenant: Tenant, submitter: Person, requests: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    address, seen = requests
    provider = address.removesuffix("/effect")
    allowed = failed_attempt(tenant, submitter, "test-effects", does="post", where=address)
    other = failed_attempt(tenant, submitter, "test-effects", does="post", where="http://127.0.0.1:9/x")
    program = failed_attempt(tenant, submitter, "test-effects", does="program", where="/nowhere/x")
    monkeypatch.setenv("TEST_EFFECTS", "on")
    assert rerun(capsys, *allowed, "--allow-provider", provider)[1] == "It succeeded this time."
    assert seen == ["/effect"]
    assert "reach 127.0.0.1, port 9," in rerun(capsys, *other, "--allow-provider", provider)[1]
    assert "start another program" in rerun(capsys, *program, "--allow-provider", provider)[1]


@pytest.mark.long
def test_process_that_crashes_or_hangs_is_told_of(
    engine: Engine, tenant: Tenant, submitter: Person, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    crash = failed_attempt(tenant, submitter, "test-effects", does="crash")
    hang = failed_attempt(tenant, submitter, "test-effects", does="hang")
    monkeypatch.setenv("TEST_EFFECTS", "on")
    assert rerun(capsys, *crash)[1] == "Its process was ended by signal 11 and told nothing."
    assert "It was ended after 4 s" in rerun(capsys, *hang, "--seconds", "4")[1]


def test_reading_and_scratch_files_are_no_effects_and_values_are_shown_when_asked_for(
    engine: Engine, tenant: Tenant, submitter: Person, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    scratch = failed_attempt(tenant, submitter, "test-effects", does="scratch")
    prints = failed_attempt(tenant, submitter, "test-effects", does="print", where="PRIVATE-7\x9b2J")
    long = failed_attempt(tenant, submitter, "test-effects", does="long")
    monkeypatch.setenv("TEST_EFFECTS", "on")
    assert rerun(capsys, *scratch)[1] == "It succeeded this time."
    printed, why = rerun(capsys, *long, "--seconds", "30")  # more than a pipe holds
    assert why == "It succeeded this time.", why
    assert "200,011 characters" in printed
    hidden, _ = rerun(capsys, *prints)
    assert "PRIVATE-7" not in hidden
    shown, _ = rerun(capsys, *prints, "--show-values")
    assert "printed PRIVATE-7\\u009b2J" in shown
    assert "\x9b" not in shown
    assert '"where":"PRIVATE-7' in shown.replace('": "', '":"')
    assert "3 tokens in" in shown


def test_failure_that_comes_again_is_the_recorded_one(
    engine: Engine, tenant: Tenant, submitter: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id, attempt_id = failed_attempt(tenant, submitter, "test-effects", does="post")
    printed, why = rerun(capsys, job_id, attempt_id)
    assert why == ""
    assert "It failed as recorded: workflows.authoring.errors.Permanent, at the same place." in printed
    assert f"Attempt {attempt_id} of JOB-{job_id}: act, item 1, try 1, permanent" in printed


def test_attempt_gets_the_version_of_its_input_that_it_had_then(
    engine: Engine, tenant: Tenant, submitter: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    """The step fails, a person corrects what it works on, it fails again: each of the two runs on its own input."""
    operator = make_person(tenant, Role.OPERATOR)
    job_id, first = failed_attempt(tenant, submitter, "test-effects", does="post", where="first")
    with reading(tenant.pk):
        item = WorkItem.objects.get(job_id=job_id, stage__name="act")
    correct_item(
        tenant_id=tenant.pk, item_id=item.pk, person_id=operator.pk, attempts=1, reason="try another",
        text='{"plan": {"does": "udp", "where": "second", "after": 1}}', now=timezone.now(),
    )  # fmt: skip

    def look() -> int | None:
        with reading(tenant.pk):
            rows = Attempt.objects.filter(item=item, outcome="permanent").exclude(pk=first)
            return rows.values_list("pk", flat=True).first()

    second = eventually(look, what="the second attempt") or 0
    printed, why = rerun(capsys, job_id, first, "--show-values")
    assert (why, '"where":"first"' in printed.replace(" ", ""), "post was not tried here" in printed) == (
        "",
        True,
        True,
    )
    printed, why = rerun(capsys, job_id, second, "--show-values")
    assert (why, '"where":"second"' in printed.replace(" ", ""), "udp was not tried here" in printed) == (
        "",
        True,
        True,
    )
    assert "plan: a correction, version 1" in printed


def test_what_cannot_be_run_again_is_said(
    engine: Engine, tenant: Tenant, submitter: Person, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id, attempt_id = failed_attempt(tenant, submitter, "test-effects", does="post")
    assert f"JOB-{job_id} has no attempt 999999" in rerun(capsys, job_id, 999_999)[1]
    with pytest.raises(CommandError, match="name it with --attempt"):
        call_command("replay", str(job_id), "--run")
    install(settings, "tests.workflows.failing")
    assert "is not deployed here" in rerun(capsys, job_id, attempt_id)[1]
