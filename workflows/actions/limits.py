"""Limits are written by an admin, journalled in the tenant's own journal, and hold from the next claim on."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from access import authority, tenant_journal
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from workflows.locks import lock_limit, lock_name, lock_shared_limit
from workflows.models import Limit, LimitTerms, SharedLimit

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
LARGEST = 2_000_000_000
_WRITTEN = [
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "cost_per_day",
    "changed_at",
    "changed_by",
    "closed_until",
    "closed_why",
    "requests_due",
    "tokens_due",
]
LARGEST_COST = Decimal(10_000_000)


class BadLimit(Unprocessable):
    """The limit does not say what it allows; the message says what to do."""


class NoSuchLimit(Conflict):
    """There is no such limit (any more)."""


class LimitChanged(Conflict):
    """The limit is not as it was when the person looked at it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a limit allows, where it says so. `cost_per_day` in the installation's cost currency, by days of UTC."""

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    cost_per_day: Decimal | None = None

    def check(self, name: str) -> None:
        """Raise BadLimit unless the name can be one and something is limited to something."""
        if not _NAME.fullmatch(name):
            raise BadLimit("Name it as workflows do: small letters, digits, dots and hyphens, up to 100.")
        given = {k: v for k, v in asdict(self).items() if v is not None}
        if not given:
            raise BadLimit("Say at least one of: at once, requests a minute, tokens a minute, cost a day.")
        for term in ("concurrency", "requests_per_minute", "tokens_per_minute"):
            if term in given and not 1 <= given[term] <= LARGEST:
                raise BadLimit(f"{term.replace('_', ' ').capitalize()} is a whole number from 1 on.")
        if self.cost_per_day is not None and not 0 <= self.cost_per_day <= LARGEST_COST:
            raise BadLimit(f"Cost a day is an amount from 0 to {LARGEST_COST:,}.")

    def as_evidence(self) -> dict[str, Any]:
        """The terms that are given, as the journal keeps them: amounts as text."""
        return {k: str(v) if isinstance(v, Decimal) else v for k, v in asdict(self).items() if v is not None}


def set_limit(*, tenant_id: int, name: str, terms: Terms, person_id: int, now: datetime) -> None:
    """Write a tenant's limit, new or in place of the one of this name. Admins only. Locks the limit's name → the limit.

    What it had counted stays, except that a closed one is looked at anew. Raises NotPermitted, BadLimit.
    """
    terms.check(name)
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        lock_name("limit", tenant_id, name)
        limit = lock_limit(name) or Limit(tenant_id=tenant_id, name=name)
        before = _terms_of(limit).as_evidence()
        _write(limit, terms, by=actor.name, now=now)
        tenant_journal.record(
            event="limit.set",
            actor=actor,
            evidence={"limit": name, "before": before, "after": terms.as_evidence()},
        )
        _announce()


def drop_limit(*, tenant_id: int, name: str, person_id: int, as_of: str | None = None) -> None:
    """Take a tenant's limit away: what names it is no longer limited by it. Admins only. Locks the limit.

    `as_of` is the ISO time of the change that the person has seen last; without it the limit goes however it is. A repeat
    raises NoSuchLimit. Raises NotPermitted, LimitChanged.
    """
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        limit = lock_limit(name)
        if limit is None:
            raise NoSuchLimit(f"There is no limit {name}; it may have been taken away already.")
        if as_of is not None and as_of != limit.changed_at.isoformat():
            raise LimitChanged(
                f"{limit.changed_by} has set {name} anew meanwhile. Look at it before you drop it."
            )
        before = _terms_of(limit).as_evidence()
        limit.delete()
        tenant_journal.record(event="limit.dropped", actor=actor, evidence={"limit": name, "before": before})
        _announce()


def set_shared_limit(*, name: str, terms: Terms | None, by: str, now: datetime) -> bool:
    """Write a limit of the whole installation, or with `terms` None take it away. Only from a command on the host.

    Returns whether something changed. Raises BadLimit.
    """
    if terms is not None:
        terms.check(name)
    with transaction.atomic(durable=True):
        lock_name("limit", 0, name)
        limit = lock_shared_limit(name)
        if terms is None:
            if limit is None:
                return False
            limit.delete()
        elif limit is not None and _terms_of(limit) == terms:
            return False
        else:
            _write(limit or SharedLimit(name=name), terms, by=by, now=now)
        _announce()
        return True


def _terms_of(limit: LimitTerms) -> Terms:
    return Terms(limit.concurrency, limit.requests_per_minute, limit.tokens_per_minute, limit.cost_per_day)


def _write(limit: LimitTerms, terms: Terms, *, by: str, now: datetime) -> None:
    for field, value in asdict(terms).items():
        setattr(limit, field, value)
    limit.changed_at, limit.changed_by = now, by
    limit.closed_until, limit.closed_why = None, ""
    limit.requests_due = limit.tokens_due = None
    limit.save(update_fields=_WRITTEN if limit.pk else None)


def _announce() -> None:
    with connection.cursor() as cursor:
        cursor.execute("NOTIFY counterfoil_work")
