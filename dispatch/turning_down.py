"""A send that a check stops: what is written, and where job, proposal and operation go back to."""

from __future__ import annotations

from datetime import datetime

from access.roles import WORKER
from approvals.models import Closing, Proposal
from approvals.standing import CheckResult, Effect, failed_decisions, send_back_to_approval, void_and_return
from dispatch import locks, lookups
from dispatch.deriving import current_operations, derive_job
from dispatch.models import Operation
from dispatch.moving import plan
from dispatch.permits import results
from dispatch.states import NextStep, OperationState
from workflows import journal
from workflows.models import Job
from workflows.states import JobState

S = OperationState


def turn_down(
    job: Job,
    proposal: Proposal,
    operation: Operation,
    checks: list[CheckResult],
    failure: CheckResult,
    now: datetime,
) -> None:
    """Journal each check that failed (`send.check_failed`), the first with what all found, and go back as the table says.

    The caller holds job, proposal and operation. What is unknown is looked up on where that is still of use.
    """
    actor, told = WORKER, False
    for check in (c for c in checks if not c.ok):
        evidence = {"operation": operation.label, "check": check.name, "why": check.sentence}
        found = {} if told else {"operation_id": operation.pk, "checks": results(checks)}
        journal.record(job=job, event="send.check_failed", actor=actor, evidence={**evidence, **found})
        told = True
    why = failure.sentence
    if failure.name == "Window" or (failure.name == "Recipient" and operation.state == S.UNKNOWN):
        plan(operation, NextStep.NONE, None, ordered_by="")
        lookups.plan_again(job, operation, actor, now)
    elif operation.state != S.PREPARED:
        plan(operation, NextStep.NONE, None, fate_note=why[:500], ordered_by="")
        derive_job(job, actor, now)
    elif job.state != JobState.READY_TO_COMMIT:
        # Something of this proposal was applied already, so the job cannot go back: what is left stops here.
        for other in _rest(job, operation):
            plan(other, NextStep.NONE, None, fate_note=why[:500])
        derive_job(job, actor, now)
    elif failure.effect is Effect.BACK_TO_APPROVAL:
        send_back_to_approval(job, proposal, failed_decisions(checks), why, now)
    else:
        closing = Closing.EXPIRED if failure.effect is Effect.EXPIRED else Closing.VOIDED
        void_and_return(job, proposal, why, closing, now)


def _rest(job: Job, operation: Operation) -> list[Operation]:
    every = current_operations(locks.lock_operations(job))
    return [o for o in every if o.state == S.PREPARED and o.ordinal >= operation.ordinal]
