"""The kit is faithful where a run needs somebody: after each thing that somebody does, both stand the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.utils import timezone

from access.tenancy import reading
from counterfoil.testing import Fate, Kit, Receiver, Run
from tests.counterfoil.conftest import Installation
from tests.counterfoil.contracts import contract
from tests.counterfoil.more_workflows import BOOKED, BROKEN, parcels, rooms, strict, waits
from tests.counterfoil.sameness import Before, Seen, of_installation, of_kit
from tests.counterfoil.test_conformance import decide
from tests.support import eventually
from workflows.actions.answer import answer_question
from workflows.actions.cancel import cancel_job
from workflows.actions.correct import correct_item
from workflows.actions.receive_event import receive_event
from workflows.actions.redrive import redrive_job
from workflows.actions.retry import fail_job, grant_attempts
from workflows.actions.run_again import run_steps_again
from workflows.actions.skip import skip_item
from workflows.actions.submit import submit_job
from workflows.authoring import Workflow
from workflows.expectations import Misfit
from workflows.models import STUCK_NUMBERS, Expectation, WorkItem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@dataclass(frozen=True)
class On:
    """A real job with the people around it."""

    place: Installation
    job_id: int

    def stopped(self, key: str) -> int:
        with reading(self.place.tenant.pk):
            return int(WorkItem.objects.get(job_id=self.job_id, key=key, state__in=STUCK_NUMBERS).pk)

    @property
    def by_operator(self) -> dict[str, Any]:
        return {"tenant_id": self.place.tenant.pk, "person_id": self.place.operator.pk, "now": timezone.now()}


@dataclass(frozen=True)
class Act:
    """One thing that somebody does, to the kit's run and to the real job."""

    kit: Callable[[Run], Any]
    real: Callable[[On], Any]


def skip(key: str) -> Act:
    return Act(
        lambda run: run.skip(key=key),
        lambda on: skip_item(item_id=on.stopped(key), reason="because", **on.by_operator),
    )


def correct(key: str, value: Any) -> Act:
    return Act(
        lambda run: run.correct(value, key=key),
        lambda on: correct_item(
            item_id=on.stopped(key), text=json.dumps(value), attempts=1, reason="because", **on.by_operator
        ),
    )


def grant(key: str) -> Act:
    return Act(
        lambda run: run.grant(2, key=key),
        lambda on: grant_attempts(item_id=on.stopped(key), attempts=2, reason="because", **on.by_operator),
    )


def answer(value: Any) -> Act:
    def really(on: On) -> None:
        with reading(on.place.tenant.pk):
            asked = Expectation.objects.get(job_id=on.job_id, settled_at__isnull=True)
        answer_question(
            tenant_id=on.place.tenant.pk, expectation_id=asked.pk, person_id=on.place.submitter.pk, value=value,
            now=timezone.now(),
        )  # fmt: skip

    return Act(lambda run: run.answer(value), really)


def event(key: str, value: Any) -> Act:
    def really(on: On) -> None:
        tenant_id, event_id = on.place.tenant.pk, f"{key} {value}"
        with suppress(Misfit):  # told to whoever sent it
            receive_event(
                tenant_id=tenant_id,
                source="carrier",
                event_id=event_id,
                key=key,
                value=value,
                now=timezone.now(),
            )

    return Act(lambda run: run.event(key, value), really)


def verdict(name: str, act: Callable[[Run], Any]) -> Act:
    return Act(act, lambda on: decide(on.place, on.job_id, 0, name))


APPROVE = verdict("approve", lambda run: run.approve())
REJECT = verdict("reject", lambda run: run.reject("because"))
GIVE_UP = Act(
    lambda run: run.give_up("because"),
    lambda on: fail_job(job_id=on.job_id, reason="because", **on.by_operator),
)
REDRIVE = Act(
    lambda run: run.redrive(2),
    lambda on: redrive_job(job_id=on.job_id, attempts=2, reason="because", **on.by_operator),
)
CHANGES = Act(
    lambda run: run.ask_for_changes("because"), lambda on: decide(on.place, on.job_id, 0, "request changes")
)


def run_again(first: str = "", seen: int = 0) -> Act:
    return Act(
        lambda run: run.run_again(first, "because"),
        lambda on: run_steps_again(
            job_id=on.job_id, first=first, seen=seen, reason="because", **on.by_operator
        ),
    )


