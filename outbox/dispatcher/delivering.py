"""One claimed message: read what it needs, send it outside of any transaction, record what came of it.

Killed before the send: the lease runs out and it is sent by the next. Killed between send and record: the same, and
the recipient gets it once more, with the same id. Killed after the record: nothing is left to do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime

from django.db import DatabaseError, connection

from access import authority
from access.models import Person, Tenant
from access.outages import may_pass
from access.secrets import SecretMissing
from access.tenancy import reading
from access.whereabouts import who_is
from outbox.dispatcher import mail, webhook
from outbox.dispatcher.claiming import Claim
from outbox.dispatcher.outcomes import Later, Never, Outcome
from outbox.dispatcher.recording import record
from outbox.models import Endpoint, Message, MessageKind
from outbox.secrets import secrets_of

KEPT_SECONDS = 20.0
Send = Callable[[], Outcome]
LEFT = Never("This person is no longer in the organisation.", quiet=True)


def deliver(claim: Claim, clock: Callable[[], datetime], pause: Callable[[float], object]) -> None:
    """Bring one claimed message to the end of this try. Raises only what the database does.

    While the database is away, or somebody else has the message, what came of the send is kept for a while: it would be
    sent again otherwise.
    """
    began = clock()
    with reading(claim.tenant_id):
        send = _prepare(claim, began)
    outcome = send()
    until = time.monotonic() + KEPT_SECONDS
    while True:
        try:
            record(claim=claim, outcome=outcome, began=began, now=clock())
            return
        except DatabaseError as error:
            if not may_pass(error) or time.monotonic() > until:
                raise
        connection.close()
        pause(1.0)


def _prepare(claim: Claim, now: datetime) -> Send:
    message = Message.objects.get(pk=claim.message_id)
    if message.kind == MessageKind.EMAIL:
        return _letter(message)
    assert message.endpoint_id is not None
    endpoint = Endpoint.objects.get(pk=message.endpoint_id)
    if endpoint.disabled_at is not None:
        never = Never(f"The endpoint was disabled: {endpoint.disabled_reason}"[:500], quiet=True)
        return lambda: never
    try:
        secrets, who = secrets_of(endpoint, now), who_is(endpoint.tenant_id, f"endpoint/{endpoint.name}")
        what = webhook.Post(endpoint.url, message.webhook_id, message.payload, secrets, who)
    except SecretMissing as missing:
        later = Later(f"It cannot be signed: {missing}")
        return lambda: later
    return lambda: webhook.post(what, now)


def _letter(message: Message) -> Send:
    assert message.person_id is not None
    person = Person.objects.get(pk=message.person_id)
    if not authority.roles_of(person.pk):
        return lambda: LEFT
    letter = _written(message, person, Tenant.objects.get(pk=message.tenant_id))
    return lambda: mail.send(letter)


def _written(message: Message, person: Person, tenant: Tenant) -> mail.Letter:
    told = json.loads(message.payload)["data"]
    lines = (
        told["title"],
        "",
        told["link"],
        "",
        "The page asks you to sign in. Nothing is decided by opening it, or by answering this message.",
        f"You are told because you are in {tenant.name}.",
    )
    return mail.Letter(
        to=person.email,
        subject=f"[{tenant.slug}] {told['title']}",
        text="\n".join(lines) + "\n",
        message_id=f"<{message.webhook_id}@{mail.domain()}>",
    )
