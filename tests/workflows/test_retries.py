"""How errors are classified, how long is waited, and what ends it: attempts, elapsed time, the job's deadline."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from access.models import Person, Tenant
from access.tenancy import reading
from tests.support import eventually
from tests.workflows.test_needs import states, submit
from workflows.actions.hold import release_job
from workflows.authoring import BadDefinition, Permanent, Retry, Retryable
from workflows.claims import Claim
from workflows.engine.engine import Engine
from workflows.engine.outcomes import Result, failed, is_retryable, pause, retry_after
from workflows.models import Attempt, Job, JournalEntry, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.usefixtures("fan_outs_installed")

NOW = datetime(2026, 10, 25, 0, 59, 30, tzinfo=UTC)


def answer(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://provider.test/")
    given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    response = httpx.Response(status, headers=given, request=request)
    error = httpx.HTTPStatusError("no", request=request, response=response)
    error.status_code = status  # type: ignore[attr-defined]
    return error


def claim(attempt: int = 1, limit: int = 5, elapsed: float = 0.0) -> Claim:
    return Claim(
        item_id=1, tenant_id=1, job_id=1, stage_id=1, stage_name="s", kind="step", key="1", ordinal=1,
        ordinal_of_stage=1, claim_no=attempt, attempt=attempt, attempts_limit=limit, worker_id=1, worker_name="w",
        lane_id=1, elapsed_before=elapsed,
    )  # fmt: skip


def fail(error: BaseException, retry: Retry, given: Claim | None = None) -> Result:
    given = given or claim()
    return failed(given, error, retry=retry, usage=None, started=NOW, now=NOW + timedelta(seconds=2))


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry_after": "120"}, 120, 140),
        ({"retry_after": "Sun, 25 Oct 2026 01:01:00 GMT", "date": "Sun, 25 Oct 2026 00:59:30 GMT"}, 90, 110),
        ({"retry_after": "Sunday, 25-Oct-26 01:01:00 GMT"}, 88, 110),
        ({"retry_after": "999999999"}, 86_400, 86_500),
        ({"retry_after": "0"}, 0, 1.1),
    ],
)
def test_what_the_other_side_asks_for_is_kept_to(headers: dict[str, str], least: float, most: float) -> None:
    result = fail(answer(429, **headers), Retry())
    assert result.state is ItemState.BACKING_OFF
    assert result.wait_seconds is not None
    assert least <= result.wait_seconds <= most


@pytest.mark.parametrize("value", ["soon", "-5", "²", "1e3", "", "Sun, 99 Foo 2026", "9" * 400])
def test_a_retry_after_that_cannot_be_read_is_as_if_it_were_not_there(value: str) -> None:
    assert retry_after(answer(503, retry_after=value), NOW) is None


def test_a_date_is_read_against_the_other_sides_own_clock() -> None:
    error = answer(
        503, retry_after="Sun, 25 Oct 2026 12:00:30 GMT", date="Sun, 25 Oct 2026 12:00:00 GMT"
    )  # eleven hours ahead of ours
    assert retry_after(error, NOW) == 30


def test_twenty_that_were_told_together_do_not_come_together() -> None:
    waits = [pause(Retry(), 1, asked=120) for _ in range(20)]
    assert len({int(w) for w in waits}) > 3
    assert min(waits) >= 120


def test_waits_double_up_to_the_cap_with_full_jitter() -> None:
    retry = Retry(first_wait=1, longest_wait=8)
    for attempt, ceiling in ((1, 1), (2, 2), (3, 4), (4, 8), (9, 8), (5000, 8)):
        waits = [pause(retry, attempt, asked=None) for _ in range(200)]
        assert 0 <= min(waits) < ceiling / 4
        assert ceiling * 0.75 < max(waits) <= ceiling


def test_the_elapsed_limit_ends_it_before_a_wait_that_would_pass_it() -> None:
    retry = Retry(elapsed=3600)
    result = fail(answer(429, retry_after="999999999"), retry)
    assert result.state is ItemState.EXHAUSTED
    assert "the next try in 86" in result.error_message
    assert "later than 3600 s after the first" in result.error_message
    assert fail(answer(429, retry_after="60"), retry, claim(elapsed=3590)).state is ItemState.EXHAUSTED
    assert fail(answer(429, retry_after="60"), retry, claim(elapsed=3000)).state is ItemState.BACKING_OFF


def test_attempts_end_it_whatever_comes_first() -> None:
    assert fail(Retryable("later"), Retry(), claim(attempt=5)).state is ItemState.EXHAUSTED
    assert fail(Retryable("later"), Retry(), claim(attempt=4)).state is ItemState.BACKING_OFF


@pytest.mark.parametrize(
    ("error", "retries"),
    [
        (answer(400), False),
        (answer(404), False),
        (answer(408), True),
        (answer(429), True),
        (answer(500), True),
        (answer(503), True),
        (httpx.ConnectError("refused"), True),
        (httpx.ReadTimeout("slow"), True),
        (TimeoutError(), True),
        (Permanent("no"), False),
        (Retryable("later"), True),
        (KeyError("x"), True),
        (SystemExit(1), True),
        (RecursionError(), True),
    ],
)
def test_errors_are_classified_by_general_rules(error: BaseException, retries: bool) -> None:
    assert is_retryable(error, Retry()) is retries


def test_a_stages_own_rules_come_first_but_for_permanent() -> None:
    rules = Retry(retry_on=(404, KeyError, Permanent), stop_on=(503, TimeoutError))
    assert is_retryable(answer(404), rules)
    assert is_retryable(KeyError("x"), rules)
    assert not is_retryable(answer(503), rules)
    assert not is_retryable(TimeoutError(), rules)
    assert not is_retryable(Permanent("no"), rules)


@pytest.mark.parametrize(
    "terms",
    [
        {"attempts": 0},
        {"attempts": 1001},
        {"first_wait": -1},
        {"longest_wait": float("inf")},
        {"elapsed": float("nan")},
        {"retry_on": (404,), "stop_on": (404,)},
    ],
)
def test_a_retry_that_means_nothing_is_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(BadDefinition):
        Retry(**terms)


@pytest.mark.django_db(transaction=True)
def test_one_that_always_says_later_ends_by_its_elapsed_limit(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, "test-brief", {"code": "a", "act": "later", "wait": 3})
    eventually(lambda: states(tenant, job_id).get("1") is ItemState.EXHAUSTED, what="the limit")
    with reading(tenant.pk):
        tries = Attempt.objects.filter(item__stage__name="enrich").order_by("number")
        assert [t.outcome for t in tries] in (["retryable"] * 2, ["retryable"])
        assert tries.last().error_message.startswith("later (")  # type: ignore[union-attr]
        item = WorkItem.objects.get(stage__name="enrich")
        assert item.attempts < item.attempts_limit


@pytest.mark.django_db(transaction=True)
def test_a_job_that_is_not_ready_by_its_deadline_is_held_and_can_be_let_on(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    from access.roles import Role
    from tests.support import make_person

    job_id = submit(tenant, submitter, "test-hasty", {"code": "a", "act": "once", "wait": 2})

    def passed() -> JournalEntry | None:
        with reading(tenant.pk):
            return JournalEntry.objects.filter(job_id=job_id, event="deadline.passed").first()

    entry = eventually(passed, what="the deadline")
    assert "its deadline of" in json.loads(entry.evidence)["why"]
    with reading(tenant.pk):
        job = Job.objects.get(pk=job_id)
        assert job.held_at is not None
        assert job.deadline_at is None
    operator = make_person(tenant, Role.OPERATOR)
    release_job(tenant_id=tenant.pk, job_id=job_id, person_id=operator.pk, now=datetime.now(UTC))
    eventually(lambda: states(tenant, job_id, "summarise"), what="the rest")
