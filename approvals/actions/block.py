"""The block list: an admin blocks a recipient of the organisation, or lifts the block, with a reason."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError

from access import authority, tenant_journal
from access.refusals import Conflict, NotFound, Unprocessable
from access.roles import Role
from access.tenancy import acting
from approvals.blocking import block_of, key_of
from approvals.models import RecipientBlock
from approvals.reasons import required_reason


class NoRecipient(Unprocessable):
    """Nobody is named, or the name is too long."""


class BlockedAlready(Conflict):
    """The recipient is blocked already."""


class NotBlocked(Conflict):
    """The block has been lifted already."""


class NoSuchBlock(NotFound):
    """There is no such block in this tenant."""


def block_recipient(*, tenant_id: int, recipient: str, reason: str, person_id: int, now: datetime) -> int:
    """Have nothing sent, frozen or approved for a recipient, and return the block's id. Admins only.

    What was approved for them is voided before its send; what is unknown is looked up, but not sent again. Journalled as
    `recipient.blocked`. Raises NotPermitted, NoRecipient, ReasonMissing, BlockedAlready.
    """
    recipient, reason = recipient.strip(), required_reason(reason)
    if not key_of(recipient) or len(recipient) > 300:
        raise NoRecipient("Name the recipient as proposals do, in 1 to 300 characters.")
    try:
        with acting(tenant_id):
            actor = authority.require(person_id, Role.ADMIN)
            if (block := block_of(recipient)) is not None:
                raise BlockedAlready(
                    f"{block.recipient} is blocked already by {block.blocked_by}: {block.reason}"
                )
            made = RecipientBlock.objects.create(
                tenant_id=tenant_id,
                recipient=recipient,
                key=key_of(recipient),
                reason=reason,
                blocked_at=now,
                blocked_by=actor.name,
            )
            evidence = {"block": made.pk, "recipient": recipient, "reason": reason}
            tenant_journal.record(event="recipient.blocked", actor=actor, evidence=evidence)
            return made.pk
    except IntegrityError as taken:
        # Another admin was first, between our look and the insert.
        if "one_live_block_a_recipient" not in str(taken):
            raise
        raise BlockedAlready(f"{recipient} has just been blocked by somebody else.") from taken


def lift_block(*, tenant_id: int, block_id: int, reason: str, person_id: int, now: datetime) -> None:
    """Let the recipient be proposed, approved and sent to again. Admins only. What was voided stays so.

    Journalled as `recipient.unblocked`. Raises NotPermitted, NoSuchBlock, ReasonMissing, NotBlocked.
    """
    reason = required_reason(reason)
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        block = RecipientBlock.objects.filter(pk=block_id).first()
        if block is None:
            raise NoSuchBlock(f"There is no block {block_id} here.")
        live = RecipientBlock.objects.filter(pk=block_id, lifted_at__isnull=True)
        if not live.update(lifted_at=now, lifted_by=actor.name, lift_reason=reason):
            raise NotBlocked(f"The block of {block.recipient} has been lifted already.")
        evidence = {"block": block_id, "recipient": block.recipient, "reason": reason}
        tenant_journal.record(event="recipient.unblocked", actor=actor, evidence=evidence)
