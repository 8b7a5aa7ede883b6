"""Telling somebody outside, in the transaction of what is told: a message that rolls back with it never existed.

    write(
        Notice(
            event="approval.asked", key=f"approval.asked/{proposal.pk}", title="Proposal 00012-01 waits for a decision",
            page="approval", page_args=(proposal.pk,), subject={"job": job.pk, "proposal": proposal.pk},
        ),
        roles=[Role.MANAGER], but_not=[initiator_id], now=now,
    )

Called after the journal and before the commit. What is told is thin: ids, a label, the event and a link to a page that
asks for sign-in. Values of jobs do not belong into a title.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import rfc8785
from django.conf import settings
from django.db import connection
from django.urls import reverse

from access.models import Membership, Tenant
from access.prepared import execute
from access.roles import Role
from access.tenancy import require_scope
from outbox.events import declared
from outbox.models import Message, MessageKind

LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell.

    `event` is the journal's name of it, and one that is declared in `outbox/events.py`. `key`, up to 200 characters, is
    what makes it the same notification: it is written once a recipient, however often this is repeated. `title` is one
    plain sentence. The link leads to the page named `page` of the organisation. `subject` holds ids: job, proposal, case;
    with a job, whose lock the caller holds, it reaches each recipient after what was written of that job before.
    """

    event: str
    key: str
    title: str
    page: str
    page_args: tuple[int | str, ...] = ()
    subject: Mapping[str, int] | None = None


def write(
    notice: Notice,
    *,
    now: datetime,
    people: Collection[int] = (),
    roles: Collection[Role] = (),
    but_not: Collection[int] = (),
    endpoints: bool = True,
) -> int:
    """Write a message for each recipient in the caller's transaction and scope; how many there are.

    By e-mail: the people with these ids, and everybody who holds one of these roles now, but not `but_not`; nobody
    where the installation has no mail server. By webhook: the endpoints that chose the event, unless `endpoints` is
    False. Locks nothing. A repeat writes nothing new. Raises ValueError for an event that nobody declared.
    """
    if notice.event not in declared():
        raise ValueError(f"{notice.event} is not declared in outbox/events.py by any room.")
    persons = _persons(people, roles, but_not) if settings.EMAIL_HOST else []
    subscribed = _subscribed(notice.event) if endpoints else []
    return write_to(notice, persons=persons, endpoint_ids=subscribed, now=now)


def write_to(notice: Notice, *, persons: Iterable[int], endpoint_ids: Iterable[int], now: datetime) -> int:
    """`write` for recipients that are known already."""
    assert connection.in_atomic_block
    recipients: list[dict[str, Any]] = [
        *({"kind": MessageKind.EMAIL, "person_id": person} for person in persons),
        *({"kind": MessageKind.WEBHOOK, "endpoint_id": endpoint} for endpoint in endpoint_ids),
    ]
    if not recipients:
        return 0
    tenant = Tenant.objects.get(pk=require_scope())
    same = {
        "tenant_id": tenant.pk, "event": notice.event, "key": notice.key, "subject": dict(notice.subject or {}),
        "job_id": (notice.subject or {}).get("job"),
        "payload": payload_of(notice, tenant, now), "created_at": now, "next_attempt_at": now,
        "gives_up_at": now + timedelta(hours=settings.COUNTERFOIL_OUTBOX_HOURS),
    }  # fmt: skip
    Message.objects.bulk_create([Message(**same, **to) for to in recipients], ignore_conflicts=True)
    with connection.cursor() as cursor:
        cursor.execute("NOTIFY counterfoil_work")
    return len(recipients)


def payload_of(notice: Notice, tenant: Tenant, now: datetime) -> str:
    """What is told, as canonical JSON: these bytes are what is signed and sent at every try."""
    path = reverse(notice.page, args=[tenant.slug, *notice.page_args])
    data: dict[str, str | int] = {
        **(notice.subject or {}),
        "organisation": tenant.slug,
        "title": plain(notice.title),
        "link": f"{settings.COUNTERFOIL_URL}{path}",
    }
    return rfc8785.dumps({"type": notice.event, "timestamp": now.isoformat(), "data": data}).decode()


def plain(text: str) -> str:
    """One line without control and direction characters, cut visibly where it is too long."""
    line = " ".join("".join(" " if unicodedata.category(c)[0] == "C" else c for c in text).split())
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"


def _persons(people: Collection[int], roles: Collection[Role], but_not: Collection[int]) -> list[int]:
    found = set(people)
    if roles:
        held = Membership.objects.filter(role__in=list(roles), ended_at__isnull=True, person__is_active=True)
        found |= set(held.values_list("person_id", flat=True))
    return sorted(found - set(but_not))


def _subscribed(event: str) -> list[int]:
    require_scope()
    found = execute(
        "SELECT id FROM outbox_endpoint WHERE disabled_at IS NULL AND %s = ANY(events) ORDER BY id", [event]
    )
    return [endpoint for (endpoint,) in found.fetchall()]
