"""The key of a proposal that follows one that may have been sent: kept where the request is the same, byte for byte.

Then a receiver that did the first after all takes the second for it. Where the request is another one, a second person
has to stand behind it, since nothing at the receiver would tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from access.statements import Values
from approvals import rendering
from approvals.models import Policy
from approvals.rendering import FrozenRequest
from dispatch.contracts import Contract
from dispatch.models import Operation
from dispatch.states import WITHOUT_EFFECT, OperationState
from workflows.authoring import OperationDraft
from workflows.models import Job


def keep_keys(
    job: Job,
    drafts: Sequence[OperationDraft],
    requests: Sequence[FrozenRequest],
    now: datetime,
) -> list[FrozenRequest]:
    """The requests, with the key of an earlier operation of the job where one asks for the same."""
    earlier = _earlier(job)
    if not earlier:
        return list(requests)
    kept = []
    for draft, request in zip(drafts, requests, strict=True):
        before = earlier.pop((request.receiver, request.account, request.record), None)
        if before is None or _would_repeat_its_error(before):
            kept.append(request)
            continue
        same = rendering.render(draft, before.operation_key, now)
        kept.append(same if _is_what_was_sent(before, same) else request)
    return kept


def why_two(job: Job, requests: Sequence[FrozenRequest], policy: Policy, _now: datetime) -> str:
    """What may have been sent before with other content, where the policy has no second person look at it; or nothing.

    A definite no of the receiver's stands for itself; an attestation can be wrong.
    """
    rules = policy.ruleset
    if not rules.waives_approval and (rules.quorum > 1 or rules.four_eyes):
        return ""
    earlier = _earlier(job)
    for request in requests:
        before = earlier.pop((request.receiver, request.account, request.record), None)
        if before is None or before.state == OperationState.REFUSED:
            continue
        if request.operation_key != before.operation_key:
            return f"{before.label} may have been sent before with other content, under another key."
    return ""


def _earlier(job: Job) -> dict[tuple[str, str, str], Operation]:
    """The last operation on each record that may have been sent, of the job's earlier proposals."""
    if not _SENT.exist(job.pk):
        return {}
    rows = Operation.objects.filter(
        job=job, first_may_have_been_sent_at__isnull=False, state__in=WITHOUT_EFFECT
    )
    rows = rows.select_related("receiver", "contract", "proposed").order_by(
        "proposed__proposal_id", "-ordinal"
    )
    return {(o.receiver.name, o.account, o.record): o for o in rows}


def _would_repeat_its_error(before: Operation) -> bool:
    """A receiver that keeps every answer with its key would only refuse the same key again."""
    contract = Contract.of(before.contract.terms)
    return bool(before.state == OperationState.REFUSED and contract.caches_errors == "all")


def _is_what_was_sent(before: Operation, request: FrozenRequest) -> bool:
    was = before.proposed
    return (
        request.operation_key == before.operation_key
        and (request.method, request.target) == (was.method, was.target)
        and request.body == bytes(was.body)
    )


_SENT = Values(
    lambda job: Operation.objects.filter(job=job, first_may_have_been_sent_at__isnull=False).values_list(
        "pk"
    )[:1]
)
"""Asked of every proposal, and of nearly all of them there is none."""