CANCEL = Act(
    lambda run: run.cancel("because"),
    lambda on: cancel_job(
        tenant_id=on.place.tenant.pk, job_id=on.job_id, person_id=on.place.admin.pk, reason="because",
        now=timezone.now(),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Story:
    name: str
    workflow: Workflow
    parts: tuple[str, ...] = ("ok",)
    acts: tuple[Act, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    fates: tuple[Fate, ...] = ()
    broken: int = 0


STORIES = [
    Story("a share is enough", parcels, ("ok", "stop", "later", "stop"), (APPROVE,)),
    Story("too few for the need", parcels, ("stop", "stop", "ok"), (grant("1"),)),
    Story("a stopped part is skipped", strict, ("ok", "stop", "ok"), (skip("2"), APPROVE)),
    Story("a stopped part is corrected", strict, ("ok", "stop"), (correct("2", {"text": "ok"}), APPROVE)),
    Story("a job is given up and redriven", strict, ("ok", "stop"), (GIVE_UP, REDRIVE, skip("2"))),
    Story("a stopped part is skipped, and then all parts are run again", strict, ("ok", "stop"), (
        skip("2"), CHANGES, run_again(), skip("2"), APPROVE,
    )),
    Story("steps are run again while one of them has stopped", strict, ("ok", "stop"), (
        skip("2"), CHANGES, run_again(), run_again(seen=1), skip("2"), REJECT,
    )),
    Story("it waits for an answer and an event", waits, acts=(
        answer({"day": "Monday"}),
        event("shipment P-1", {"track": "T"}),
        event("shipment P-1", {"tracking": "T-9"}),
        APPROVE,
    ), more={"sleep_minutes": 0}),
    Story("it asks again when its steps run again", waits, acts=(
        answer({"day": "Monday"}),
        event("shipment P-1", {"tracking": "T-9"}),
        CHANGES, run_again(), answer({"day": "Tuesday"}), run_again(seen=1), CANCEL,
    ), more={"sleep_minutes": 0}),
    Story("what its steps made is undone", rooms, ("a", "b"), (REJECT,)),
    Story("undoing is tried again", rooms, ("a",), (REJECT,), broken=2),
    Story("a cancel undoes", rooms, ("a",), (CANCEL,)),
    Story("an effect stands", rooms, ("a",), (APPROVE,)),
    Story("a waiting job is cancelled", waits, acts=(CANCEL,), more={"sleep_minutes": 0}),
    Story("an empty fan-out", strict, (), (CANCEL,)),
]  # fmt: skip
QUICK = (
    "a stopped part is skipped, and then all parts are run again",
    "a stopped part is skipped",
    "it waits for an answer and an event",
    "what its steps made is undone",
)


@pytest.mark.parametrize(
    "story",
    [pytest.param(s, id=s.name, marks=() if s.name in QUICK else pytest.mark.long) for s in STORIES],
)
def test_both_stand_the_same_after_everything_that_somebody_does(
    story: Story, installation: Installation
) -> None:
    value = {"reference": "P-1", "parts": list(story.parts), **story.more}
    installation.receiver("ledger", contract("keyed"))
    installation.policy("parcels")
    receiver = Receiver("ledger", contract("keyed"), fates=story.fates)
    BOOKED.clear()
    BROKEN[:] = ["locked"] * story.broken
    run = Kit(story.workflow).submit(value, receivers=[receiver])
    since = Before.now(installation.erp)
    on = On(installation, _submitted(story, value, installation))
    _same(run, receiver, on, since)
    for act in story.acts:
        act.kit(run)
        left, BROKEN[:] = list(BROKEN), ["locked"] * story.broken
        act.real(on)
        _same(run, receiver, on, since)
        assert left == BROKEN


def _submitted(story: Story, value: dict[str, Any], installation: Installation) -> int:
    return submit_job(
        tenant_id=installation.tenant.pk, workflow=story.workflow.name, value=value, submission_key="story",
        person_id=installation.submitter.pk, source="test", now=timezone.now(),
    ).job_id  # fmt: skip


def _same(run: Run, receiver: Receiver, on: On, since: Before) -> None:
    expected = of_kit(run, receiver)

    def seen() -> Seen:
        return of_installation(on.place.tenant.pk, on.job_id, on.place.erp, since=since)

    try:
        eventually(lambda: seen() == expected, seconds=20)
    except AssertionError:
        assert seen() == expected  # pytest shows the difference
