"""The engine on a real database: what finishes, what is retried, what stops, and what nobody may lose."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.utils import timezone

from access.models import Person, Tenant
from access.owner import as_owner
from access.roles import Role
from access.tenancy import reading
from tests.support import eventually, make_person, make_tenant
from tests.workflows import definitions
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job, release_job
from workflows.actions.retry import NothingToRetry, fail_job, grant_attempts
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine
from workflows.models import Attempt, Checkpoint, Job, JournalEntry, Stage, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


def submit(tenant: Tenant, person: Person, key: str = "k", **value: Any) -> int:
    """A job of the test workflow."""
    return submit_job(
        tenant_id=tenant.pk,
        workflow="test-order",
        value=value,
        submission_key=key,
        person_id=person.pk,
        source="test",
        now=timezone.now(),
    ).job_id


def items(tenant: Tenant, job_id: int, stage: str = "make") -> list[tuple[str, ItemState, int]]:
    """(key, state, attempts) of a stage's items in input order."""
    with reading(tenant.pk):
        rows = WorkItem.objects.filter(job_id=job_id, stage__name=stage).order_by("ordinal")
        return [(i.key, i.state_name, i.attempts) for i in rows]


def events(tenant: Tenant, job_id: int) -> list[str]:
    """What was journalled, in order."""
    with reading(tenant.pk):
        rows = JournalEntry.objects.filter(job_id=job_id).order_by("sequence")
        return list(rows.values_list("event", flat=True))


def settled(tenant: Tenant, job_id: int, count: int) -> list[tuple[str, ItemState, int]]:
    """The items of "make" once all of them have stopped."""

    def look() -> list[tuple[str, ItemState, int]]:
        found = items(tenant, job_id)
        moving = (ItemState.READY, ItemState.RUNNING, ItemState.BACKING_OFF)
        return found if len(found) == count and not any(s in moving for _, s, _ in found) else []

    return eventually(look, what=f"{count} items at rest")


def test_a_job_runs_its_stages_in_order_and_keeps_every_output(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, acts=["a", "b", "c"])
    eventually(lambda: items(tenant, job_id, "propose") == [("1", ItemState.SUCCEEDED, 1)], what="propose")
    with reading(tenant.pk):
        outputs = Checkpoint.objects.filter(item__stage__name="make").order_by("item__ordinal")
        assert [json.loads(o.output)["value"] for o in outputs] == ["a", "b", "c"]
        stages = Stage.objects.filter(job_id=job_id).exclude(kind="machine").order_by("ordinal")
        assert [s.name for s in stages] == ["validate", "split", "make", "count", "propose"]
        count = Checkpoint.objects.get(item__stage__name="count")
        assert json.loads(count.output) == {"count": 3}
    assert events(tenant, job_id)[:3] == ["job.received", "input.validated", "stage.closed"]


def test_only_the_item_that_failed_is_tried_again(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    job_id = submit(tenant, submitter, acts=["a", "once", "b"])
    assert settled(tenant, job_id, 3) == [
        ("1", ItemState.SUCCEEDED, 1),
        ("2", ItemState.SUCCEEDED, 2),
        ("3", ItemState.SUCCEEDED, 1),
    ]
    with reading(tenant.pk):
        tries = Attempt.objects.filter(item__stage__name="make", item__key="2").order_by("number")
        assert [(t.number, t.outcome, t.route, t.tokens_in) for t in tries] == [
            (1, "retryable", "test", 10),
            (2, "succeeded", "test", 10),
        ]


def test_exhausted_and_permanent_items_stop_and_everything_else_is_kept(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, acts=["a", "retry", "permanent", "b"])
    assert settled(tenant, job_id, 4) == [
        ("1", ItemState.SUCCEEDED, 1),
        ("2", ItemState.EXHAUSTED, 3),
        ("3", ItemState.REFUSED, 1),
        ("4", ItemState.SUCCEEDED, 1),
    ]
    told = eventually(
        lambda: [e for e in events(tenant, job_id) if e in {"retry.exhausted", "item.refused"}][1:]
    )
    assert len(told) == 1
    with reading(tenant.pk):
        assert Job.objects.get(pk=job_id).state == "VALIDATED"


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("nul", "NUL character"),
        ("surrogate", "surrogate"),
        ("infinite", "not finite"),
        ("deep", "deeper than"),
        ("huge", "bytes"),
    ],
)
def test_what_cannot_be_stored_is_a_permanent_error_on_that_item_alone(
    engine: Engine, tenant: Tenant, submitter: Person, act: str, said: str
) -> None:
    job_id = submit(tenant, submitter, acts=["a", act, "six"])
    assert settled(tenant, job_id, 3) == [
        ("1", ItemState.SUCCEEDED, 1),
        ("2", ItemState.REFUSED, 1),
        ("3", ItemState.SUCCEEDED, 1),
    ]
    with reading(tenant.pk):
        attempt = Attempt.objects.get(item__stage__name="make", item__key="2")
        kept = Checkpoint.objects.get(item__stage__name="make", item__key="3")
    assert (attempt.outcome, said in attempt.error_message) == ("permanent", True)
    assert json.loads(kept.output)["value"] == "a\\u0000b"


def test_input_that_the_workflow_refuses_fails_the_job_with_its_reasons(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, refuse=True)
    eventually(lambda: events(tenant, job_id) == ["job.received", "input.refused"])
    with reading(tenant.pk):
        entry = JournalEntry.objects.get(job_id=job_id, event="input.refused")
        assert json.loads(entry.evidence) == {
            "problems": [{"field": "refuse", "message": "was asked to be refused"}]
        }
        job = Job.objects.get(pk=job_id)
        assert (job.state, job.ended_at == entry.at) == ("FAILED", True)


