"""C1: a real provider process answers 429 with every form of Retry-After, and a real worker keeps to what it says."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from approvals.locks import database_clock
from examples.simulators.client import ProviderControl
from reconciliation.kinds import CaseKind
from reconciliation.models import Case
from tests import clusters
from tests.dispatch.world import as_engine
from tests.faults.told import FIRST, HOUR
from tests.support import eventually, install
from web import times
from workflows import explaining, hooks
from workflows.actions.submit import submit_job
from workflows.models import Attempt, Job, WorkItem
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
WORKFLOWS = "tests.faults.told"
DAY = 86_400
S = ItemState


@pytest.fixture(autouse=True)
def _asking(settings: Any, _own_workflows: None) -> None:
    install(settings, WORKFLOWS)


@pytest.fixture
def start(tmp_path: Any, provider_address: str, transactional_db: None) -> Iterator[Callable[[], Any]]:
    """A cluster of one worker with eight slots, which asks the provider's process."""
    with clusters.starting(tmp_path) as starting:
        yield lambda: starting(WORKFLOWS, workers=1, slots=8, COUNTERFOIL_PROVIDER_URL=provider_address)


@dataclass(frozen=True)
class Asking:
    """A job that asks a few questions, as its rows show it."""

    tenant: Tenant
    job_id: int

    def items(self) -> list[WorkItem]:
        with reading(self.tenant.pk):
            rows = WorkItem.objects.filter(job_id=self.job_id, stage__name="question").order_by("ordinal")
            return list(rows)

    def states(self) -> list[ItemState]:
        return [i.state_name for i in self.items()]

    def waits(self) -> list[tuple[float, float] | None]:
        """For each item that waits, between how many seconds its wait lasts: from the end and from the start of its attempt."""
        with reading(self.tenant.pk):
            tried = {a.item_id: a for a in Attempt.objects.filter(item__job_id=self.job_id).order_by("pk")}
        return [
            None
            if i.next_attempt_at is None
            else (
                (i.next_attempt_at - database_clock()).total_seconds(),
                (i.next_attempt_at - tried[i.pk].started_at).total_seconds(),
            )
            for i in self.items()
        ]

    def starts(self) -> list[datetime]:
        """Of the attempts at its only question."""
        with reading(self.tenant.pk):
            rows = Attempt.objects.filter(item__job_id=self.job_id, item__stage__name="question")
            return list(rows.order_by("pk").values_list("started_at", flat=True))

    def why(self) -> str | None:
        with reading(self.tenant.pk):
            return hooks.why_waiting(Job.objects.get(pk=self.job_id))


@pytest.fixture
def asks(tenant: Tenant, submitter: Person) -> Callable[..., Asking]:
    def submit(*tasks: str, workflow: str = "test-told") -> Asking:
        made = submit_job(
            tenant_id=tenant.pk,
            workflow=workflow,
            value={"tasks": list(tasks)},
            submission_key=secrets.token_hex(8),
            person_id=submitter.pk,
            source="tests",
            now=timezone.now(),
        )
        return Asking(tenant, made.job_id)

    return submit


def refuses(task: str, retry_after: str) -> dict[str, Any]:
    """The provider's rule: once, and then it answers."""
    fault = {"kind": "status_429", "retry_after": retry_after}
    return {"match": {"task": task}, "fault": fault, "times": 1}


def answers(*tasks: str) -> list[dict[str, Any]]:
    return [{"match": {"task": task}, "answer": {"said": task}} for task in tasks]


def calls(provider: ProviderControl) -> dict[str, int]:
    """How often each was asked for."""
    found: dict[str, int] = {}
    for call in provider.calls():
        name = call["last_user"].splitlines()[0].removeprefix("task: ")
        found[name] = found.get(name, 0) + 1
    return found


def http_date(at: datetime) -> str:
    return format_datetime(at.astimezone(UTC), usegmt=True)


