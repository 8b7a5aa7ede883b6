"""One verb for many: a frozen selection, confirmed once, each with a result of its own, and nothing twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.utils import timezone

from access.models import Membership, Tenant
from access.owner import as_owner
from access.refusals import NotPermitted, Refused
from access.roles import WORKER, Role
from access.tenancy import acting, reading
from access.tenant_journal import record
from reconciliation.actions.bulk import (
    AlreadyConfirmed,
    NothingChosen,
    NotRunning,
    TooOld,
    stop_bulk,
)
from reconciliation.actions.working import EvidenceMissing
from reconciliation.bulk import selecting, working
from reconciliation.bulk.selecting import BadFilter, TooMany
from reconciliation.models import Bulk, BulkEntry, BulkState
from tests.dispatch.world import as_engine
from tests.reconciliation.floor import Floor
from tests.support import at_once, awaiting_locks, eventually, install, make_person
from workflows import journal
from workflows.actions.retry import grant_attempts
from workflows.locks import lock_job
from workflows.models import JournalEntry, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def letters(settings: Any, _own_workflow: None) -> None:
    install(settings, "tests.workflows.mending")


@pytest.fixture
def floor(transactional_db: None) -> Floor:
    return Floor.make()


# --- choosing ---------------------------------------------------------------------------------------------------


def test_what_is_chosen_is_frozen_with_what_was_seen_and_nothing_happens_to_it(floor: Floor) -> None:
    job_id, items = floor.stopped("TimeoutError", "x.TimeoutError", "ValueError")
    bulk_id = floor.plan("grant", error="TimeoutError")
    assert [(e.job_id, e.item_id, e.seen_state, e.seen_number, e.state) for e in floor.entries(bulk_id)] == [
        (job_id, items[0].pk, "REFUSED", 0, "waiting"),
        (job_id, items[1].pk, "REFUSED", 0, "waiting"),
    ]
    bulk = floor.bulk(bulk_id)
    assert (bulk.state, bulk.total, bulk.filters) == ("planned", 2, {"error": "TimeoutError"})
    assert floor.item(items[0]).state_name is ItemState.REFUSED
    floor.work(bulk_id)
    assert floor.results(bulk_id) == [(items[0].pk, "waiting"), (items[1].pk, "waiting")]


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        ({}, [0, 1, 2]),
        ({"workflow": "test-letters"}, [0, 1, 2]),
        ({"workflow": "other"}, []),
        ({"step": "read"}, [0, 1, 2]),
        ({"step": "split"}, []),
        ({"error": "worker died"}, [2]),
        ({"error": "ValueError"}, [1]),
        ({"error": "alueError"}, []),
        ({"state": "refused"}, [0, 1, 2]),
        ({"state": "EXHAUSTED"}, []),
        ({"since": "2020-01-01T00:00:00+00:00"}, [0, 1, 2]),
        ({"until": "2020-01-01T00:00:00+00:00"}, []),
        ({"kind": "permanent error"}, [0]),
        ({"kind": "retry exhausted"}, []),
    ],
)
def test_stopped_items_are_chosen_by_each_filter(
    floor: Floor, filters: dict[str, str], chosen: list[int]
) -> None:
    job_id, items = floor.stopped("TimeoutError", "ValueError", "worker died")
    with acting(floor.tenant.pk):
        journal.record(
            job=lock_job(job_id), event="item.refused", actor=WORKER, evidence={"item": items[0].pk}
        )
    if not chosen:
        with pytest.raises(NothingChosen, match="no such items"):
            floor.plan("grant", **filters)
        return
    assert [e.item_id for e in floor.entries(floor.plan("grant", **filters))] == [items[n].pk for n in chosen]


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        ({}, [0, 1]),
        ({"error": "TimeoutError"}, [0]),
        ({"step": "read"}, [0, 1]),
        ({"step": "put-together"}, []),
        ({"since": "2099-01-01T00:00:00+00:00"}, []),
    ],
)
def test_failed_jobs_are_chosen_by_what_stopped_them(
    floor: Floor, filters: dict[str, str], chosen: list[int]
) -> None:
    floor.stopped("TimeoutError")
    jobs = [floor.failed("TimeoutError", "TimeoutError"), floor.failed("ValueError")]
    if not chosen:
        with pytest.raises(NothingChosen):
            floor.plan("redrive", **filters)
        return
    found = [(e.job_id, e.item_id, e.seen_state) for e in floor.entries(floor.plan("redrive", **filters))]
    assert found == [(jobs[n], None, "FAILED") for n in chosen]


def test_the_items_of_one_job_are_chosen_by_its_number(floor: Floor) -> None:
    first, items = floor.stopped("ValueError")
    floor.stopped("ValueError")
    assert [e.item_id for e in floor.entries(floor.plan("skip", job=f"JOB-{first}"))] == [items[0].pk]


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"kind": "odd"}, "There are: unknown outcome"),
        ({"state": "FAILED"}, "state is one of exhausted, refused"),
        ({"since": "yesterday"}, "is no time"),
        ({"since": "2026-03-13T16:00"}, "has no zone"),
        ({"job": "12; drop"}, "is no job"),
    ],
)
def test_a_filter_that_names_what_there_is_not_is_refused(
    floor: Floor, filters: dict[str, str], words: str
) -> None:
    floor.stopped("ValueError")
    with pytest.raises(BadFilter, match=words):
        floor.plan("grant", **filters)
    with reading(floor.tenant.pk):
        assert not Bulk.objects.exists()


def test_more_than_a_bulk_holds_is_refused_with_nothing_frozen(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor.stopped("ValueError", "ValueError", "ValueError")
    monkeypatch.setattr(selecting, "MOST", 2)
    with pytest.raises(TooMany, match="more than 2"):
        floor.plan("grant")
    with reading(floor.tenant.pk):
        assert (Bulk.objects.count(), BulkEntry.objects.count()) == (0, 0)


def test_another_look_takes_the_place_of_an_unconfirmed_one(floor: Floor) -> None:
    floor.stopped("ValueError")
    first, second = floor.plan("grant"), floor.plan("skip")
    with reading(floor.tenant.pk):
        assert list(Bulk.objects.values_list("pk", flat=True)) == [second]
        assert not BulkEntry.objects.filter(bulk=first).exists()


def test_only_who_may_do_one_may_do_many(floor: Floor) -> None:
    floor.stopped("ValueError")
    for verb, person in (
        ("grant", floor.admin),
        ("skip", floor.submitter),
        ("redrive", floor.admin),
        ("give-up", floor.admin),
        ("cancel", floor.operator),
    ):
        with pytest.raises(NotPermitted):
            floor.plan(verb, person)
    bulk_id = floor.plan("grant")
    with pytest.raises(NotPermitted):
        floor.confirm(bulk_id, floor.admin)
    assert floor.bulk(bulk_id).state == BulkState.PLANNED


def test_another_tenants_jobs_are_neither_chosen_nor_shown(floor: Floor) -> None:
    theirs = Floor.make()
    theirs.stopped("ValueError")
    with pytest.raises(NothingChosen):
        floor.plan("grant")
    bulk_id = theirs.plan("grant")
    with pytest.raises(Refused, match="no bulk"):
        floor.confirm(bulk_id)


# --- doing ------------------------------------------------------------------------------------------------------


def test_each_is_done_once_with_the_reason_in_its_journal_and_the_whole_in_the_tenants(floor: Floor) -> None:
    job_id, items = floor.stopped("ValueError", "ValueError")
    bulk_id = floor.done("grant")
    assert floor.results(bulk_id) == [(items[0].pk, "done"), (items[1].pk, "done")]
    assert {floor.item(i).state_name for i in items} == {ItemState.READY}
    with reading(floor.tenant.pk):
        entries = JournalEntry.objects.filter(job_id=job_id, event="attempts.granted")
        told = [json.loads(e.evidence) for e in entries]
    assert [(t["reason"], t["bulk"]) for t in told] == [("they are back", bulk_id)] * 2
    bulk = floor.bulk(bulk_id)
    assert (bulk.state, bulk.ended_at is not None) == ("finished", True)
    (confirmed,), (finished,) = floor.told("bulk.confirmed"), floor.told("bulk.finished")
    assert (confirmed["verb"], confirmed["total"], confirmed["reason"]) == ("grant", 2, "they are back")
    assert (finished["done"], finished["refused"]) == (2, 0)


@pytest.mark.parametrize(
    ("verb", "person", "state"),
    [("give-up", "operator", "FAILED"), ("cancel", "admin", "CANCELLED")],
)
def test_jobs_are_given_up_and_cancelled(floor: Floor, verb: str, person: str, state: str) -> None:
    job_id, _ = floor.stopped("ValueError")
    bulk_id = floor.done(verb, getattr(floor, person))
    assert floor.results(bulk_id) == [(job_id, "done")]
    assert floor.state(job_id) == state


def test_items_are_left_out_where_their_step_allows_it(floor: Floor) -> None:
    _, items = floor.stopped("ValueError")
    bulk_id = floor.done("skip")
    assert floor.results(bulk_id) == [(items[0].pk, "done")]
    assert floor.item(items[0]).state_name is ItemState.SKIPPED


def test_what_is_refused_says_why_and_the_others_are_done(floor: Floor) -> None:
    good, bad = floor.failed(), floor.failed()
    with acting(floor.tenant.pk):
        WorkItem.objects.filter(job=bad, stage__name="split").update(state=ItemState.COMPENSATED.number)
    bulk_id = floor.done("redrive")
    assert floor.results(bulk_id) == [(good, "done"), (bad, "refused")]
    assert "was undone when it failed" in floor.entries(bulk_id)[1].why
    assert [floor.state(good), floor.state(bad)] == ["VALIDATED", "FAILED"]


def test_what_changed_meanwhile_is_left_alone_and_listed(floor: Floor) -> None:
    _, items = floor.stopped("ValueError", "ValueError", "ValueError")
    bulk_id = floor.plan("grant")
    grant_attempts(
        tenant_id=floor.tenant.pk,
        item_id=items[0].pk,
        person_id=floor.operator.pk,
        attempts=9,
        reason="me first",
        now=timezone.now(),
    )
    as_engine("UPDATE workflows_workitem SET claim_no = claim_no + 1 WHERE id = %s", [items[1].pk])
    floor.confirm(bulk_id)
    floor.work(bulk_id)
    assert [(e.state, e.why) for e in floor.entries(bulk_id)] == [
        ("changed", "It was “Stopped” when it was chosen and is “Ready” now."),
        ("changed", "It has been tried again since it was chosen."),
        ("done", ""),
    ]
    assert floor.item(items[0]).attempts_limit == 10


def test_a_job_of_which_there_is_any_news_is_not_given_up(floor: Floor) -> None:
    job_id, items = floor.stopped("ValueError")
    bulk_id = floor.plan("give-up")
    with acting(floor.tenant.pk):
        journal.record(
            job=lock_job(job_id), event="item.refused", actor=WORKER, evidence={"item": items[0].pk}
        )
    floor.confirm(bulk_id)
    floor.work(bulk_id)
    assert [e.state for e in floor.entries(bulk_id)] == ["changed"]
    assert floor.state(job_id) == "VALIDATED"


def test_who_loses_the_role_meanwhile_does_nothing_more(floor: Floor) -> None:
    _, items = floor.stopped("ValueError")
    bulk_id = floor.plan("grant")
    floor.confirm(bulk_id)
    with acting(floor.tenant.pk):
        Membership.objects.filter(person=floor.operator).update(ended_at=timezone.now())
    floor.work(bulk_id)
    assert [(e.state, e.why) for e in floor.entries(bulk_id)] == [
        ("refused", "Only an operator of this organisation may do this.")
    ]
    assert floor.item(items[0]).state_name is ItemState.REFUSED


@pytest.mark.parametrize(
    ("given", "refusal"),
    [({"reason": " "}, EvidenceMissing), ({"attempts": 0}, Refused), ({"attempts": None}, Refused)],
)
def test_a_confirmation_without_what_it_needs_starts_nothing(
    floor: Floor, given: dict[str, Any], refusal: type[Exception]
) -> None:
    floor.stopped("ValueError")
    bulk_id = floor.plan("grant")
    with pytest.raises(refusal):
        floor.confirm(bulk_id, **given)
    assert floor.bulk(bulk_id).state == BulkState.PLANNED


def test_an_old_selection_is_not_confirmed(floor: Floor) -> None:
    floor.stopped("ValueError")
    bulk_id = floor.plan("grant")
    with pytest.raises(TooOld, match="more than a day ago"):
        floor.confirm(bulk_id, now=timezone.now() + timedelta(hours=25))


def test_of_two_who_confirm_at_once_one_is_told_who_was_first(floor: Floor) -> None:
    floor.stopped("ValueError")
    other = make_person(floor.tenant, Role.OPERATOR)
    bulk_id = floor.plan("grant")
    answers = at_once(lambda: floor.confirm(bulk_id), lambda: floor.confirm(bulk_id, other))
    (late,) = [a for a in answers if a is not None]
    assert isinstance(late, AlreadyConfirmed)
    first = floor.bulk(bulk_id).confirmed_by_id
    assert {floor.operator.pk: floor.operator, other.pk: other}[first or 0].username in str(late)
    assert len(floor.told("bulk.confirmed")) == 1


def test_a_plan_that_is_confirmed_while_its_planner_chooses_anew_stays(floor: Floor) -> None:
    """A confirms the first plan and has not committed; B, in another tab, chooses anew and finds that plan unconfirmed.
    A commits; B goes on, and leaves what is confirmed alone."""
    _, items = floor.stopped("ValueError")
    first = floor.plan("grant")
    with acting(floor.tenant.pk):
        record(event="tests.began", actor=WORKER, evidence={})
    with ThreadPoolExecutor(2) as people, psycopg.connect(os.environ["DATABASE_URL"]) as head:
        head.execute("SELECT 1 FROM access_tenanthead WHERE tenant_id = %s FOR UPDATE", [floor.tenant.pk])
        confirmed = people.submit(alone, lambda: floor.confirm(first))
        eventually(lambda: awaiting_locks(head) == 1, what="the confirmation, at its journal")
        planned = people.submit(alone, lambda: floor.plan("skip"))
        eventually(lambda: awaiting_locks(head) == 2, what="the plan, at what is being confirmed")
        head.commit()
        confirmed.result(20)
        second = planned.result(20)
    assert (floor.bulk(first).state, floor.bulk(second).state) == (BulkState.RUNNING, BulkState.PLANNED)
    floor.work(first)
    assert floor.results(first) == [(i.pk, "done") for i in items]


def test_two_workers_at_once_do_nothing_twice(floor: Floor) -> None:
    _, items = floor.stopped(*["ValueError"] * 20)
    bulk_id = floor.plan("grant")
    floor.confirm(bulk_id)
    # Without the hold that keeps two workers apart: only the entries' rows stand between them.
    calls: list[Callable[[], Any]] = [lambda w=w: _turns_without_hold(floor, bulk_id, w) for w in ("a", "b")]  # type: ignore[misc]
    at_once(*calls)
    assert floor.results(bulk_id) == [(i.pk, "done") for i in items]
    with reading(floor.tenant.pk):
        assert JournalEntry.objects.filter(event="attempts.granted").count() == 20
        assert {i.attempts_limit for i in WorkItem.objects.filter(pk__in=[i.pk for i in items])} == {3}


def alone(call: Callable[[], Any]) -> Any:
    """In a thread, with a connection of its own."""
    try:
        return call()
    finally:
        connections.close_all()


def _turns_without_hold(floor: Floor, bulk_id: int, worker: str) -> None:
    while working.turn(floor.tenant.pk, bulk_id, worker):
        with acting(floor.tenant.pk):
            Bulk.objects.filter(pk=bulk_id).update(worked_until=None)
    connections["default"].close()


def test_a_worker_that_dies_between_two_entries_leaves_the_rest_to_another(floor: Floor) -> None:
    _, items = floor.stopped("ValueError", "ValueError")
    bulk_id = floor.plan("grant")
    floor.confirm(bulk_id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(working, "TURN_SECONDS", 0)
        assert working.turn(floor.tenant.pk, bulk_id, "dead") is True
    assert floor.results(bulk_id) == [(items[0].pk, "done"), (items[1].pk, "waiting")]
    assert working.turn(floor.tenant.pk, bulk_id, "other") is False
    with acting(floor.tenant.pk):
        Bulk.objects.filter(pk=bulk_id).update(worked_until=timezone.now() - timedelta(seconds=1))
    with connection.cursor() as cursor:
        cursor.execute("SET ROLE counterfoil_engine")
        cursor.execute(working.FIND)
        assert cursor.fetchall() == [(floor.tenant.pk, bulk_id)]
        cursor.execute("RESET ROLE")
    floor.work(bulk_id, "other")
    assert floor.results(bulk_id) == [(i.pk, "done") for i in items]


def test_an_entry_whose_deed_breaks_is_told_and_the_others_are_done(floor: Floor) -> None:
    first, second = floor.failed(), floor.failed()
    bulk_id = floor.plan("redrive")
    floor.confirm(bulk_id)
    with _items_that_refuse_to_change(first):
        floor.work(bulk_id)
    assert floor.results(bulk_id) == [(first, "failed"), (second, "done")]
    assert "IntegrityError" in floor.entries(bulk_id)[0].why
    assert floor.state(first) == "FAILED"


@contextmanager
def _items_that_refuse_to_change(job_id: int) -> Iterator[None]:
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute(
            "CREATE TRIGGER tests_refuse BEFORE UPDATE ON workflows_workitem FOR EACH ROW"
            f" WHEN (NEW.job_id = {job_id:d}) EXECUTE FUNCTION counterfoil_refuse_change()"
        )
    try:
        yield
    finally:
        with as_owner(connection), connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER tests_refuse ON workflows_workitem")


def test_a_bulk_that_is_stopped_leaves_what_was_not_done(floor: Floor) -> None:
    _, items = floor.stopped("ValueError", "ValueError")
    bulk_id = floor.plan("grant")
    with pytest.raises(NotRunning):
        _stop(floor, bulk_id)
    floor.confirm(bulk_id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(working, "TURN_SECONDS", 0)
        working.turn(floor.tenant.pk, bulk_id, "w1")
    assert _stop(floor, bulk_id) == 1
    floor.work(bulk_id)
    assert floor.results(bulk_id) == [(items[0].pk, "done"), (items[1].pk, "left")]
    assert floor.item(items[1]).state_name is ItemState.REFUSED
    assert floor.told("bulk.stopped") == [{"bulk": bulk_id, "left": 1}]
    with pytest.raises(NotRunning):
        _stop(floor, bulk_id)


def _stop(floor: Floor, bulk_id: int) -> int:
    return stop_bulk(
        tenant_id=floor.tenant.pk, bulk_id=bulk_id, person_id=floor.operator.pk, now=timezone.now()
    )


# --- the command ------------------------------------------------------------------------------------------------


def run(floor: Floor, *arguments: str) -> str:
    out = StringIO()
    as_whom = ["--organisation", floor.tenant.slug, "--as", floor.operator.username]
    call_command("bulk", *arguments, *as_whom, stdout=out)
    return out.getvalue()


def test_the_command_shows_what_it_would_do_and_does_it_when_told(floor: Floor) -> None:
    job_id, items = floor.stopped("TimeoutError", "ValueError")
    shown = run(floor, "grant", "--error", "TimeoutError")
    assert "Try stopped items again: 1 items." in shown
    assert f"JOB-{job_id}  read 1" in shown
    assert "Nothing was done." in shown
    assert floor.item(items[0]).state_name is ItemState.REFUSED
    done = run(
        floor, "grant", "--error", "TimeoutError", "--yes", "--reason", "they are back", "--attempts", "4"
    )
    assert "1 done." in done
    assert floor.item(items[0]).attempts_limit == 5


def test_the_command_names_each_that_was_not_done_and_fails(floor: Floor) -> None:
    job_id = floor.failed()
    with acting(floor.tenant.pk):
        WorkItem.objects.filter(job=job_id, stage__name="split").update(state=ItemState.COMPENSATED.number)
    out = StringIO()
    with pytest.raises(CommandError, match="Not all of them"):
        call_command(
            "bulk",
            "redrive",
            organisation=floor.tenant.slug,
            person=floor.operator.username,
            yes=True,
            reason="again",
            stdout=out,
        )
    assert f"JOB-{job_id}: refused: What steps of JOB-{job_id} made was undone" in out.getvalue()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grant", "--since", "soon"], "is no time"),
        (["grant", "--yes"], "Say why"),
        (["cancel"], "Only an admin"),
        (["skip", "--workflow", "none"], "no such items"),
    ],
)
def test_the_command_says_what_is_wrong_in_a_sentence(floor: Floor, arguments: list[str], words: str) -> None:
    floor.stopped("ValueError")
    with pytest.raises(CommandError, match=words):
        run(floor, *arguments)


def test_a_time_without_a_zone_is_the_organisations(floor: Floor) -> None:
    floor.stopped("ValueError")
    Tenant.objects.filter(pk=floor.tenant.pk).update(time_zone="Pacific/Kiritimati")
    assert "1 items" in run(floor, "grant", "--since", "2020-01-01T00:00")
    with reading(floor.tenant.pk):
        assert Bulk.objects.get().filters == {"since": "2020-01-01T00:00:00+14:00"}
