"""What left, written down beside the submission, and read again for the slip and the job's page."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from access.roles import Actor
from approvals.aftermath import Sent
from approvals.slips import SlipOperation
from dispatch.models import Operation, Submission, label_of
from dispatch.sent import Approved, Comparison, Verdict, Written, compare
from dispatch.wire import Exchange
from workflows import journal
from workflows.models import Job


def fields_of(operation: Operation, seen: Exchange | None) -> dict[str, Any]:
    """The fields of a submission that say what left, and how it differs from the approved rows; none where nobody knows."""
    if seen is None or seen.written is None:
        return {}
    proposed, written = operation.proposed, seen.written
    headers = json.loads(proposed.headers)
    approved = Approved(proposed.method, proposed.target, headers, bytes(proposed.body))
    return {
        "sent_head": written.head,
        "sent_digest": written.digest,
        "sent_bytes": written.length,
        "sent_differs": "; ".join(compare(approved, written).points)[:500],
    }


def tell(job: Job, operation: Operation, submission: Submission, differs: str, actor: Actor) -> None:
    """Journal that something else left than was approved: a fault of ours, and a question for a person."""
    if not differs:
        return
    evidence = {
        "operation": operation.label,
        "operation_id": operation.pk,
        "submission": submission.number,
        "why": differs,
    }
    journal.record(job=job, event="operation.sent_differs", actor=actor, evidence=evidence)


def compared(submission: Submission, body_digest: str) -> Comparison | None:
    """How one submission of a job's page compares, by what was found when it was sent; None while nothing left."""
    if submission.may_have_been_sent_at is None or submission.closed_at is None:
        return None
    if submission.sent_bytes is None:
        return Comparison(Verdict.UNRECORDED)
    if submission.sent_differs:
        return Comparison(Verdict.DIFFERS, (submission.sent_differs,))
    return Comparison(Verdict.EQUAL if submission.sent_digest == body_digest else Verdict.PART)


def what_was_sent(proposal_id: int, operations: Sequence[SlipOperation]) -> list[Sent]:
    """Every send of a proposal, compared with the document that was signed. One query; in order of operation and send."""
    signed = {o.ordinal: o for o in operations}
    rows = Submission.objects.filter(
        operation__proposed__proposal_id=proposal_id, may_have_been_sent_at__isnull=False
    ).values(
        "number", "resubmission", "may_have_been_sent_at", "closed_at", "outcome", "sent_head", "sent_digest",
        "sent_bytes", "operation__proposed__ordinal", "operation__job_id", "operation__ordinal",
    )  # fmt: skip
    return [_sent(row, signed) for row in rows.order_by("operation__proposed__ordinal", "number", "pk")]


def _sent(row: Mapping[str, Any], signed: Mapping[int, SlipOperation]) -> Sent:
    ordinal = row["operation__proposed__ordinal"]
    written = None
    if row["sent_bytes"] is not None:
        written = Written(row["sent_head"], row["sent_digest"], row["sent_bytes"])
    operation = signed.get(ordinal)
    if operation is None:
        found = Comparison(Verdict.DIFFERS, ("the slip has no such operation",))
    elif row["closed_at"] is None:
        found = Comparison(Verdict.UNRECORDED)
    else:
        found = compare(_approved(operation), written)
    return Sent(
        ordinal=ordinal,
        label=label_of(row["operation__job_id"], row["operation__ordinal"]),
        number=row["number"],
        again=row["resubmission"],
        at=row["may_have_been_sent_at"],
        under_way=row["closed_at"] is None,
        outcome=row["outcome"],
        digest=row["sent_digest"],
        equal=found.verdict is Verdict.EQUAL,
        differs=found.verdict is Verdict.DIFFERS,
        sentence="It is being sent." if row["closed_at"] is None else found.sentence,
    )


def _approved(operation: SlipOperation) -> Approved:
    text = operation.body
    body = base64.b64decode(text) if operation.body_encoding == "base64" else text.encode()
    return Approved(operation.method, operation.target, dict(operation.headers), body)
