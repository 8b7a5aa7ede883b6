"""Approval policies: immutable revisions of named rules. The highest revision of a name is in force."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.db import IntegrityError
from django.db.models import Max

from access import authority, tenant_journal
from access.refusals import Conflict, Unprocessable
from access.roles import Actor, Role
from access.tenancy import acting
from approvals.document import money
from approvals.models import Policy
from workflows.authoring.values import check_decimals


class BadPolicy(Unprocessable):
    """The rules contradict themselves; the message says where."""


class PolicyWrittenMeanwhile(Conflict):
    """Somebody else wrote a revision of the same policy at the same moment."""


def write_policy(
    *,
    tenant_id: int,
    name: str,
    created_by: Actor,
    now: datetime,
    quorum: int = 1,
    four_eyes: bool = True,
    expires_after_minutes: int = 24 * 60,
    limit_amount: Decimal | None = None,
    limit_currency: str = "",
    waives_approval: bool = False,
) -> Policy:
    """Write the next revision of a policy, which is in force from then on; open proposals keep theirs, and the
    stricter of both holds for them.

    A person has to be an admin. Locks nothing; of two at once one is PolicyWrittenMeanwhile. A repeat writes another
    revision. Raises NotPermitted, BadPolicy.
    """
    _check(name, quorum, expires_after_minutes, limit_amount, limit_currency)
    try:
        with acting(tenant_id):
            if created_by.is_person:
                created_by = authority.require(created_by.person_id, Role.ADMIN)
            last = Policy.objects.filter(name=name).aggregate(last=Max("revision"))["last"]
            policy = Policy.objects.create(
                tenant_id=tenant_id,
                name=name,
                revision=(last or 0) + 1,
                waives_approval=waives_approval,
                quorum=quorum,
                four_eyes=four_eyes,
                expires_after_minutes=expires_after_minutes,
                limit_amount=limit_amount,
                limit_currency=limit_currency,
                created_at=now,
                created_by=created_by.name,
            )
            tenant_journal.record(event="policy.written", actor=created_by, evidence=_evidence(policy))
            return policy
    except IntegrityError as failed:
        if "one_policy_a_revision" not in str(failed):
            raise
        raise PolicyWrittenMeanwhile(
            f'Somebody else has just written "{name}". Look at it again.'
        ) from failed


def _check(name: str, quorum: int, minutes: int, limit: Decimal | None, currency: str) -> None:
    if not name or len(name) > 100:
        raise BadPolicy("Give the policy a name of up to 100 characters.")
    if quorum < 1:
        raise BadPolicy("A quorum is at least one person; to ask nobody, waive the approval.")
    if not 1 <= minutes <= 366 * 24 * 60:
        raise BadPolicy("Give people between a minute and a year to decide.")
    if (limit is None) != (not currency):
        raise BadPolicy("A limit needs an amount and a currency together.")
    if limit is not None:
        try:
            check_decimals(limit, currency)
        except ValueError as wrong:
            raise BadPolicy(f"The limit is not right: {wrong}.") from wrong


def _evidence(policy: Policy) -> dict[str, object]:
    return {
        "policy": policy.name,
        "revision": policy.revision,
        "quorum": policy.quorum,
        "four_eyes": policy.four_eyes,
        "expires_after_minutes": policy.expires_after_minutes,
        "limit_amount": money(policy.limit_amount, policy.limit_currency or None),
        "limit_currency": policy.limit_currency,
        "waives_approval": policy.waives_approval,
    }
