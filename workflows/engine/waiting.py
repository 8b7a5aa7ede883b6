"""Steps that wait: what a handler asked for as a Result, and what becomes of it when its item is claimed again.

The expectation is inserted by the batch that records the Result (`wait_sql.ASK`), so that there is never one without
the other. Its item is WAITING and no claim sees it: what comes for it makes it SUCCEEDED (`expectations.settle`), and
when its time is up it is promoted and claimed, and comes here.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.db.models.functions import Now

from access.tenancy import reading
from workflows.authoring import Event, Question, Sleep, Usage, Woken
from workflows.authoring.steps import Step
from workflows.authoring.waits import BadWait
from workflows.engine.handling import WaitExpired, check_wait, wait_expired
from workflows.engine.outcomes import Asked, Result, encode
from workflows.models import AttemptOutcome, Expectation, ExpectationKind, Settled
from workflows.states import ItemState

if TYPE_CHECKING:
    from workflows.engine.slots import Pinned


def asks(value: object) -> bool:
    """Whether a handler returned something to wait for."""
    return isinstance(value, (Sleep, Event, Question))


def begun(pinned: Pinned, step: Step, wait: Any, usage: Usage) -> Result:
    """The Result of a handler that has to wait. Raises BadWait for what cannot be waited for."""
    check_wait(step, wait)
    if isinstance(wait, Event):
        _refuse_taken(pinned, wait.key)
    asked = _asked(step, wait)
    return Result(
        claim=pinned.claim,
        outcome=AttemptOutcome.WAITING,
        state=ItemState.WAITING,
        started_at=pinned.started_at,
        ended_at=pinned.now(),
        asked=asked,
        wait_until=asked.until,
        wait_seconds=asked.seconds,
        usage=usage,
    )


def again(pinned: Pinned, step: Step) -> Result | None:
    """The Result of an item that waits already, without its handler; None where nothing is waited for."""
    with reading(pinned.claim.tenant_id):
        mine = Expectation.objects.filter(item_id=pinned.claim.item_id, settled_at__isnull=True)
        found = mine.annotate(over=Q(due_at__lte=Now())).first()
    if found is None:
        return None
    if not found.over:
        return _result(pinned, AttemptOutcome.WAITING, ItemState.WAITING, wait_until=found.due_at)
    assert found.due_at is not None
    if found.kind == ExpectationKind.TIME:
        output, digest = encode(step.output, Woken(at=found.due_at))
        return _result(
            pinned, AttemptOutcome.SUCCEEDED, ItemState.SUCCEEDED, settles=Settled.TIME, output=output,
            digest=digest,
        )  # fmt: skip
    return _result(
        pinned, AttemptOutcome.PERMANENT, ItemState.REFUSED, settles=Settled.EXPIRED,
        error_class=f"{WaitExpired.__module__}.{WaitExpired.__qualname__}", error_message=_expired(found, found.due_at),
    )  # fmt: skip


def key_taken(result: Result) -> Result:
    """What is recorded where another item began to wait for the same key in the same instant."""
    assert result.asked is not None
    return Result(
        claim=result.claim,
        outcome=AttemptOutcome.PERMANENT,
        state=ItemState.REFUSED,
        started_at=result.started_at,
        ended_at=result.ended_at,
        error_class=f"{BadWait.__module__}.{BadWait.__qualname__}",
        error_message=_taken(result.asked.key, "Another job"),
        usage=result.usage,
    )


def _refuse_taken(pinned: Pinned, key: str) -> None:
    with reading(pinned.claim.tenant_id):
        others = Expectation.objects.filter(key=key, settled_at__isnull=True)
        job_id = others.exclude(item_id=pinned.claim.item_id).values_list("job_id", flat=True).first()
    if job_id is not None:
        raise BadWait(_taken(key, f"JOB-{job_id}"))


def _taken(key: str, who: str) -> str:
    return f"{who} waits for the event “{key}” already, and a key ends one wait. Put what tells them apart in the key."


def _asked(step: Step, wait: Any) -> Asked:
    if isinstance(wait, Sleep):
        return Asked(kind=ExpectationKind.TIME, **_due(wait.until))
    if isinstance(wait, Event):
        return Asked(kind=ExpectationKind.EVENT, key=wait.key, source=wait.source, **_due(wait.within))
    return Asked(
        kind=ExpectationKind.ANSWER,
        question=wait.text,
        role=wait.role,
        schema=json.dumps(step.output.json_schema(), ensure_ascii=False),
        **_due(wait.within),
    )


def _due(when: Any) -> dict[str, Any]:
    if isinstance(when, datetime):
        return {"until": when}
    return {"seconds": None if when is None else max(0.0, when.total_seconds())}


def _expired(expectation: Expectation, due_at: datetime) -> str:
    is_event = expectation.kind == ExpectationKind.EVENT
    what = expectation.key if is_event else expectation.question
    return wait_expired(is_event=is_event, what=what, due_at=due_at)


def _result(pinned: Pinned, outcome: AttemptOutcome, state: ItemState, **more: Any) -> Result:
    return Result(
        claim=pinned.claim,
        outcome=outcome,
        state=state,
        started_at=pinned.started_at,
        ended_at=pinned.now(),
        **more,
    )
