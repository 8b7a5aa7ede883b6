"""Doing a bulk: entry after entry, in turns. The deed and its entry's result are one transaction.

Whoever does a turn holds the bulk for ten seconds, so that two engines do not get into each other's way; that nothing
is done twice does not depend on it, but on the entry's row, which changes with the deed and only once. A verb that asks
receivers is done outside of a transaction, and its result is written after it: a crash between the two asks once more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db import InterfaceError, OperationalError, connection
from django.db.models import Count
from django.utils import timezone
from psycopg.errors import DeadlockDetected, LockNotAvailable

from access.refusals import Refused
from access.roles import WORKER
from access.tenancy import acting, reading
from access.tenant_journal import record
from reconciliation.actions.working import SomebodyElseIsWorking, StaleCase
from reconciliation.bulk import taking_turns
from reconciliation.bulk.verbs import Terms, terms_of
from reconciliation.locks import lock_bulk
from reconciliation.models import Bulk, BulkEntry, BulkState, EntryState
from reconciliation.words import standing_words
from workflows.errands import Errand
from workflows.locks import lock_job
from workflows.models import Job, WorkItem
from workflows.stopped import ChangedMeanwhile

log = logging.getLogger(__name__)
TURN_SECONDS = 0.25
HELD_SECONDS, HELD_FOR_CALLS = 10, 120
CALLS = 8
"""So many receivers' answers are waited for at once."""

AT_A_TIME = 50

_TAKE = """
UPDATE reconciliation_bulk SET worked_by = %s, worked_until = clock_timestamp() + %s * interval '1 s'
WHERE id = %s AND state = 'running' AND (worked_by = %s OR worked_until IS NULL OR worked_until < clock_timestamp())
"""
FIND = """
SELECT tenant_id, id FROM reconciliation_bulk
WHERE state = 'running' AND (worked_until IS NULL OR worked_until < clock_timestamp()) ORDER BY id LIMIT 20
"""


class _Overtaken(Exception):
    """Somebody else has settled the entry meanwhile: what was done here is rolled back."""


def turn(tenant_id: int, bulk_id: int, worker: str) -> bool:
    """Do entries of a running bulk for a quarter of a second; whether more are waiting. Nothing where another is at it."""
    until = time.monotonic() + TURN_SECONDS
    with acting(tenant_id), connection.cursor() as cursor:
        calls = _terms(bulk_id).calls
        cursor.execute(_TAKE, [worker, HELD_FOR_CALLS if calls else HELD_SECONDS, bulk_id, worker])
        if cursor.rowcount == 0:
            return False
    busy: set[int] = set()
    while True:
        with reading(tenant_id):
            bulk = Bulk.objects.get(pk=bulk_id)
            waiting = BulkEntry.objects.filter(bulk=bulk, state=EntryState.WAITING).exclude(pk__in=busy)
            entries = list(waiting.order_by("pk")[: CALLS if calls else AT_A_TIME])
        if bulk.state != BulkState.RUNNING:
            return False
        if not entries:
            return bool(busy) or _finish(tenant_id, bulk_id)
        if calls:
            with taking_turns.turn_of(bulk_id) as mine:
                if mine:
                    _call_all(bulk, entries)
            return mine  # another asks just now: the sweep brings this one again
        for entry in entries:
            if not _settle(bulk, entry):
                busy.add(entry.pk)
            if time.monotonic() >= until:
                return True


def _call_all(bulk: Bulk, entries: Sequence[BulkEntry]) -> None:
    """Ask for each at the same time, since a receiver may take as long as its contract lets it. Ends with the last."""

    def one(entry: BulkEntry) -> None:
        try:
            _settle(bulk, entry)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(entries), "bulk") as threads:
        for done in [threads.submit(one, entry) for entry in entries]:
            done.result()


