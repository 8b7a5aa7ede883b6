"""Telling something, and looking at what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from access.models import Tenant
from access.tenancy import acting, reading
from outbox.models import Message, Try
from outbox.writing import Notice, write
from tests.support import eventually


def notice(key: str = "case.opened/1", title: str = "RC-0001 was opened", job: int | None = None) -> Notice:
    about = {"case": 1} if job is None else {"case": 1, "job": job}
    return Notice(event="case.opened", key=key, title=title, page="home", subject=about)


def tell(
    tenant: Tenant,
    *,
    keys: Sequence[str] = ("case.opened/1",),
    now: datetime | None = None,
    job: int | None = None,
    **to: Any,
) -> int:
    """Writes a message a key, each in a transaction of its own."""
    written = 0
    for key in keys:
        with acting(tenant.pk):
            written += write(notice(key, job=job), now=now or timezone.now(), **to)
    return written


def messages(tenant: Tenant) -> list[Message]:
    with reading(tenant.pk):
        return list(Message.objects.order_by("pk"))


def tries(tenant: Tenant) -> list[tuple[str, str]]:
    with reading(tenant.pk):
        return list(Try.objects.order_by("pk").values_list("outcome", "said"))


def until_settled(tenant: Tenant) -> list[Message]:
    """Every message of the tenant, once none is due any more."""
    return eventually(
        lambda: (rows := messages(tenant)) and all(m.next_attempt_at is None for m in rows) and rows,
        what="messages that are delivered or given up",
    )


def until_tried(tenant: Tenant, times: int) -> list[tuple[str, str]]:
    return eventually(lambda: len(found := tries(tenant)) >= times and found, what=f"{times} tries")


def make_due(tenant: Tenant) -> None:
    """Ends every pause, and every lease, now."""
    with acting(tenant.pk):
        open_ones = Message.objects.filter(next_attempt_at__isnull=False)
        open_ones.update(next_attempt_at=timezone.now() - timedelta(seconds=1))
