"""The question of a case in people's words, and the sentences around it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from access.models import Tenant
from dispatch.models import Operation
from dispatch.states import OperationState
from outbox.models import MessageKind
from reconciliation.models import CaseKind
from statements.queries import Covered
from web.vocabulary import sign_of
from workflows.models import Attempt, Job, StageKind, WorkItem
from workflows.states import ItemState

_LONGEST = 300
_MOST_SPANS = 3


def clock(at: datetime, tenant_id: int) -> str:
    """The minute in the tenant's own zone: "Fri 13 Mar, 16:00"."""
    zone = Tenant.objects.values_list("time_zone", flat=True).get(pk=tenant_id)
    return f"{at.astimezone(ZoneInfo(zone)):%a %-d %b, %H:%M}"


def step_name(item: WorkItem) -> str:
    """Which step an item is: "Write rule 14 of 20", or "Parse" where there is only one."""
    name = item.stage.name.replace("_", " ").replace("-", " ").capitalize()
    return f"{name} {item.ordinal} of {item.stage.total}" if item.stage.kind == StageKind.EACH else name


def times(count: int) -> str:
    """Once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def undelivered(kind: str, recipient: str) -> str:
    way = "by e-mail" if kind == MessageKind.EMAIL else "by webhook"
    return _short(f"{recipient} cannot be told {way} of what happens")


def exhausted(item: WorkItem) -> str:
    return _short(f"{step_name(item)}: tried {times(item.attempts)}")


def stopped_its_worker(item: WorkItem, deaths: int) -> str:
    """For an item whose last attempt ended with its worker's: all of them, or some among others."""
    if deaths >= item.attempts:
        return _short(f"{step_name(item)}: it stopped its worker {times(deaths)}")
    return _short(f"{step_name(item)}: tried {times(item.attempts)}, and stopped its worker {times(deaths)}")


def refused(item: WorkItem) -> str:
    return _short(f"{step_name(item)}: cannot succeed as it is")


def doing(operation: Operation) -> str:
    """What the operation was to do, as it goes on in a sentence: "update V-30417"."""
    title: str = operation.proposed.title
    # A title that begins with an abbreviation or a name keeps its capitals.
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def unknown(operation: Operation) -> str:
    return _short(f"Did {operation.receiver.title} {doing(operation)}?")


def overdue(operation: Operation) -> str:
    return _short(f"{operation.receiver.title} has not confirmed in time: did it {doing(operation)}?")


def conflicted(operation: Operation) -> str:
    return _short(
        f"{operation.receiver.title} answered something else than was approved: {operation.proposed.title}"
    )


def partial(operation: Operation, applied: int, total: int) -> str:
    return _short(
        f"{applied} of {total} changes {'was' if applied == 1 else 'were'} made, "
        f'"{operation.proposed.title}" was not: go on or stop here?'
    )


def cancelled_with_effect(job: Job, applied: list[Operation]) -> str:
    first = applied[0]
    more = f" and {len(applied) - 1} more" if len(applied) > 1 else ""
    return _short(f'{job.label} is cancelled, but {first.receiver.title} did "{first.proposed.title}"{more}')


def contradicted(job: Job, operation: Operation, finding: str) -> str:
    said = FATES.get(operation.state, operation.state.lower())
    return _short(f'{job.label} ended with "{operation.proposed.title}" {said}; new evidence says: {finding}')


def doubted(operation: Operation) -> str:
    said = FATES.get(operation.state, operation.state.lower())
    return _short(f'"{operation.proposed.title}" was recorded as {said}: is that wrong?')


OTHER_CONTENT = "other content under our key"


def key_mismatch(operation: Operation) -> str:
    return _short(
        f"Why does {operation.receiver.title} hold other content under the key of {operation.label}?"
    )


def sent_differs(operation: Operation) -> str:
    return _short(
        f"What left for {operation.label} is not what was approved. What did {operation.receiver.title} do?"
    )


def send_blocked(operation: Operation, why: str) -> str:
    return _short(f'"{operation.proposed.title}" cannot be sent to {operation.receiver.title}: {why}')


def revision_missing(job: Job) -> str:
    return _short(f"Revision {job.revision} of {job.workflow} is not deployed: {job.label} is held")


def deadline_passed(job: Job) -> str:
    return _short(f"{job.label} was not prepared by its deadline and is held")


def budget_passed(limit: str) -> str:
    return _short(f"The budget of limit {limit} is used up for today: raise it, or let the work wait?")


def restored(job: Job) -> str:
    return _short(f"What became of {job.label} after the backup? It is held until somebody has asked")


def not_undone(job: Job, item: WorkItem | None) -> str:
    which = f": {step_name(item)}" if item is not None else ""
    return _short(f"What {job.label} made could not be undone{which}")


def not_undone_yet(job: Job) -> str:
    return _short(
        f"Revision {job.revision} of {job.workflow} is not deployed: what {job.label} made is not undone yet"
    )


def cannot_propose(job: Job, why: str) -> str:
    return _short(f"{job.title} cannot be proposed: {why}")


def ask_again(job: Job, what: str) -> str:
    """What happened, and who can go on."""
    return _short(f"{what}: propose {job.title} again? An operator or {job.submitted_by.username} can")


def no_approver(job: Job) -> str:
    return _short(f"Who can approve {job.title}? Too few people may")


FATES: dict[str, str] = {
    OperationState.PREPARED: "not sent",
    OperationState.SUBMITTED: "on its way",
    OperationState.CONFIRMED: "applied",
    OperationState.REFUSED: "refused",
    OperationState.NOT_APPLIED: "not applied",
    OperationState.UNKNOWN: "unknown",
    OperationState.CONFLICTED: "applied differently",
    OperationState.WITHDRAWN: "never sent",
}

STATE_WORDS: dict[str, str] = {
    "unknown outcome": "Outcome unknown",
    "conflicted": "Answer differs",
    "partial": "Partly applied",
}
"""What NEEDS_RECONCILIATION reads as, by cause."""


def state_words(kind: str) -> str:
    """The case's state in words: the cause of a doubt, or the kind itself."""
    return STATE_WORDS.get(kind, kind.capitalize())


def kind_choices() -> list[tuple[str, str]]:
    """Every kind of case, to choose from by its words."""
    return [(kind.value, state_words(kind.value)) for kind in CaseKind]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def covered(title: str, spans: Sequence[Covered] | None) -> str:
    """What the applied statements of a receiver cover, the latest of it, or nothing where there is none."""
    if not spans:
        return ""
    shown = sorted(spans, key=lambda span: span.last)[-_MOST_SPANS:]
    told = [
        f"{f'account {s.account}' if s.account else 'its account'} from {s.first:%-d %b %Y} to {s.last:%-d %b %Y}"
        for s in shown
    ]
    more = "" if len(spans) == len(shown) else f", and {len(spans) - len(shown)} earlier times"
    return f"Statements of {title} that are applied cover {'; '.join(told)}{more}. That no line is there proves nothing."


def standing_words(state: str) -> str:
    """A state of a job or of an item as pages show it: an item that was refused has “Stopped”."""
    return "Stopped" if state == ItemState.REFUSED else sign_of(state).words


def said_by(attempt: Attempt) -> str:
    """What the error of an attempt said, on one line and without its last point, or ""."""
    return " ".join(attempt.error_message.split())[:_LONGEST].rstrip(".")
