"""What closes cases by itself: the question of each is answered by something that happened elsewhere.

Every function runs in the transaction of the journal row that it is told of, with the job locked.
"""

from __future__ import annotations

from access.roles import Actor, ActorKind
from access.statements import Select
from dispatch.actions.prepare import ring_open
from reconciliation.casework import BY_EVIDENCE, WENT_ON, close_open, has_cases
from reconciliation.kinds import KINDS
from reconciliation.models import Case, CaseKind
from reconciliation.reviewing import review
from workflows.hooks import Happened
from workflows.models import JournalEntry
from workflows.states import JobState

_ASKED_AGAIN = (
    CaseKind.PROPOSAL_EXPIRED,
    CaseKind.CHANGES_REQUESTED,
    CaseKind.FACT_CHANGED,
    CaseKind.PERMANENT_ERROR,
    CaseKind.NO_APPROVER,
)
_RUN_AGAIN = (
    CaseKind.PROPOSAL_EXPIRED,
    CaseKind.CHANGES_REQUESTED,
    CaseKind.FACT_CHANGED,
    CaseKind.PERMANENT_ERROR,
    CaseKind.RETRY_EXHAUSTED,
)
_OF_ITEMS = (
    CaseKind.RETRY_EXHAUSTED,
    CaseKind.PERMANENT_ERROR,
    CaseKind.SEND_BLOCKED,
    CaseKind.NOT_UNDONE,
)
_END_WITH_THE_JOB = tuple(kind for kind, terms in KINDS.items() if not terms.outlives_the_job)
_ENDINGS = {
    JobState.CONFIRMED.value: BY_EVIDENCE,
    JobState.FAILED.value: "the job failed",
    JobState.CANCELLED.value: "the job was cancelled",
}


def operations_changed(happened: Happened) -> None:
    """The job has moved on, or come to a doubt: see what is open now."""
    review(happened.job, happened.actor, happened.at)
    if happened.from_state == JobState.NEEDS_RECONCILIATION:
        # While the job waited for a person the machine was called for nothing; nobody else rings for the others.
        ring_open(happened.job)


def attempts_granted(happened: Happened) -> None:
    """Somebody let a stopped step try again: that is the answer, whatever comes of it."""
    _close(happened, _OF_ITEMS, "tried again", item_id=int(happened.evidence["item"]))


def compensation_went_on(happened: Happened) -> None:
    """Its revision is there again."""
    _close(happened, (CaseKind.NOT_UNDONE,), WENT_ON)


def compensation_ended(happened: Happened) -> None:
    """Nothing is left to be undone; where a person said so, the case is theirs to close."""
    if not happened.actor.is_person:
        _close(happened, (CaseKind.NOT_UNDONE,), "undone")


def item_corrected(happened: Happened) -> None:
    """Somebody changed what a stopped step works on, and let it try again."""
    _close(happened, _OF_ITEMS, "corrected, tried again", item_id=int(happened.evidence["item"]))


def item_skipped(happened: Happened) -> None:
    """The job goes on without the item that stopped."""
    _close(happened, _OF_ITEMS, "skipped", item_id=int(happened.evidence["item"]))


def stage_closed(happened: Happened) -> None:
    """Enough of a fan-out has succeeded: what stopped in it is not needed any more."""
    stage = str(happened.evidence["stage"])
    asked = Case.objects.filter(
        job=happened.job,
        resolved_at__isnull=True,
        kind__in=[k.value for k in _OF_ITEMS],
        item__stage__name=stage,
    )
    for item_id in list(asked.order_by("pk").values_list("item_id", flat=True)):
        _close(happened, _OF_ITEMS, "went on without it", item_id=item_id)


def given_up(happened: Happened) -> None:
    """An operator ended the job."""
    _close(happened, _END_WITH_THE_JOB, "given up")


def revision_returned(happened: Happened) -> None:
    """A worker has the revision (again), and the job goes on."""
    _close(happened, (CaseKind.REVISION_MISSING,), "the revision is deployed")


def migrated(happened: Happened) -> None:
    """Somebody took the job to another revision: what had stopped is made anew, what was missing is not asked for."""
    _close(
        happened, (CaseKind.REVISION_MISSING, CaseKind.RETRY_EXHAUSTED, CaseKind.PERMANENT_ERROR), "migrated"
    )


def run_again(happened: Happened) -> None:
    """Somebody had steps run again: that answers what became of the proposal, and what stopped is set aside."""
    _close(happened, _RUN_AGAIN, "steps run again")


def released(happened: Happened) -> None:
    """The hold was lifted."""
    _close(happened, (CaseKind.REVISION_MISSING, CaseKind.DEADLINE_PASSED, CaseKind.RESTORED), "released")


def proposed_again(happened: Happened) -> None:
    """A new proposal is frozen: whatever stood in its way is answered, by whoever asked for it."""
    if has_cases(happened.job):
        close_open(
            job=happened.job, kinds=_ASKED_AGAIN, resolution=WENT_ON, actor=_asker(happened), now=happened.at
        )


def approved(happened: Happened) -> None:
    """There were approvers after all."""
    _close(happened, (CaseKind.NO_APPROVER,), WENT_ON)


def approver_found(happened: Happened) -> None:
    """Enough people at work can complete it (again)."""
    _close(happened, (CaseKind.NO_APPROVER,), "enough people can approve")


def not_asked_any_more(happened: Happened) -> None:
    """The proposal that lacked approvers was closed before anybody could decide it."""
    if happened.from_state in (JobState.AWAITING_APPROVAL, JobState.READY_TO_COMMIT):
        _close(happened, (CaseKind.NO_APPROVER,), "not asked any more")


def ended(happened: Happened) -> None:
    """A job that has ended asks nothing more, apart from what its effects and its evidence ask."""
    review(happened.job, happened.actor, happened.at)
    _close(happened, _END_WITH_THE_JOB, _ENDINGS[happened.to_state])


def _close(
    happened: Happened, kinds: tuple[CaseKind, ...], resolution: str, *, item_id: int | None = None
) -> None:
    close_open(
        job=happened.job,
        kinds=kinds,
        resolution=resolution,
        reason=str(happened.evidence.get("reason", "")),
        actor=happened.actor,
        now=happened.at,
        item_id=item_id,
    )


def _asker(happened: Happened) -> Actor:
    """Who had it proposed again, journalled in the line before; else the machine."""
    entry = _AGAIN_ASKED.first(happened.job.pk, happened.sequence - 1)
    if entry is None:
        return happened.actor
    return Actor(ActorKind(entry.actor_kind), entry.actor_name, entry.actor_id)


_AGAIN_ASKED = Select(
    lambda job, sequence: JournalEntry.objects.filter(
        job=job, sequence=sequence, event="proposal.again_asked"
    )
)
