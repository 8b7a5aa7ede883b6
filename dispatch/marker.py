"""The mark `may_have_been_sent_at`: committed just before the first byte, by a sender that may still send.

One conditional update in a transaction of its own. No row changed means: do not send. Whoever takes the operation
over locks the submission's row first, so either the mark is there for them to see, or the mark finds the submission
closed. A lease protects our rows, not the world outside: hence the second look at a clock that runs on through a
suspension, after the commit and before the first byte.
"""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError, connection

from access.tenancy import act_at_once, acting
from dispatch.wire import NotBegun
from workflows.states import ItemState


@dataclass(frozen=True, slots=True)
class Sender:
    """Who is about to send which submission, until when by CLOCK_BOOTTIME."""

    tenant_id: int
    submission_id: int
    item_id: int
    claim_no: int
    worker_id: int
    boot_deadline: float
    recipient: str = ""
    """As the block list compares it (`approvals.blocking.key_of`)."""


def boot_clock() -> float:
    """Seconds on a clock that also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def barrier(sender: Sender, *, after_commit: Callable[[], None] | None = None) -> Callable[[], None]:
    """What the client calls before the first byte: marks, or raises NotBegun with why not."""

    def mark() -> None:
        _commit_mark(sender)
        if after_commit is not None:
            after_commit()
        if boot_clock() >= sender.boot_deadline:
            raise NotBegun("the time to send had passed when the mark was made")

    return mark


def _commit_mark(sender: Sender) -> None:
    try:
        marked = _update(sender)
    except (DatabaseError, InterfaceError) as lost:
        # The answer to the COMMIT may be what was lost: only a second look can tell.
        connection.close()
        if not _is_marked_by(sender):
            raise NotBegun("the database could not be asked") from lost
        return
    if not marked:
        raise NotBegun(_why_not(sender))


def _update(sender: Sender) -> bool:
    """One transaction, in one exchange with the server: between it and the first byte nothing else is waited for."""
    done = act_at_once(sender.tenant_id, _MARK, _parameters(sender), lock_timeout_ms=2000)
    return bool(done.rowcount == 1)


def _is_marked_by(sender: Sender) -> bool:
    try:
        with acting(sender.tenant_id, lock_timeout_ms=2000), connection.cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM dispatch_submission WHERE id = %(submission)s AND item_id = %(item)s"
                " AND claim_no = %(claim_no)s AND worker_id = %(worker)s AND closed_at IS NULL"
                " AND may_have_been_sent_at IS NOT NULL FOR NO KEY UPDATE",
                _parameters(sender),
            )
            return cursor.fetchone() is not None
    except (DatabaseError, InterfaceError):
        connection.close()
        return False


def _why_not(sender: Sender) -> str:
    try:
        return why_not(sender)
    except (DatabaseError, InterfaceError):
        connection.close()
        return "the mark was refused, and the database could not be asked why"


def why_not(sender: Sender) -> str:
    """The first condition that does not hold, in words; the mark itself has already been refused."""
    with acting(sender.tenant_id), connection.cursor() as cursor:
        cursor.execute(_WHY, _parameters(sender))
        row = cursor.fetchone()
    if row is None:
        return "the submission is gone"
    return next(
        (words for words, holds in zip(CONDITIONS, row, strict=True) if not holds), "the check lost a race"
    )


def _parameters(sender: Sender) -> dict[str, int | str]:
    return {
        "submission": sender.submission_id,
        "item": sender.item_id,
        "claim_no": sender.claim_no,
        "worker": sender.worker_id,
        "running": ItemState.RUNNING.number,
        "recipient": sender.recipient,
    }


_SUBMISSION = {
    # Not "closed_at IS NULL": the server would walk the small index of open ones, past each closed since the last vacuum.
    "the submission is closed or already marked": "num_nulls(s.closed_at, s.may_have_been_sent_at) = 2",
}
_CLAIM = {
    "the claim is another's": "s.item_id = %(item)s AND s.claim_no = %(claim_no)s AND s.worker_id = %(worker)s"
    " AND w.state = %(running)s AND w.claim_no = s.claim_no AND w.worker_id = s.worker_id",
    "the worker's lease has run out": "k.ended_at IS NULL AND k.lease_until > clock_timestamp()",
}
_OPERATION = {
    "a cancel was asked for": "j.cancel_requested_at IS NULL",
    "the job is held": "j.held_at IS NULL",
    "the receiver is paused": "r.paused_at IS NULL",
    "the operation has moved on": "o.state = 'SUBMITTED'",
}
_TENANT = {
    "the organisation is revoked": "t.revoked_at IS NULL",
    "dispatch is shut since a backup was restored": "t.shut_at IS NULL",
    "these rows were copied here from a dump": "NOT counterfoil_was_copied()",
    "the recipient is blocked": "NOT EXISTS (SELECT FROM approvals_recipientblock b WHERE b.tenant_id = t.id"
    " AND b.key = %(recipient)s AND b.lifted_at IS NULL)",
}
_PERMIT = {
    "the approval has expired": "(s.permit <> 'approval' OR p.expires_at > clock_timestamp())",
    "the time in which the same key is safe has passed": "(s.permit <> 'window'"
    " OR coalesce(o.resubmit_safe_until > clock_timestamp(), false))",
    "it may have been sent after the backup": "p.frozen_at > coalesce((SELECT t.restored_at FROM access_tenant t"
    " WHERE t.id = s.tenant_id AND t.restored_at > coalesce(o.quarantined_at, '-infinity')), '-infinity')",
    "the time to send has passed": "s.send_deadline_at > clock_timestamp()",
}
CONDITIONS: dict[str, str] = {**_SUBMISSION, **_CLAIM, **_OPERATION, **_TENANT, **_PERMIT}
"""Every guard of the mark: what is said when it does not hold, and its SQL."""

_LOOKS: tuple[tuple[str, dict[str, str]], ...] = (
    ("workflows_workitem w, workflows_worker k WHERE w.id = s.item_id AND k.id = s.worker_id", _CLAIM),
    (
        "dispatch_operation o, workflows_job j, dispatch_receiver r"
        " WHERE o.id = s.operation_id AND j.id = o.job_id AND r.id = o.receiver_id",
        _OPERATION,
    ),
    ("access_tenant t WHERE t.id = s.tenant_id", _TENANT),
    (
        "dispatch_operation o, approvals_proposedoperation po, approvals_proposal p"
        " WHERE o.id = s.operation_id AND po.id = o.proposed_id AND p.id = po.proposal_id",
        _PERMIT,
    ),
)
"""Where the other guards look. Subqueries of their own: as one join of eight tables the mark takes 11 ms to be planned."""


def _mark_text() -> str:
    return (
        "UPDATE dispatch_submission s SET may_have_been_sent_at = clock_timestamp() WHERE s.id = %(submission)s"
        + "".join(f" AND {guard}" for guard in _SUBMISSION.values())
        + "".join(f" AND (SELECT {' AND '.join(guards.values())} FROM {tables})" for tables, guards in _LOOKS)
    )


def _why_text() -> str:
    return f"""
SELECT {", ".join(f"({c})" for c in CONDITIONS.values())} FROM dispatch_submission s, dispatch_operation o,
  workflows_job j, dispatch_receiver r, workflows_workitem w, workflows_worker k, approvals_proposedoperation po,
  approvals_proposal p, access_tenant t
WHERE s.id = %(submission)s AND o.id = s.operation_id AND j.id = o.job_id AND r.id = o.receiver_id
  AND w.id = s.item_id AND k.id = s.worker_id AND po.id = o.proposed_id AND p.id = po.proposal_id
  AND t.id = s.tenant_id
"""


_MARK, _WHY = _mark_text(), _why_text()


def holds_back(words: str, guard: str) -> None:
    """Have a room above add a guard, before anything is sent: SQL over `o`, `j` and `r` (operation, job, receiver)."""
    global _MARK, _WHY
    _OPERATION[words] = CONDITIONS[words] = guard
    _MARK, _WHY = _mark_text(), _why_text()
