"""Messages that were given up: somebody has to know, so each is journalled with its job, and a case asks for a person.

One case for a recipient at a time: what else cannot be delivered to them meanwhile stands in the list of messages.
"""

from __future__ import annotations

from access.models import Person
from access.roles import Actor, ActorKind
from access.tenancy import acting
from outbox.actions.messages import GIVEN_UP, take_report
from outbox.models import Endpoint, Message
from reconciliation.models import Case, CaseKind
from workflows import clock, journal
from workflows.errands import Errand
from workflows.locks import NoSuchJob, lock_job
from workflows.models import Job


def turn(tenant_id: int, message_id: int, worker: str) -> bool:
    """Report one given-up message; never more at once. Locks job → message → (hooks) case. A repeat does nothing."""
    with acting(tenant_id):
        job = _job_of(message_id)
        message = take_report(message_id, clock.now())
        if message is not None and job is not None:
            evidence = {
                "message": message.pk,
                "told_of": message.event,
                "by": message.kind,
                "recipient": recipient_of(message),
            }
            actor = Actor(kind=ActorKind.WORKER, name=worker)
            journal.record(job=job, event="message.undeliverable", actor=actor, evidence=evidence)
    return False


def recipient_of(message: Message) -> str:
    """Who it was for, as people name them."""
    if message.person_id is not None:
        return Person.objects.values_list("username", flat=True).get(pk=message.person_id)
    return Endpoint.objects.values_list("name", flat=True).get(pk=message.endpoint_id or 0)


def is_known(message: Message) -> bool:
    """Whether a case asks already about this recipient."""
    cases = Case.objects.filter(kind=CaseKind.UNDELIVERABLE, resolved_at__isnull=True)
    return cases.filter(message__person=message.person_id, message__endpoint=message.endpoint_id).exists()


def _job_of(message_id: int) -> Job | None:
    subject = Message.objects.values_list("subject", flat=True).filter(pk=message_id).first() or {}
    try:
        return lock_job(int(subject["job"])) if "job" in subject else None
    except NoSuchJob:
        return None


ERRAND = Errand("report message", GIVEN_UP, turn)
