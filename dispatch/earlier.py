"""How the last approved change of the same record ended, for whoever is about to approve the next one."""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection

from approvals.aftermath import Earlier
from approvals.models import Closing, Proposal
from dispatch.states import OperationState as S

SHOWN = 20
BADLY = (S.REFUSED, S.NOT_APPLIED, S.UNKNOWN, S.CONFLICTED)
ENDED = {
    S.REFUSED: "it was refused",
    S.NOT_APPLIED: "it was not applied",
    S.UNKNOWN: "nobody knows yet what became of it",
    S.CONFLICTED: "something else was done than was approved",
    S.WITHDRAWN: "it could not be sent any more",
}
IN_VAIN = (Closing.VOIDED, Closing.EXPIRED)
"""Closings of an approved proposal of which nothing was sent."""

_FIELDS = (
    "o.state, o.fate_note, o.record, o.job_id, pr.id AS proposal_id, pr.number, pr.closing, pr.closing_reason,"
    " coalesce(o.settled_at, pr.closed_at, o.created_at) AS at"
)
_JOINED = (
    "dispatch_operation o JOIN approvals_proposedoperation po ON po.id = o.proposed_id"
    " JOIN approvals_proposal pr ON pr.id = po.proposal_id JOIN workflows_job j ON j.id = o.job_id"
)
_BADLY = "(x.state = ANY(%(badly)s) OR (x.state = 'WITHDRAWN' AND x.closing = ANY(%(in_vain)s)))"

_BY_RECORD = f"""
SELECT x.* FROM (SELECT DISTINCT receiver, account, record FROM approvals_proposedoperation
  WHERE proposal_id = %(proposal)s) k
CROSS JOIN LATERAL (SELECT {_FIELDS} FROM {_JOINED}
  WHERE o.tenant_id = %(tenant)s AND o.record = k.record AND o.account = k.account AND po.receiver = k.receiver
    AND pr.id < %(proposal)s AND j.workflow = %(workflow)s AND o.state <> 'PREPARED'
  ORDER BY o.id DESC LIMIT 1) x
WHERE {_BADLY} ORDER BY x.at DESC, x.proposal_id DESC LIMIT {SHOWN}
"""
_BY_RECIPIENT = f"""
SELECT x.* FROM (SELECT pr.id FROM approvals_proposal pr JOIN workflows_job j ON j.id = pr.job_id
  WHERE pr.tenant_id = %(tenant)s AND pr.recipient = %(recipient)s AND pr.id < %(proposal)s
    AND pr.approved_at IS NOT NULL AND j.workflow = %(workflow)s ORDER BY pr.id DESC LIMIT 1) last
CROSS JOIN LATERAL (SELECT {_FIELDS} FROM {_JOINED}
  WHERE po.proposal_id = last.id AND o.tenant_id = %(tenant)s) x
WHERE {_BADLY} ORDER BY x.at DESC, x.record LIMIT {SHOWN}
"""


def earlier_ends(proposal: Proposal) -> list[Earlier]:
    """Records of this proposal whose last approved operation of the same workflow failed or is in doubt.

    Where none is, the same of the last approved proposal to its recipient. One query, or two.
    """
    asked = {
        "tenant": proposal.tenant_id,
        "proposal": proposal.pk,
        "workflow": proposal.job.workflow,
        "recipient": proposal.recipient,
        "badly": list(BADLY),
        "in_vain": list(IN_VAIN),
    }
    found = _rows(_BY_RECORD, asked)
    if not found and proposal.recipient:
        found = _rows(_BY_RECIPIENT, asked)
    return [_earlier(**row) for row in found]


def _rows(sql: str, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, asked)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _earlier(
    *, state: str, fate_note: str, record: str, job_id: int, proposal_id: int, number: int, closing: str,
    closing_reason: str, at: datetime,
) -> Earlier:  # fmt: skip
    return Earlier(
        record=record,
        job_id=job_id,
        job_label=f"JOB-{job_id}",
        proposal_id=proposal_id,
        proposal_label=f"{job_id:05d}-{number:02d}",
        ended=ENDED[S(state)],
        why=fate_note or (closing_reason if state == S.WITHDRAWN else ""),
        at=at,
    )
