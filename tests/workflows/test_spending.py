"""What work cost, in sums: exact at every moment, however attempts become visible and whatever dies while counting."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection as django_connection
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting, reading
from tests.support import eventually, make_person, make_tenant
from workflows import journal, locks, machines
from workflows.actions.cancel import cancel_job
from workflows.actions.submit import submit_job
from workflows.claims import Claim, Done, Wait
from workflows.costs import counting, currency
from workflows.costs.spent import Line, Spent, spending, spent_by, uses_of
from workflows.engine.connections import connect
from workflows.engine.engine import Engine
from workflows.models import CostBook, Job, JobSpending, Spending, SpendingReview, WorkItem
from workflows.pricing import Used

pytestmark = pytest.mark.django_db(transaction=True)
NOON = datetime(2026, 3, 12, 12, 20, tzinfo=UTC)
DAY = date(2026, 3, 12)
Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def books(transactional_db: None) -> Iterator[Connection]:
    """A connection as the engine's role, for counting and for writing attempts as the engine would."""
    with connect("test") as made:
        yield made


def make_job(tenant: Tenant, person: Person, key: str = "k") -> Job:
    job_id = submit_job(
        tenant_id=tenant.pk, workflow="test-order", value={"acts": []}, submission_key=key, person_id=person.pk,
        source="test", now=timezone.now(),
    ).job_id  # fmt: skip
    with reading(tenant.pk):
        return Job.objects.get(pk=job_id)


def attempt(connection: Connection, job: Job, **columns: Any) -> None:
    """One attempt of the job's first item, that used something."""
    with reading(job.tenant_id):
        item = WorkItem.objects.filter(job=job).values_list("pk", flat=True)[0]
    row = {"number": 1, "claim_no": 1, "worker_name": "w", "started_at": NOON, "ended_at": NOON, "outcome": "succeeded",
           "error_class": "", "error_message": "", "route": "large", "tokens_in": 10, "tokens_out": 1,
           "cost": Decimal("0.5"), "tenant_id": job.tenant_id, "item_id": item, **columns}  # fmt: skip
    connection.execute(
        f"INSERT INTO workflows_attempt ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})",
        list(row.values()),
    )


def figures(tenant: Tenant, *by: str, day: date = DAY, until: date | None = None) -> list[Line]:
    """What is shown; it must always be what a sum over all attempts gives."""
    with reading(tenant.pk):
        shown = spending(since=day, until=until or day, by=by)
        assert shown == spending(since=day, until=until or day, by=by, anew=True)
    return shown


def total(tenant: Tenant) -> tuple[Decimal, Decimal, Decimal]:
    """(kept, failed, refused) of the day."""
    (line,) = figures(tenant) or [Line(())]
    return line.kept.cost, line.failed.cost, line.refused.cost


