"""What is proposed after a restore: the same may have been sent in the gap, under a key that is not known here.

So until dispatch is open again, and then for as long as the receivers of the organisation may still know keys of the gap,
each new proposal says so and takes two people.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from access.switches import Restored, switches_of
from approvals.models import Policy
from approvals.rendering import FrozenRequest
from approvals.wording import clock
from dispatch.contracts import Contract
from dispatch.models import ReceiverContract
from workflows.models import Job

WITHOUT_AN_END = timedelta(days=30)
"""Of a receiver that never forgets a key, or does not say when: so long what was sent in the gap has to have come to light."""


def why_two(job: Job, requests: Sequence[FrozenRequest], _policy: Policy, now: datetime) -> str:
    """What whoever signs has to know of the gap, or nothing."""
    restored = switches_of(job.tenant_id).restored
    if restored is None or not requests or (restored.shut_at is None and now >= over_at(restored)):
        return ""
    what = ", ".join(sorted({f"{r.record} at {r.receiver}" for r in requests})[:3])
    more = " and more" if len({(r.record, r.receiver) for r in requests}) > 3 else ""
    return (
        f"This was restored at {clock(restored.at, job.tenant_id)} from a backup that ends at"
        f" {clock(restored.known_until, job.tenant_id)}. In between the same may have been sent, under a key that is not"
        f" known here: look at {what}{more} first."
    )


def over_at(restored: Restored) -> datetime:
    """Until when proposals of the scope's tenant take two people, once dispatch is open. One query."""
    latest = ReceiverContract.objects.order_by("receiver", "-version").distinct("receiver")
    windows = [_window(Contract.of(kept.terms)) for kept in latest]
    return restored.at + max(windows, default=timedelta(0))


def _window(contract: Contract) -> timedelta:
    if not contract.has_window or contract.retention == "permanent":
        return WITHOUT_AN_END
    return timedelta(seconds=float(contract.retention))
