"""What opens cases: this room's answers to the lower rooms' journal. What closes them by itself is in `answering.py`.

Every function runs in the transaction of the journal row that it is told of, with the job locked.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from dispatch.models import Operation
from dispatch.proofs import MACHINE as SENDING
from dispatch.states import OperationState
from outbox.models import Message
from reconciliation import undelivered, words
from reconciliation.casework import Question, open_case
from reconciliation.models import CaseKind
from reconciliation.reviewing import operations_of
from workflows.compensation import plan
from workflows.compensation.plan import MACHINE as UNDOING
from workflows.hooks import Happened
from workflows.models import Attempt, AttemptOutcome, Job, WorkItem
from workflows.states import JobState

_DEATHS = (AttemptOutcome.WORKER_DIED, AttemptOutcome.LEASE_LOST)


# --- what opens a case ------------------------------------------------------------------------------------------


def item_stopped(happened: Happened) -> None:
    """retry.exhausted, item.refused: the step that stopped; for the machines, a send or an undoing that is stuck."""
    item = WorkItem.objects.select_related("stage").get(pk=happened.evidence["item"])
    error = happened.evidence.get("error") or "no answer was recorded"
    last = Attempt.objects.filter(item=item).order_by("-claim_no").first()
    said = words.said_by(last) if last is not None and last.error_class == error else ""
    told = f"Attempt {item.attempts} ended with {error.rpartition('.')[2]}{said and f': {said}'}."
    deaths = _deaths(item) if happened.evidence.get("outcome") in _DEATHS else 0
    if deaths:
        told = f"Its worker stopped while it ran, {words.times(deaths)} in {item.attempts} attempts."
    if item.stage.name == SENDING:
        operation = next((o for o in operations_of(happened.job) if str(o.pk) == item.key), None)
        title = words.send_blocked(operation, error) if operation else words.exhausted(item)
        _open(happened, Question(CaseKind.SEND_BLOCKED, title, told, happened.actor.name, item=item))
    elif item.stage.name == UNDOING:
        title = words.not_undone(happened.job, _undone_next(happened.job))
        _open(happened, Question(CaseKind.NOT_UNDONE, title, told, happened.actor.name, item=item))
    elif happened.event == "retry.exhausted":
        title = words.stopped_its_worker(item, deaths) if deaths else words.exhausted(item)
        _open(happened, Question(CaseKind.RETRY_EXHAUSTED, title, told, happened.actor.name, item=item))
    else:
        title = words.refused(item)
        _open(happened, Question(CaseKind.PERMANENT_ERROR, title, told, happened.actor.name, item=item))


def compensation_blocked(happened: Happened) -> None:
    """What a job made is to be undone, and the revision that knows how is not there."""
    item = plan.machine_item(happened.job)
    title = words.not_undone_yet(happened.job)
    question = Question(CaseKind.NOT_UNDONE, title, _why(happened), happened.actor.name, item=item)
    _open(happened, question)


def revision_missing(happened: Happened) -> None:
    """A worker met a job whose revision it does not have, and held it."""
    title = words.revision_missing(happened.job)
    _open(happened, _question(happened, CaseKind.REVISION_MISSING, title))


def deadline_passed(happened: Happened) -> None:
    """The job was still being prepared when its time was up; it is held, and nothing is lost."""
    title = words.deadline_passed(happened.job)
    _open(happened, _question(happened, CaseKind.DEADLINE_PASSED, title))


def kept_back(happened: Happened) -> None:
    """Out of a backup, with nothing sent in it: what became of it since, only its receiver and people know."""
    title = words.restored(happened.job)
    # Every page says that dispatch is shut: nobody is mailed for each of a whole installation's jobs.
    _open(happened, replace(_question(happened, CaseKind.RESTORED, title), mailed=False))


def proposal_refused(happened: Happened) -> None:
    """The draft cannot be frozen."""
    title = words.cannot_propose(happened.job, _why(happened))
    _open(happened, _question(happened, CaseKind.PERMANENT_ERROR, title))


def proposal_expired(happened: Happened) -> None:
    """Time closed the proposal; nothing was decided by it."""
    late = "Approved, but not sent in time" if happened.evidence.get("approved") else "Nobody decided in time"
    title = words.ask_again(happened.job, late)
    _open(happened, _question(happened, CaseKind.PROPOSAL_EXPIRED, title, told=f"{late}."))


def changes_requested(happened: Happened) -> None:
    """A manager sent the proposal back."""
    title = words.ask_again(happened.job, f"{happened.actor.name} asks for changes")
    _open(happened, _question(happened, CaseKind.CHANGES_REQUESTED, title))


def proposal_withdrawn(happened: Happened) -> None:
    """Its submitter took the proposal back: the job waits for somebody to go on or to cancel it."""
    title = words.ask_again(happened.job, f"{happened.actor.name} took the proposal back")
    _open(happened, _question(happened, CaseKind.CHANGES_REQUESTED, title))


def proposal_voided(happened: Happened) -> None:
    """A fact changed after the approval was asked for."""
    if happened.job.state == JobState.VALIDATED:
        title = words.ask_again(happened.job, "What was proposed no longer holds")
        _open(happened, _question(happened, CaseKind.FACT_CHANGED, title))


def approver_missing(happened: Happened) -> None:
    """Too few people could complete it: blocked, never approved."""
    told = f"{_why(happened)} This closes by itself as soon as enough people at work can sign it."
    title = words.no_approver(happened.job)
    _open(happened, _question(happened, CaseKind.NO_APPROVER, title, told=told))


def quarantined(happened: Happened) -> None:
    """Out of a backup: whether it was sent since is a question, until the receiver or a person has answered it."""
    operation = _operation(happened)
    until = words.clock(datetime.fromisoformat(happened.evidence["known_until"]), operation.tenant_id)
    told = f"Restored from a backup that ends at {until}; what was sent since is not known here."
    question = _question(happened, CaseKind.UNKNOWN_OUTCOME, words.unknown(operation), operation, told=told)
    _open(happened, replace(question, fault="restored from a backup"))


def send_blocked(happened: Happened) -> None:
    """The receiver or our own configuration says that sending again as it is cannot help."""
    operation = _operation(happened)
    title = words.send_blocked(operation, _why(happened))
    _open(happened, _question(happened, CaseKind.SEND_BLOCKED, title, operation))


def key_mismatch(happened: Happened) -> None:
    """The receiver holds other content under our key: a fault of ours, whatever became of the operation."""
    operation = _operation(happened)
    question = _question(happened, CaseKind.KEY_MISMATCH, words.key_mismatch(operation), operation)
    # One incident at once, so there has to be a fault to name, also of a connector that says nothing.
    _open(happened, replace(question, fault=happened.evidence.get("why") or words.OTHER_CONTENT))


def sent_differs(happened: Happened) -> None:
    """Something else left than was approved: a fault of ours, whatever the receiver made of it."""
    operation = _operation(happened)
    _open(happened, _question(happened, CaseKind.SENT_DIFFERS, words.sent_differs(operation), operation))


def possible_duplicate(happened: Happened) -> None:
    """The receiver holds more than one effect under our key."""
    operation = _operation(happened)
    title = f'Did {operation.receiver.title} do "{operation.proposed.title}" twice?'[:300]
    _open(happened, _question(happened, CaseKind.POSSIBLE_DUPLICATE, title, operation))


def contradicted(happened: Happened) -> None:
    """Evidence against a job that has ended. Its state does not move by itself."""
    operation = _operation(happened)
    finding = str(happened.evidence.get("finding", "something else"))
    title = words.contradicted(happened.job, operation, finding)
    told = f"{operation.label}, which was {words.FATES[operation.state]}: new evidence says {finding}."
    _open(happened, _question(happened, CaseKind.CONTRADICTED, title, operation, told=told))


def undeliverable(happened: Happened) -> None:
    """Somebody could not be told of something: asked about once for each recipient."""
    message = Message.objects.get(pk=happened.evidence["message"])
    if not undelivered.is_known(message):
        title = words.undelivered(message.kind, str(happened.evidence["recipient"]))
        told = f"{message.event} was given up after {words.times(message.attempts)}: {message.last_error}"
        question = Question(CaseKind.UNDELIVERABLE, title, told, happened.actor.name, message=message)
        _open(happened, question)


def cancelled(happened: Happened) -> None:
    """A cancelled job whose effect stands keeps a case that says so."""
    job = happened.job
    applied = [o for o in operations_of(job) if o.state == OperationState.CONFIRMED]
    if applied:
        told = "; ".join(f"{o.label} was applied, receipt {o.receipt_id or 'none'}" for o in applied)[:500]
        title = words.cancelled_with_effect(job, applied)
        _open(happened, _question(happened, CaseKind.CANCELLED_WITH_EFFECT, title, told=told))


# --- below ------------------------------------------------------------------------------------------------------


def _open(happened: Happened, question: Question) -> None:
    open_case(job=happened.job, question=question, actor=happened.actor, now=happened.at)


def _question(
    happened: Happened, kind: CaseKind, title: str, operation: Operation | None = None, *, told: str = ""
) -> Question:
    return Question(kind, title, told or _why(happened), happened.actor.name, operation=operation)


def _deaths(item: WorkItem) -> int:
    return Attempt.objects.filter(item=item, outcome__in=_DEATHS).count()


def _why(happened: Happened) -> str:
    for name in ("why", "reason", "fact", "because"):
        if happened.evidence.get(name):
            return str(happened.evidence[name])
    return happened.event


def _undone_next(job: Job) -> WorkItem | None:
    """The result whose handler failed: the one whose turn it is."""
    planned = plan.plan_of(job)
    return None if planned is None else plan.left(job, planned.steps).first()


def _operation(happened: Happened) -> Operation:
    rows = Operation.objects.select_related("receiver", "contract", "proposed")
    return rows.get(pk=happened.evidence["operation_id"], job=happened.job)