def test_attempts_are_summed_up_by_workflow_route_day_and_fate(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    job = make_job(tenant, submitter)
    attempt(books, job)
    attempt(books, job, route="small", cost=Decimal("0.0000000001"))
    attempt(books, job, outcome="retryable", cost=Decimal("0.25"))
    attempt(books, job, outcome="stale", cost=0, unpriced=2)
    attempt(books, job, outcome="worker died", route="", cost=0, tokens_in=0, tokens_out=0)
    attempt(books, job, ended_at=datetime(2026, 3, 13, 0, 0, tzinfo=UTC))
    wanted = [
        Line(
            ("large",),
            kept=Spent(Decimal("0.5"), 0, 10, 1),
            failed=Spent(Decimal("0.25"), 2, 20, 2),
        ),
        Line(("small",), kept=Spent(Decimal("0.0000000001"), 0, 10, 1)),
    ]
    assert figures(tenant, "route") == wanted
    counting.count_all(books)
    assert figures(tenant, "route") == wanted
    assert [line.key for line in figures(tenant, "day", "workflow", until=date(2026, 3, 13))] == [
        (DAY, "test-order"),
        (date(2026, 3, 13), "test-order"),
    ]
    with reading(tenant.pk):
        assert Spending.objects.count() == 4
        assert spent_by(job, uses_of(job.pk)).failed == Spent(Decimal("0.25"), 2, 20, 2)
        assert spent_by(job, uses_of(job.pk)).kept.cost == Decimal("1.0000000001")


def test_an_attempt_with_several_routes_counts_for_each_of_them(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    by_route = (
        '[{"route": "large", "tokens_in": 7, "tokens_out": 1, "cost": "0.4", "unpriced": 0, "calls": 1},'
        ' {"route": "small", "tokens_in": 3, "tokens_out": 0, "cost": "0", "unpriced": 1, "calls": 1}]'
    )
    attempt(
        books, make_job(tenant, submitter), route="small", cost=Decimal("0.4"), unpriced=1, by_route=by_route
    )
    wanted = [
        Line(("large",), kept=Spent(Decimal("0.4"), 0, 7, 1)),
        Line(("small",), kept=Spent(Decimal(0), 1, 3, 0)),
    ]
    assert figures(tenant, "route") == wanted
    counting.count_all(books)
    assert figures(tenant, "route") == wanted


def test_an_attempt_that_becomes_visible_late_is_not_missed(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    """The first writer takes an id and does not commit; the second takes a greater one and commits; then counting
    is asked for. It counts neither before the first has ended, and both after."""
    job = make_job(tenant, submitter)
    keeper = counting.Bookkeeper(stopping=lambda: False, wait=lambda _: None)
    with connect("first writer") as first, first.transaction():
        attempt(first, job, cost=Decimal(1))
        attempt(books, job, cost=Decimal(2))
        keeper.turn(books)
        assert CostBook.objects.get().counted_up_to == 0
        assert total(tenant)[0] == 2
    keeper.turn(books)
    assert CostBook.objects.get().counted_up_to > 0
    assert total(tenant)[0] == 3
    with reading(tenant.pk):
        assert [s.cost for s in Spending.objects.all()] == [3]


def test_an_attempt_that_is_rolled_back_holds_nothing_up(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    job = make_job(tenant, submitter)
    keeper = counting.Bookkeeper(stopping=lambda: False, wait=lambda _: None)
    with connect("first writer") as first:
        with first.transaction(force_rollback=True):
            attempt(first, job, cost=Decimal(1))
            attempt(books, job, cost=Decimal(2))
            keeper.turn(books)
        keeper.turn(books)
    with reading(tenant.pk):
        assert [s.cost for s in Spending.objects.all()] == [2]


def test_results_of_a_job_that_is_cancelled_are_refused_work_from_that_moment_on(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    job = make_job(tenant, submitter)
    attempt(books, job)
    attempt(books, job, outcome="permanent", cost=Decimal("0.125"))
    counting.count_all(books)
    assert total(tenant) == (Decimal("0.5"), Decimal("0.125"), 0)
    cancel_job(tenant_id=tenant.pk, job_id=job.pk, person_id=submitter.pk, reason="no", now=timezone.now())
    refused = (0, Decimal("0.125"), Decimal("0.5"))
    assert total(tenant) == refused
    attempt(books, job, outcome="stale", cost=Decimal("0.125"))
    counting.count_all(books)
    assert total(tenant) == (0, Decimal("0.25"), Decimal("0.5"))
    with reading(tenant.pk):
        assert not SpendingReview.objects.exists()
        assert sorted((s.fate, s.cost) for s in Spending.objects.exclude(cost=0)) == [
            ("failed", Decimal("0.25")),
            ("refused", Decimal("0.5")),
        ]


def test_results_of_a_job_that_is_redriven_are_kept_again(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    job = make_job(tenant, submitter)
    attempt(books, job)
    counting.count_all(books)
    for states in (("VALIDATED", "worker"), ("FAILED", "operator")), (("VALIDATED", "operator"),):
        for state, kind in states:
            move(tenant, job, state, kind)
        assert total(tenant) == ((0, 0, Decimal("0.5")) if len(states) == 2 else (Decimal("0.5"), 0, 0))
    attempt(books, job)
    move(tenant, job, "FAILED", "operator")
    counting.count_all(books)
    assert total(tenant) == (0, 0, 1)


def move(tenant: Tenant, job: Job, state: str, kind: str) -> None:
    """A transition with its hooks, as an action would write it."""
    from access.roles import Actor, ActorKind
    from workflows.states import JobState

    with acting(tenant.pk):
        locked = locks.lock_job(job.pk)
        journal.transition(
            job=locked,
            to=JobState(state),
            event="test.moved",
            actor=Actor(ActorKind(kind), "test"),
            evidence={},
        )


def test_the_day_is_the_tenants_and_an_hour_may_belong_to_two_days(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(time_zone="Asia/Kolkata")
    job = make_job(tenant, submitter)
    attempt(books, job, ended_at=datetime(2026, 3, 12, 18, 29, tzinfo=UTC), cost=Decimal(1))
    attempt(books, job, ended_at=datetime(2026, 3, 12, 18, 30, tzinfo=UTC), cost=Decimal(2))
    wanted = [(DAY, 1), (date(2026, 3, 13), 2)]
    for _ in range(2):
        lines = figures(tenant, "day", until=date(2026, 3, 14))
        assert [(line.key[0], line.kept.cost) for line in lines] == wanted
        counting.count_all(books)
    with reading(tenant.pk):
        hour = datetime(2026, 3, 12, 18, tzinfo=UTC)
        lines = spending(since=DAY, until=date(2026, 3, 14), by=("hour",), from_hour=hour)
        assert [(line.key[0], line.kept.cost) for line in lines] == [(hour, 3)]
        assert spending(since=DAY, until=date(2026, 3, 14), from_hour=hour.replace(hour=19)) == []


def test_a_tenant_with_a_zone_that_nobody_knows_has_its_days_in_utc(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(time_zone="Mars/Olympus")
    attempt(books, make_job(tenant, submitter))
    counting.count_all(books)
    assert [line.key[0] for line in figures(tenant, "day")] == [DAY]


def test_one_tenants_costs_are_not_seen_by_another(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    other = make_tenant()
    attempt(books, make_job(tenant, submitter))
    attempt(books, make_job(other, make_person(other, Role.SUBMITTER)), cost=Decimal(7))
    for _ in range(2):
        assert (total(tenant)[0], total(other)[0]) == (Decimal("0.5"), 7)
        counting.count_all(books)
    with reading(other.pk):
        assert JobSpending.objects.count() == 1


def test_two_bookkeepers_and_four_writers_at_once_count_everything_once(
    tenant: Tenant, submitter: Person
) -> None:
    """Writers commit in groups and in no order, some roll back; both bookkeepers count as fast as they can."""
    jobs = [make_job(tenant, submitter, key=f"k{n}") for n in range(5)]
    written: list[int] = []
    over = threading.Event()

    def write(seed: int) -> None:
        chance = random.Random(seed)
        with connect("writer") as own:
            for _ in range(40):
                count, lost = chance.randint(1, 5), chance.random() < 0.2
                with own.transaction(force_rollback=lost):
                    for _ in range(count):
                        attempt(own, chance.choice(jobs), cost=1)
                written.append(0 if lost else count)
        django_connection.close()

    def count() -> None:
        with connect("counter") as own:
            while not over.is_set():
                counting.count_all(own)

    counters = [threading.Thread(target=count) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in (*counters, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    for thread in counters:
        thread.join()
    assert total(tenant)[0] == sum(written)
    with connect("counter") as own:
        counting.count_all(own)
    with reading(tenant.pk):
        assert sum(s.cost for s in Spending.objects.all()) == sum(written)
        assert sum(s.cost for s in JobSpending.objects.all()) == sum(written)


@pytest.mark.long
def test_an_engine_counts_what_its_jobs_cost_by_itself(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit_job(
        tenant_id=tenant.pk, workflow="test-order", value={"acts": ["a", "once", "permanent"]}, submission_key="k",
        person_id=submitter.pk, source="test", now=timezone.now(),
    ).job_id  # fmt: skip

    def counted() -> list[tuple[bool, int, int]]:
        with reading(tenant.pk):
            rows = JobSpending.objects.filter(job_id=job_id).order_by("gave_result")
            return [(r.gave_result, r.tokens_in, r.unpriced) for r in rows]

    eventually(lambda: counted() == [(False, 20, 2), (True, 20, 2)], what="the job's sums")


def test_the_currency_is_settled_with_the_first_cost_and_another_is_refused(
    books: Connection, tenant: Tenant, submitter: Person
) -> None:
    currency.settle(books, "USD")
    currency.settle(books, "EUR")
    attempt(books, make_job(tenant, submitter))
    for _ in range(2):
        with pytest.raises(currency.AnotherCurrency, match=r"in EUR, and COUNTERFOIL_COST_CURRENCY says USD"):
            currency.settle(books, "USD")
        currency.settle(books, "EUR")
        counting.count_all(books)


def test_the_command_tells_each_organisations_costs_and_verifies_the_sums(
    books: Connection, tenant: Tenant, submitter: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt(books, make_job(tenant, submitter), route="=cmd()")
    attempt(books, make_job(tenant, submitter, key="k2"), outcome="retryable", cost=0, unpriced=3)
    days = ["--tenant", tenant.slug, "--since", "2026-03-12", "--until", "2026-03-12"]
    call_command("cost", *days)
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert told[2:] == [
        ["test-order", "0.50", "unknown", "-", "0.50", "3"],
        ["all", "0.50", "unknown", "-", "0.50", "3"],
    ]
    call_command("cost", *days, "--csv")
    assert capsys.readouterr().out.splitlines() == [
        "organisation,day,workflow,route,fate,cost,currency,calls_of_unknown_cost,tokens_in,tokens_out",
        f"{tenant.slug},2026-03-12,test-order,'=cmd(),kept,0.50,USD,0,10,1",
        f"{tenant.slug},2026-03-12,test-order,large,failed,,USD,3,10,1",
    ]
    counting.count_all(books)
    call_command("cost", *days, "--verify")
    assert capsys.readouterr().out == f"{tenant.slug}: equal\n"
    books.execute("UPDATE workflows_spending SET cost = cost + 1")
    with pytest.raises(CommandError, match="not those of their attempts"):
        call_command("cost", *days, "--verify")
    with pytest.raises(CommandError, match="There is no organisation nobody"):
        call_command("cost", "--tenant", "nobody")
    with pytest.raises(CommandError, match="no day; write it as"):
        call_command("cost", "--since", "yesterday")


def test_what_a_machine_item_and_a_step_that_then_waits_used_is_kept_work(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """Handlers of a workflow that a machine calls (to undo, to look again at facts) record with its attempt."""

    def costly(claim: Claim) -> Done | Wait:
        claim.usage.add("large", Used(1000, 10), Decimal("0.25"), "")
        return Done() if claim.key == "ends" else Wait()

    machines.register("test-costly", costly)
    job = make_job(tenant, submitter)
    with acting(tenant.pk):
        for key in ("ends", "waits"):
            machines.ring(job=locks.lock_job(job.pk), machine="test-costly", key=key)

    def told() -> list[tuple[Decimal, Decimal]]:
        with reading(tenant.pk):
            return [
                (u.spent.cost, u.attempts) for u in uses_of(job.pk) if u.route == "large" and u.gave_result
            ]

    eventually(lambda: told() == [(Decimal("0.5"), 2)], what="the machine's costs")
