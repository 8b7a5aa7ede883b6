"""What was accepted and is confirmed later: asked about until the time is up, then a case that late truth closes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.utils import timezone

from access.roles import WORKER
from access.tenancy import reading
from dispatch import lookups
from dispatch.contracts import Lookup, Timeouts
from dispatch.recovery import LONGEST_POLL, Facts, decide
from dispatch.states import NextStep
from reconciliation.models import Case
from tests.dispatch.calling import PROGRESS, by_key, call, secret, stand, told
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import BODY, Dispatching, a_keyed_contract, as_json, as_owner
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["secret"]
ACCEPTED = answers(202, as_json({"id": "A-1", "status": "accepted"}))
LOOKUP = Lookup(path="/operations/{operation_key}", authoritative=True, schedule=(0, 0), progress=PROGRESS)
NOTHING = answers(404, b"{}")


def says(status: str, **changes: Any) -> Any:
    content = {"id": "A-1", "status": status, "record": "V-1", "fields": BODY}
    return answers(200, as_json({**content, **changes}))


@contextmanager
def accepted(*seen: Any, within: float = 3600, **changes: Any) -> Iterator[tuple[Dispatching, Job]]:
    """A job whose operation was accepted; `seen`: what the look-ups after that are answered."""
    contract = a_keyed_contract(
        confirmation="later", confirmation_within=within, lookup=LOOKUP, callbacks=by_key(), **changes
    )
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer(ACCEPTED, *seen))
        d = Dispatching.make(server.url, contract)
        job = d.ready()
        d.step(d.operation(job))
        yield d, job


def cases(d: Dispatching) -> list[tuple[str, str]]:
    with reading(d.tenant_id):
        return list(Case.objects.order_by("pk").values_list("kind", "resolution"))


def time_is_up(d: Dispatching) -> None:
    """What passing time does: the receiver has accepted two hours ago."""
    moved = [f"{c} = {c} - interval '2 hours'" for c in ("opened_at", "send_deadline_at", "closed_at")]
    as_owner("dispatch_submission", f"{', '.join(moved)} WHERE true", [])


def test_it_is_asked_until_it_is_done_however_often_it_is_not_yet() -> None:
    with accepted(says("processing"), NOTHING, says("processing"), answers(500), says("done")) as (d, job):
        for _ in range(4):
            assert (d.job_state(job), d.operation(job).next_step) == ("SUBMITTED", "look up")
            d.step(d.operation(job))
        d.step(d.operation(job))
        assert [o.finding for o in d.observations(job)] == [
            "pending",
            "absent",
            "pending",
            "unclear",
            "applied",
        ]
        assert (d.job_state(job), len(d.submissions(job))) == ("CONFIRMED", 1)


@pytest.mark.parametrize(
    ("answer", "state", "operation"),
    [
        (says("rejected"), "FAILED", "REFUSED"),
        (says("done", fields={"limit": "1.00"}), "NEEDS_RECONCILIATION", "CONFLICTED"),
        (says("in the clouds"), "SUBMITTED", "SUBMITTED"),
    ],
)
def test_what_it_says_when_it_is_asked_counts_like_a_callback(
    answer: Any, state: str, operation: str
) -> None:
    with accepted(answer) as (d, job):
        d.step(d.operation(job))
        assert (d.job_state(job), d.operation(job).state) == (state, operation)


@pytest.mark.parametrize("late", ["callback", "look-up", "rejected"])
def test_what_was_not_confirmed_in_time_is_a_case_that_the_truth_closes(late: str) -> None:
    with accepted(says("processing"), says("done")) as (d, job):
        time_is_up(d)
        d.step(d.operation(job))
        assert stand(d, job)[:2] == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
        assert cases(d) == [("confirmation overdue", "")]
        assert d.operation(job).fate_note == "it was accepted, but never confirmed"
        d.step(d.operation(job))
        assert len(d.submissions(job)) == 1
        if late == "look-up":
            operation = d.operation(job)
            lookups.look(tenant_id=d.tenant_id, operation_id=operation.pk, actor=WORKER, now=timezone.now())
        else:
            call(d, told(d.operation(job), "rejected" if late == "rejected" else "done"))
        assert d.job_state(job) == ("FAILED" if late == "rejected" else "CONFIRMED")
        assert cases(d) == [("confirmation overdue", "settled by evidence")]


@pytest.mark.parametrize("heard", ["look-up", "callback"])
def test_what_the_receiver_says_it_is_at_is_not_sent_again(heard: str) -> None:
    """Nobody saw an answer, so it is unknown; then the receiver tells that it has it. Asking goes on, sending does not."""
    first = says("processing") if heard == "look-up" else NOTHING
    with FaultServer(fin, first, says("processing"), says("done")) as server:
        d = Dispatching.make(
            server.url, a_keyed_contract(confirmation="later", lookup=LOOKUP, callbacks=by_key())
        )
        job = d.ready()
        d.step(d.operation(job))
        if heard == "callback":
            call(d, told(d.operation(job), "processing"))
        for _ in range(3):
            d.step(d.operation(job))
        assert d.job_state(job) == "CONFIRMED"
        assert [r.split()[0] for r in server.received] == [b"PUT", b"GET", b"GET", b"GET"]


def test_finding_nothing_proves_nothing_while_what_was_accepted_may_still_be_done() -> None:
    lookup = LOOKUP.model_copy(update={"absence_is_proof_after": 0.0})
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer(ACCEPTED, NOTHING, NOTHING, ACCEPTED))
        contract = a_keyed_contract(confirmation="later", lookup=lookup, automatic_resubmissions=0)
        d = Dispatching.make(server.url, contract)
        job = d.ready()
        d.step(d.operation(job))
        d.step(d.operation(job))
        assert (d.operation(job).state, d.observations(job)[-1].proves) == ("SUBMITTED", False)
        time_is_up(d)
        d.step(d.operation(job))
        assert (d.operation(job).state, d.observations(job)[-1].proves) == ("NOT_APPLIED", True)


def test_a_look_up_while_a_send_is_open_is_joined_with_its_answer() -> None:
    """Somebody looks while the request is under way, and the receiver has done it: no job ends over an open send."""

    def looks_and_then_answers(connection: Any) -> None:
        operation = d.operation(job)
        looked = lookups.look(
            tenant_id=d.tenant_id, operation_id=operation.pk, actor=WORKER, now=timezone.now()
        )
        seen.append((looked.sight.found.value, looked.state))
        answers(500)(connection)

    def leaves_the_request_open(connection: Any) -> bytes:
        Thread(target=looks_and_then_answers, args=(connection,)).start()
        return b""

    seen: list[tuple[str, str]] = []
    patient = Timeouts(connect=5, read=10, write=5)
    with FaultServer(leaves_the_request_open, says("done")) as server:
        d = Dispatching.make(server.url, a_keyed_contract(lookup=LOOKUP, timeouts=patient))
        job = d.ready()
        d.step(d.operation(job))
        assert seen == [("applied", "SUBMITTED")]
        assert d.job_state(job) == "CONFIRMED"


def test_looks_come_on_the_schedule_then_ever_rarer_and_once_when_the_time_is_up() -> None:
    contract = a_keyed_contract(
        confirmation="later", lookup=LOOKUP.model_copy(update={"schedule": (1.0, 60.0)})
    )
    began = timezone.now()
    until, at, last, gaps = began + timedelta(days=1), began, None, []
    for number in range(200):
        facts = Facts(
            now=at, since=began, quiet_at=began, lookups=number, last_lookup_at=last, confirm_by=until
        )
        step = decide(facts, contract)
        if step.kind is NextStep.NONE:
            break
        assert step.at is not None
        gaps.append((step.at - (last or began)).total_seconds())
        at = last = step.at
    assert gaps[:5] == [1, 59, 60, 120, 240]
    assert max(gaps) == LONGEST_POLL
    assert last == until
    assert len(gaps) < 40
