"""Why a job waits, where this room knows: it sends, it asks, a receiver is paused, or a person is needed."""

from __future__ import annotations

from access.switches import switches_of
from approvals.wording import clock
from dispatch.contracts import Contract
from dispatch.deriving import current
from dispatch.models import Operation
from dispatch.permits import what_stops_the_organisation, what_stops_the_workflow
from dispatch.queries import may_have_left
from dispatch.states import NextStep, OperationState
from workflows.models import Job
from workflows.states import JobState

S = OperationState


def why_it_waits(job: Job) -> str | None:
    """One sentence for the first operation that is not settled, or None. Needs the tenant's scope."""
    if job.state not in (JobState.READY_TO_COMMIT, JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION):
        return None
    open_ones = (
        current(job).exclude(state__in=(S.CONFIRMED, S.WITHDRAWN)).select_related("receiver", "contract")
    )
    # The first one mostly has something to say, among however many.
    return next((s for o in open_ones.iterator(chunk_size=10) if (s := _why(job, o))), None)


def _why(job: Job, o: Operation) -> str | None:
    name = o.receiver.title
    if o.state == S.PREPARED and (
        stops := what_stops_the_organisation(o.tenant_id, switches_of(o.tenant_id))
    ):
        return f"nothing is sent: {stops[:1].lower()}{stops[1:]}"
    if o.state == S.PREPARED and o.receiver.paused_at is not None:
        return f"{name} was paused by {o.receiver.paused_by}"
    if o.next_step in (NextStep.SEND, NextStep.RESUBMIT) and (stops := what_stops_the_workflow(job, o)):
        return f"nothing is sent: {stops}"
    if o.next_step == NextStep.BLOCKED:
        return f"{name} cannot be sent to: {o.fate_note}"
    if o.state == S.CONFLICTED:
        return f"{name} answered differently from what was approved"
    if o.state == S.UNKNOWN and o.next_step == NextStep.NONE:
        return f"nobody knows whether {name} applied {o.label}: {o.fate_note}"
    return _timed(job, o, name)


def _timed(job: Job, o: Operation, name: str) -> str | None:
    at = f" at {clock(o.next_step_at, o.tenant_id)}" if o.next_step_at is not None else ""
    if o.next_step == NextStep.LOOK_UP:
        contract = Contract.of(o.contract.terms)
        lookup = contract.lookup
        if o.state == S.SUBMITTED and contract.confirmation == "later":
            return f"awaits the confirmation of {name}, and asks it{at}"
        total = max(len(lookup.schedule) if lookup else 1, o.lookups + 1)
        return f"asks {name}{at} ({o.lookups + 1} of {total} look-ups)"
    if o.next_step == NextStep.RESUBMIT:
        return f"sends {o.label} to {name} again{at}, with the same key"
    if o.state == S.PREPARED and o.next_step_at is not None:
        return f"tries {name} again{at}: {o.fate_note}" if o.fate_note else f"tries {name} again{at}"
    if o.state == S.SUBMITTED and o.next_step_at is not None:
        return f"awaits the confirmation of {name} until {clock(o.next_step_at, o.tenant_id)}"
    if (o.state in (S.SUBMITTED, S.PREPARED) and o.next_step != NextStep.NONE) or o.state == S.SUBMITTED:
        return f"awaits the answer of {name}" if may_have_left(job) else "Sending…"
    return None