def _settle(bulk: Bulk, entry: BulkEntry) -> bool:
    """Do one entry and say what came of it; False where its job is locked by somebody else for now."""
    try:
        _do(bulk, entry)
    except _Overtaken:
        pass
    except (ChangedMeanwhile, StaleCase) as changed:
        _record(entry, EntryState.CHANGED, str(changed))
    except SomebodyElseIsWorking:
        return False
    except Refused as refused:
        _record(entry, EntryState.REFUSED, str(refused))
    except (OperationalError, InterfaceError) as failed:
        if isinstance(failed.__cause__, LockNotAvailable | DeadlockDetected):
            return False
        raise
    except Exception as error:
        log.exception("entry %s of bulk %s failed", entry.pk, bulk.pk)
        _record(entry, EntryState.FAILED, f"It could not be done: {type(error).__name__}. The log says more.")
    return True


def _do(bulk: Bulk, entry: BulkEntry) -> None:
    terms, now = terms_of(bulk.verb), timezone.now()
    if terms.calls:
        _record(entry, EntryState.DONE, terms.act(bulk, entry, now) or "")
        return
    with acting(entry.tenant_id, lock_timeout_ms=1000):
        job = lock_job(entry.job_id)
        _check_seen(terms, entry, job)
        said = terms.act(bulk, entry, now) or ""
        # Last, so that its row is locked after every other; a stop that came meanwhile has settled it.
        mine = BulkEntry.objects.filter(pk=entry.pk, state=EntryState.WAITING)
        if mine.update(state=EntryState.DONE, why=said[:500], settled_at=now) != 1:
            raise _Overtaken


def _check_seen(terms: Terms, entry: BulkEntry, job: Job) -> None:
    """ChangedMeanwhile unless the locked job, or its item, is as it was when the selection was frozen."""
    if entry.case_id is not None:
        return  # each verb of a case asks for the version that was seen, and says what became of it meanwhile
    if entry.item_id is not None:
        item = WorkItem.objects.get(pk=entry.item_id)
        if item.claim_no != entry.seen_number:
            raise ChangedMeanwhile("It has been tried again since it was chosen.")
        state = item.state_name.value
    else:
        state = job.state
    if state != entry.seen_state:
        raise ChangedMeanwhile(
            f"It was “{standing_words(entry.seen_state)}” when it was chosen and is “{standing_words(state)}” now."
        )
    if terms.by_version and job.version != entry.seen_number:
        raise ChangedMeanwhile("Something has happened to it since it was chosen: its journal says what.")


def _record(entry: BulkEntry, state: EntryState, why: str) -> None:
    with acting(entry.tenant_id):
        BulkEntry.objects.filter(pk=entry.pk, state=EntryState.WAITING).update(
            state=state, why=why[:500], settled_at=timezone.now()
        )


def _finish(tenant_id: int, bulk_id: int) -> bool:
    """End a bulk of which nothing waits any more, once. Always False: there is nothing more to do."""
    with acting(tenant_id):
        bulk = lock_bulk(bulk_id)
        if (
            bulk.state != BulkState.RUNNING
            or BulkEntry.objects.filter(bulk=bulk, state=EntryState.WAITING).exists()
        ):
            return False
        Bulk.objects.filter(pk=bulk.pk).update(state=BulkState.FINISHED, ended_at=timezone.now())
        record(event="bulk.finished", actor=WORKER, evidence={"bulk": bulk.pk, **results_of(bulk)})
        return False


def results_of(bulk: Bulk) -> dict[str, int]:
    """How many entries came to what. One query over an index."""
    found = BulkEntry.objects.filter(bulk=bulk).values_list("state").annotate(n=Count("pk")).order_by()
    counts = dict(found)
    return {state.value: counts.get(state.value, 0) for state in EntryState}


def _terms(bulk_id: int) -> Terms:
    return terms_of(Bulk.objects.values_list("verb", flat=True).get(pk=bulk_id))


ERRAND = Errand("bulk", FIND, turn)
