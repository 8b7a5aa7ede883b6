"""Messages once they are written: sent again by a person, and reported when they were given up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from access import authority, tenant_journal
from access.refusals import Conflict
from access.roles import Role
from access.tenancy import acting
from outbox.locks import lock_message
from outbox.models import Message


class NotSentAgain(Conflict):
    """It was delivered, or is being sent at this moment."""


@dataclass(frozen=True, slots=True)
class MessageResult:
    """The message that is due now."""

    message_id: int


def send_again(*, tenant_id: int, message_id: int, person_id: int, now: datetime) -> MessageResult:
    """Have a message that waits or was given up tried now, with its old id, so that a repeat can be dropped.

    Operators and admins. It gets the whole time again before it is given up. Locks the message. Raises NotPermitted,
    NoSuchMessage, NotSentAgain.
    """
    with acting(tenant_id):
        message = lock_message(message_id)
        actor = authority.require(person_id, Role.ADMIN, Role.OPERATOR)
        if message.delivered_at is not None:
            raise NotSentAgain("It was delivered already.")
        if message.claimed_by and message.next_attempt_at and message.next_attempt_at > now:
            raise NotSentAgain("It is being sent at this moment.")
        Message.objects.filter(pk=message.pk).update(
            attempts=0,
            next_attempt_at=now,
            gives_up_at=now + timedelta(hours=settings.COUNTERFOIL_OUTBOX_HOURS),
            claimed_by="",
            given_up_at=None,
            reported_at=None,
        )
        evidence = {
            "message": message.pk,
            "event": message.event,
            "was_given_up": message.given_up_at is not None,
        }
        tenant_journal.record(event="message.sent_again", actor=actor, evidence=evidence)
        with connection.cursor() as cursor:
            cursor.execute("NOTIFY counterfoil_work")
        return MessageResult(message.pk)


GIVEN_UP = """
SELECT tenant_id, id FROM outbox_message
WHERE given_up_at IS NOT NULL AND reported_at IS NULL ORDER BY id LIMIT 50
"""
"""What was given up and nobody was told of yet, for the engine's role. A room above opens its case."""


def take_report(message_id: int, now: datetime) -> Message | None:
    """Mark a given-up message as reported, in the caller's transaction; None where it is no longer to be. Locks it."""
    message = lock_message(message_id)
    if message.given_up_at is None or message.reported_at is not None:
        return None
    Message.objects.filter(pk=message.pk).update(reported_at=now)
    return message
