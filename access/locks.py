"""Locks of this room. They come before every other lock, in transactions that take no other."""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection

from access.models import Group, Person, Tenant
from access.tenancy import require_scope


def lock_arrangements_of(person_id: int) -> None:
    """Queue behind everybody who writes this person's absences and what they lend, until the transaction ends.

    An advisory lock: what must not overlap is a set of rows, the first of which may not be there yet.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
            [f"counterfoil arrangements {require_scope()} {person_id}"],
        )


def lock_group(group_id: int) -> Group | None:
    """A group that was not ended, fresh and locked; None where there is none."""
    live = Group.objects.filter(pk=group_id, ended_at__isnull=True)
    return live.select_for_update(no_key=True).first()


def lock_groups(names: Collection[str]) -> None:
    """Those of these groups that there are, by id: none is renamed or ended until the transaction has."""
    live = Group.objects.filter(name__in=names, ended_at__isnull=True)
    list(live.order_by("pk").select_for_update(no_key=True))


def lock_tenant(tenant_id: int) -> Tenant:
    """An organisation's own row, fresh and locked."""
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant_id)


def lock_person(person_id: int) -> Person:
    """A person's own row, fresh and locked: whoever enters their password again queues here, and nobody else."""
    return Person.objects.select_for_update(no_key=True).get(pk=person_id)
