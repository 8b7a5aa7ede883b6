"""What is kept of an attempt that failed: where, what the model had said, and no secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.tenancy import reading
from examples.demos.workers import Cluster
from tests.support import eventually
from tests.workflows import failing
from web import redaction
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine
from workflows.models import Attempt, Checkpoint
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "kX9-very+secret/value"


@pytest.fixture(autouse=True)
def own_workflow(test_workflows: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.COUNTERFOIL_WORKFLOWS = ["tests.workflows.failing"]
    monkeypatch.setenv("TEST_API_KEY", SECRET)
    redaction._values.cache_clear()
    yield
    redaction._values.cache_clear()


def submit(tenant: Tenant, person: Person, how: str) -> int:
    return submit_job(
        tenant_id=tenant.pk, workflow="test-failing", value={"how": how}, submission_key=how,
        person_id=person.pk, source="test", now=timezone.now(),
    ).job_id  # fmt: skip


def attempts(tenant: Tenant, job_id: int, state: ItemState) -> list[Attempt]:
    """The attempts of the asking step, once its item has come to rest in a state."""

    def look() -> list[Attempt]:
        with reading(tenant.pk):
            found = Attempt.objects.filter(
                item__job_id=job_id, item__stage__name="ask", item__state=state.number
            )
            return list(found.order_by("number"))

    return eventually(look, what=f"an item {state}")


def line_of(code: str) -> int:
    """The one line of the failing workflow that begins so; < stands for a quotation mark."""
    lines = Path(failing.__file__).read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if line.strip().startswith(code.replace("<", '"')))
    return number


def test_answer_that_does_not_fit_is_asked_for_again_and_kept_for_the_operator_at_the_end(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    for how, said in (("words", '{"amount": "about 50"}'), ("other", '{"sum": 12}')):
        job_id = submit(tenant, submitter, how)
        tries = attempts(tenant, job_id, ItemState.EXHAUSTED)
        assert [(a.number, a.outcome, a.answer) for a in tries] == [(n, "retryable", said) for n in (1, 2, 3)]
        assert all(a.error_class.endswith("ValidationError") and a.tokens_in == 100 for a in tries)
        with reading(tenant.pk):
            assert not Checkpoint.objects.filter(item__job_id=job_id, item__stage__name="ask").exists()


def test_answer_is_not_kept_once_an_attempt_succeeds(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    tries = attempts(tenant, submit(tenant, submitter, "cut"), ItemState.SUCCEEDED)
    assert [(a.outcome, a.answer) for a in tries] == [
        ("retryable", '{"amount": 1'),
        ("retryable", '{"amount": 1'),
        ("succeeded", ""),
    ]
    assert [bool(a.trace) for a in tries] == [True, True, False]


def test_trace_names_file_line_and_function_of_the_handlers_side_and_what_caused_it(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    (attempt,) = attempts(tenant, submit(tenant, submitter, "caused"), ItemState.REFUSED)
    assert attempt.error_message == "the outer sentence"
    assert attempt.trace.splitlines() == [
        f"tests/workflows/failing.py:{line_of('raise Permanent(<the outer')}:ask",
        "from ValueError:",
        f"tests/workflows/failing.py:{line_of('_inner(os.environ')}:ask",
        f"tests/workflows/failing.py:{line_of('raise ValueError')}:_inner",
    ]


def test_endless_recursion_leaves_a_short_trace_with_its_middle_left_out(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    (attempt, *_) = attempts(tenant, submit(tenant, submitter, "deep"), ItemState.EXHAUSTED)
    frames = attempt.trace.splitlines()
    assert (attempt.error_class, len(frames)) == ("RecursionError", 31)
    assert frames[0].endswith(":ask")
    assert frames[5].endswith("frames more …")
    assert {f.rpartition(":")[2] for f in (*frames[1:5], *frames[6:])} == {"_deeper"}


def test_long_answer_is_cut_and_an_error_without_words_is_named(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    (cut,) = attempts(tenant, submit(tenant, submitter, "long"), ItemState.REFUSED)
    assert cut.answer == "x" * 20_000
    (mute, *_) = attempts(tenant, submit(tenant, submitter, "mute"), ItemState.EXHAUSTED)
    assert (mute.error_class, mute.error_message) == (
        "tests.workflows.failing.Mute",
        "It cannot say what it is: its __str__ raised RuntimeError.",
    )


def test_secrets_are_hidden_in_what_an_attempt_leaves_behind(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    (attempt,) = attempts(tenant, submit(tenant, submitter, "plain"), ItemState.REFUSED)
    assert attempt.error_message == "refused: GET https://[hidden]@api.example/x?key=1"
    assert SECRET not in attempt.trace


@pytest.mark.processes
def test_secrets_that_a_handler_logs_are_hidden_in_the_log_of_a_real_worker(
    tenant: Tenant, submitter: Person, tmp_path: Path
) -> None:
    cluster = Cluster(
        environment={
            "DATABASE_URL": os.environ["DATABASE_URL"],
            "COUNTERFOIL_WORKFLOWS": "tests.workflows.failing",
            "COUNTERFOIL_WORKERS": "1",
            "TEST_API_KEY": SECRET,
        },
        log=tmp_path / "workers.log",
    )
    cluster.start()
    try:
        job_id = submit(tenant, submitter, "logs")
        attempts(tenant, job_id, ItemState.REFUSED)
        said = eventually(lambda: [ln for ln in cluster.log_text.splitlines() if "calling" in ln])
    finally:
        cluster.kill()
    assert said[0].endswith("calling with [hidden] and Authorization: [hidden]")
    assert SECRET not in cluster.log_text
    assert "q" * 20 not in cluster.log_text