def test_two_workers_finishing_the_last_items_open_the_next_stage_once(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    second = Engine(slots=4, lease_seconds=20)
    second.start_threads()
    try:
        jobs = [submit(tenant, submitter, key=f"k{n}", acts=["a", "b"]) for n in range(25)]

        def proposed() -> bool:
            with reading(tenant.pk):
                done = WorkItem.objects.filter(stage__name="propose", state=ItemState.SUCCEEDED.number)
                return done.count() == len(jobs)

        eventually(proposed, seconds=60)
    finally:
        second.request_stop()
        second.join()
    with reading(tenant.pk):
        assert WorkItem.objects.filter(stage__name="count").count() == len(jobs)
        made = Attempt.objects.filter(item__stage__name="make", outcome="succeeded")
        assert made.count() == 2 * len(jobs) == made.values("item").distinct().count()


def test_a_held_job_is_not_claimed_until_it_is_released(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    operator = make_person(tenant, Role.OPERATOR)
    engine.request_stop()
    engine.join()
    job_id = submit(tenant, submitter, acts=["a"])
    hold_job(
        tenant_id=tenant.pk, job_id=job_id, person_id=operator.pk, reason="look first", now=timezone.now()
    )
    again = Engine(slots=2, lease_seconds=20)
    again.start_threads()
    try:
        other = submit(tenant, submitter, key="other", acts=["b"])
        eventually(lambda: items(tenant, other) == [("1", ItemState.SUCCEEDED, 1)])
        assert events(tenant, job_id) == ["job.received", "job.held"]
        release_job(tenant_id=tenant.pk, job_id=job_id, person_id=operator.pk, now=timezone.now())
        eventually(lambda: items(tenant, job_id) == [("1", ItemState.SUCCEEDED, 1)])
    finally:
        again.request_stop()
        again.join()


def test_a_cancelled_job_runs_nothing_more_and_its_late_result_is_recorded_as_stale(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    definitions.GATE.clear()
    job_id = submit(tenant, submitter, acts=["gate"] * 6)
    eventually(
        lambda: sum(s is ItemState.RUNNING for _, s, _ in items(tenant, job_id)) == 4, what="4 running"
    )
    cancel_job(tenant_id=tenant.pk, job_id=job_id, person_id=submitter.pk, reason="mine", now=timezone.now())
    definitions.GATE.set()
    made = {"item__job_id": job_id, "item__stage__name": "make"}

    def late() -> bool:
        with reading(tenant.pk):
            return Attempt.objects.filter(**made, outcome="stale", tokens_in=10).count() == 4

    eventually(late, what="four stale attempts")
    with reading(tenant.pk):
        assert Attempt.objects.filter(**made).count() == 4
        assert not Checkpoint.objects.filter(**made).exists()
        assert {s for _, s, _ in items(tenant, job_id)} == {ItemState.CANCELLED}
        assert Job.objects.get(pk=job_id).state == "CANCELLED"
        assert not Stage.objects.filter(job_id=job_id, closed_at=None).exclude(kind="machine").exists()


def test_granted_attempts_continue_from_what_was_saved(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    operator = make_person(tenant, Role.OPERATOR)
    job_id = submit(tenant, submitter, acts=["a", "retry"])
    settled(tenant, job_id, 2)
    with reading(tenant.pk):
        stuck = WorkItem.objects.get(job_id=job_id, stage__name="make", key="2")
    args = {"tenant_id": tenant.pk, "item_id": stuck.pk, "person_id": operator.pk, "attempts": 2}
    grant_attempts(**args, reason="the provider is back", now=timezone.now())
    eventually(lambda: items(tenant, job_id)[1] == ("2", ItemState.EXHAUSTED, 5))
    assert items(tenant, job_id)[0] == ("1", ItemState.SUCCEEDED, 1)
    fail_job(tenant_id=tenant.pk, job_id=job_id, person_id=operator.pk, reason="given up", now=timezone.now())
    with pytest.raises(NothingToRetry):
        grant_attempts(**args, reason="too late", now=timezone.now())
    assert "job.given_up" in events(tenant, job_id)


def test_cut_connections_lose_nothing_and_repeat_nothing(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, acts=[f"a{n}" for n in range(150)])
    eventually(lambda: items(tenant, job_id))
    _cut_the_engines_sessions()
    found = settled(tenant, job_id, 150)
    assert {(state, attempts) for _, state, attempts in found} == {(ItemState.SUCCEEDED, 1)}
    with reading(tenant.pk):
        accepted = Attempt.objects.filter(item__job_id=job_id, item__stage__name="make", outcome="succeeded")
        assert accepted.count() == 150
        assert Checkpoint.objects.filter(item__job_id=job_id, item__stage__name="make").count() == 150


def _cut_the_engines_sessions() -> None:
    from django.db import connection

    with as_owner(connection):
        parameters = connection.get_connection_params()
    keep = {"dbname", "user", "password", "host", "port"}
    with psycopg.connect(**{k: v for k, v in parameters.items() if k in keep}, autocommit=True) as owner:
        cut = owner.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'counterfoil %'"
        ).fetchone()
    assert cut is not None
    assert cut[0] >= 2
    assert settings.COUNTERFOIL_SLOTS


def test_one_tenants_many_items_do_not_keep_anothers_one_waiting(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    other = make_tenant()
    other_submitter = make_person(other, Role.SUBMITTER)
    many = submit(tenant, submitter, acts=[f"a{n}" for n in range(2000)])
    eventually(lambda: len(items(tenant, many)) == 2000)
    one = submit(other, other_submitter, acts=["b"])
    eventually(lambda: items(other, one) == [("1", ItemState.SUCCEEDED, 1)], what="the other tenant's item")
    assert any(state is ItemState.READY for _, state, _ in items(tenant, many))