def test_every_form_of_it_is_kept_to_persisted_and_shown(
    start: Callable[[], Any],
    asks: Callable[..., Asking],
    provider: ProviderControl,
    tenant: Tenant,
    operator: Person,
) -> None:
    """In seconds, as a date, a year's worth of seconds, and a word. No test waits so long: the times are brought forward."""
    tasks = ["seconds", "date", "huge", "word"]
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=600)
    provider.set_script(
        refuses("seconds", "1200"),
        refuses("date", http_date(date)),
        refuses("huge", "999999999"),
        refuses("word", "soon"),
        *answers(*tasks),
    )
    killed = start()
    job = asks(*tasks)
    waiting = [S.BACKING_OFF, S.BACKING_OFF, S.BACKING_OFF, S.SUCCEEDED]
    eventually(lambda: job.states() == waiting, what="three that wait")
    assert calls(provider) == {"seconds": 1, "date": 1, "huge": 1, "word": 2}
    of_seconds, of_date, of_huge, _ = job.waits()
    for wait, least, spread in ((of_seconds, 1200, 60), (of_huge, DAY, 60)):
        assert wait is not None
        assert wait[0] <= least + FIRST + spread
        assert wait[1] >= least
    _, dated, _, _ = items = job.items()
    assert of_date is not None
    assert dated.next_attempt_at is not None
    assert date <= dated.next_attempt_at
    assert of_date[0] <= 600 + FIRST + 60

    told = (
        f"question date of 4 tries again at {explaining.clock(dated.next_attempt_at)} (1 of 3 attempts used)"
    )
    assert job.why() == told
    page = _page(operator, f"/t/{tenant.slug}/jobs/{job.job_id}/items/{dated.pk}/")
    assert f'title="{times.exact_words(dated.next_attempt_at)}"' in page

    killed.kill()
    start()
    assert [i.next_attempt_at for i in job.items()] == [i.next_attempt_at for i in items]
    other = asks("word")
    eventually(lambda: other.states() == [S.SUCCEEDED], what="other work, meanwhile")
    assert calls(provider) == {"seconds": 1, "date": 1, "huge": 1, "word": 3}

    as_engine(
        "UPDATE workflows_workitem SET next_attempt_at = clock_timestamp() WHERE state = %s",
        [S.BACKING_OFF.number],
    )
    eventually(lambda: job.states() == [S.SUCCEEDED] * 4, what="the rest, once it is time")
    assert calls(provider) == {"seconds": 2, "date": 2, "huge": 2, "word": 3}


def _page(person: Person, url: str) -> str:
    browser = Client()
    browser.force_login(person)
    answer = browser.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


def test_nothing_is_asked_before_the_date(
    start: Callable[[], Any], asks: Callable[..., Asking], provider: ProviderControl
) -> None:
    start()
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4)
    provider.set_script(refuses("date", http_date(date)), *answers("date"))
    job = asks("date")
    eventually(lambda: job.states() == [S.SUCCEEDED], what="the answer")
    _, second = job.starts()
    assert second >= date
    began = [datetime.fromisoformat(call["started_at"]) for call in provider.calls()]
    assert len(began) == 2
    assert began[1] >= date


def test_twenty_that_were_told_together_come_back_apart(
    start: Callable[[], Any], asks: Callable[..., Asking], provider: ProviderControl
) -> None:
    tasks = [f"t{n:02}" for n in range(20)]
    provider.set_script(*[refuses(task, "120") for task in tasks], *answers(*tasks))
    start()
    job = asks(*tasks)
    eventually(lambda: job.states() == [S.BACKING_OFF] * 20, what="twenty that wait")
    due = [i.next_attempt_at for i in job.items()]
    assert all(wait is not None and wait[1] >= 120 for wait in job.waits())
    assert len({at and at.replace(microsecond=0) for at in due}) > 3


def test_a_wait_beyond_the_steps_own_limit_ends_it_with_a_case_that_says_so(
    start: Callable[[], Any], asks: Callable[..., Asking], provider: ProviderControl, tenant: Tenant
) -> None:
    provider.set_script(refuses("huge", "999999999"), *answers("huge"))
    start()
    job = asks("huge", workflow="test-told-within-an-hour")
    eventually(lambda: job.states() == [S.EXHAUSTED], what="the end of it")

    def case() -> Case | None:
        with reading(tenant.pk):
            return Case.objects.filter(job_id=job.job_id).first()

    found = eventually(case, what="the case")
    with reading(tenant.pk):
        (attempt,) = Attempt.objects.filter(item__job_id=job.job_id, item__stage__name="question")
        assert Job.objects.get(pk=job.job_id).state == "VALIDATED"
    assert f"would be later than {HOUR:g} s after the first" in attempt.error_message
    assert (found.kind, found.owner_role) == (CaseKind.RETRY_EXHAUSTED, Role.OPERATOR)
    assert calls(provider) == {"huge": 1}
