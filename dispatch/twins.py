"""Proposals of other jobs that ask for the same: the same invoice, or the same change, that came in twice.

Of the same record at the same receiver, with the same bytes but for the key in them or, where those hold more than the change,
the same amount for the same recipient. What surely had no effect is none of them, and neither is what is long past.
"""

# ruff: noqa: S608 - the statement is made of names from this code, never of input
from __future__ import annotations

from access.statements import execute
from approvals.aftermath import Twin
from approvals.models import Proposal
from dispatch.states import WITHOUT_EFFECT

DAYS = 90
SHOWN = 5


def _without_key(text: str, of: str) -> str:
    return f"replace({text}, {of}.operation_key, '')"


_SAME_TARGET = f"{_without_key('po.target', 'po')} = {_without_key('mine.target', 'mine')}"
# Only bodies of one length are read: keys of one contract have one.
_SAME_BODY = f"""
  CASE WHEN po.body_digest = mine.body_digest THEN true
    WHEN octet_length(po.body) <> octet_length(mine.body) THEN false
    ELSE {_without_key("encode(po.body, 'escape')", "po")} = {_without_key("encode(mine.body, 'escape')", "mine")} END"""
_TWINS = f"""
SELECT DISTINCT ON (pr.id) pr.id, pr.number, pr.job_id, po.record,
  CASE WHEN o.state = 'CONFIRMED' THEN 'was confirmed' WHEN pr.closing = 'sent' THEN 'was sent'
    WHEN pr.approved_at IS NOT NULL THEN 'is approved' ELSE 'waits for a decision' END,
  coalesce(o.settled_at, pr.approved_at, pr.frozen_at)
FROM approvals_proposal me
JOIN approvals_proposedoperation mine ON mine.proposal_id = me.id
JOIN approvals_proposedoperation po ON po.tenant_id = mine.tenant_id AND po.receiver = mine.receiver
  AND po.record = mine.record AND po.account = mine.account
JOIN approvals_proposal pr ON pr.id = po.proposal_id
LEFT JOIN dispatch_operation o ON o.proposed_id = po.id
WHERE me.id = %(proposal)s AND pr.job_id <> me.job_id AND pr.frozen_at > me.frozen_at - %(days)s * interval '1 day'
  AND (po.method = mine.method AND {_SAME_TARGET} AND {_SAME_BODY}
    OR me.recipient <> '' AND pr.recipient = me.recipient AND pr.amount = me.amount AND pr.currency = me.currency)
  AND CASE WHEN o.id IS NULL THEN pr.closing = '' ELSE o.state <> ALL(%(without)s::text[]) END
ORDER BY pr.id DESC LIMIT {SHOWN}
"""


def twins_of(proposal: Proposal) -> list[Twin]:
    """The newest of them. One query."""
    asked = {"proposal": proposal.pk, "days": DAYS, "without": [str(state) for state in WITHOUT_EFFECT]}
    return [
        Twin(pk, f"{job:05d}-{number:02d}", job, f"JOB-{job}", record, word, at)
        for pk, number, job, record, word, at in execute(_TWINS, asked).fetchall()
    ]
