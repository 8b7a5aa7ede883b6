"""Planning, confirming and stopping a bulk. What is chosen is frozen when it is planned, and done once it is confirmed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from access.tenant_journal import record
from reconciliation.actions.working import text
from reconciliation.bulk.selecting import Filters, chosen, freeze
from reconciliation.bulk.verbs import BulkVerb, terms_of
from reconciliation.locks import lock_bulk, lock_planned
from reconciliation.models import Bulk, BulkEntry, BulkState, EntryState
from reconciliation.words import clock
from workflows.stopped import check_attempts

GOOD_FOR = timedelta(hours=24)


class NoSuchVerb(Unprocessable):
    """There is no such thing to do in bulk."""


class NothingChosen(Unprocessable):
    """The filter leaves nothing. Nothing was frozen."""


class AlreadyConfirmed(Conflict):
    """The bulk has been confirmed, by whom the message says; it is not done twice."""


class TooOld(Conflict):
    """The selection was frozen too long ago to be confirmed as what is meant now."""


class NotRunning(Conflict):
    """The bulk has ended, or was never confirmed: there is nothing to stop."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A frozen selection, to be looked at."""

    bulk_id: int
    total: int


def plan_bulk(*, tenant_id: int, person_id: int, verb: str, filters: Filters, now: datetime) -> Planned:
    """Freeze what a filter leaves at this moment; nothing is done to it. An earlier plan of the same person goes.

    Locks the earlier plan. Raises NotPermitted, NoSuchVerb, BadFilter, NothingChosen, TooMany.
    """
    if verb not in set(BulkVerb):
        raise NoSuchVerb(f"There is no “{verb}” in bulk. There are: {', '.join(BulkVerb)}.")
    terms = terms_of(verb)
    with acting(tenant_id):
        authority.require(person_id, terms.role)
        earlier = lock_planned(person_id)
        BulkEntry.objects.filter(bulk__in=earlier).delete()
        Bulk.objects.filter(pk__in=earlier).delete()
        bulk = Bulk.objects.create(
            tenant_id=tenant_id, verb=verb, filters=filters.asked(), planned_by_id=person_id, planned_at=now
        )
        total = freeze(bulk, chosen(terms, filters))
        if not total:
            raise NothingChosen(f"There are no such {terms.things} now.")
        Bulk.objects.filter(pk=bulk.pk).update(total=total)
        return Planned(bulk.pk, total)


def confirm_bulk(
    *, tenant_id: int, bulk_id: int, person_id: int, reason: str, attempts: int | None, now: datetime
) -> None:
    """Have a planned bulk done, entry after entry, by the workers. Locks the bulk.

    Every entry is decided on again when its turn comes, with the rights of this person at that moment. A second press is
    AlreadyConfirmed. Raises NoSuchBulk, NotPermitted, AlreadyConfirmed, TooOld, EvidenceMissing, Unprocessable (attempts).
    """
    with acting(tenant_id):
        bulk = lock_bulk(bulk_id)
        terms = terms_of(bulk.verb)
        actor = authority.require(person_id, terms.role)
        if bulk.state != BulkState.PLANNED:
            raise AlreadyConfirmed(_who_confirmed(bulk))
        if now - bulk.planned_at > GOOD_FOR:
            raise TooOld("This was chosen more than a day ago. Choose again; nothing was done.")
        reason = text(reason, "Say why: every one of them keeps it.")[:1000]
        if terms.wants_attempts:
            check_attempts(attempts or 0)
        Bulk.objects.filter(pk=bulk.pk).update(
            state=BulkState.RUNNING,
            reason=reason,
            attempts=attempts or 0 if terms.wants_attempts else 0,
            confirmed_by_id=person_id,
            confirmed_at=now,
        )
        evidence = {
            "bulk": bulk.pk,
            "verb": bulk.verb,
            "filters": bulk.filters,
            "total": bulk.total,
            "chosen": _digest(bulk),
            "reason": reason,
        }
        record(event="bulk.confirmed", actor=actor, evidence=evidence)


def stop_bulk(*, tenant_id: int, bulk_id: int, person_id: int, now: datetime) -> int:
    """Leave what has not been done yet; how much that is. What was done stays done. Locks the bulk → its entries.

    Raises NoSuchBulk, NotPermitted, NotRunning.
    """
    with acting(tenant_id):
        bulk = lock_bulk(bulk_id)
        actor = authority.require(person_id, terms_of(bulk.verb).role, Role.ADMIN)
        if bulk.state != BulkState.RUNNING:
            raise NotRunning("It is not running (any more): there is nothing to stop.")
        Bulk.objects.filter(pk=bulk.pk).update(state=BulkState.STOPPED, stopped_by_id=person_id, ended_at=now)
        left = BulkEntry.objects.filter(bulk=bulk, state=EntryState.WAITING).update(
            state=EntryState.LEFT, why=f"{actor.name} stopped it.", settled_at=now
        )
        record(event="bulk.stopped", actor=actor, evidence={"bulk": bulk.pk, "left": left})
        return left


def _who_confirmed(bulk: Bulk) -> str:
    assert bulk.confirmed_by is not None
    assert bulk.confirmed_at is not None
    at = clock(bulk.confirmed_at, bulk.tenant_id)
    return f"{bulk.confirmed_by.username} confirmed this on {at}; it is {bulk.state}. It is not done twice."


def _digest(bulk: Bulk) -> str:
    """SHA-256 over what was chosen, in its order."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT encode(sha256(convert_to(string_agg("
            "  job_id || ' ' || coalesce(item_id::text, '') || coalesce(' case ' || case_id, '') || ' ' || seen_state || ' ' || seen_number, E'\\n' ORDER BY id"
            "), 'UTF8')), 'hex') FROM reconciliation_bulkentry WHERE bulk_id = %s",
            [bulk.pk],
        )
        return str(cursor.fetchone()[0])
