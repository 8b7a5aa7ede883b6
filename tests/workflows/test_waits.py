"""Steps that wait for a time, an event or an answer: what ends the wait, what never may, and what is told of it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.refusals import NotPermitted
from access.roles import Role
from access.tenancy import acting, reading
from tests.support import eventually, install, make_person, make_tenant
from workflows.actions.answer import AlreadyAnswered, NobodyWaits, NoSuchQuestion, answer_question
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job, release_job
from workflows.actions.receive_event import EventIdReused, Received, TooManyUnused, receive_event
from workflows.actions.retry import grant_attempts
from workflows.actions.submit import submit_job
from workflows.engine import sql, sweeps_sql
from workflows.engine.connections import connect
from workflows.engine.engine import Engine
from workflows.expectations import Misfit
from workflows.models import Attempt, Checkpoint, Expectation, ExternalEvent, JournalEntry, WorkItem
from workflows.states import ItemState
from workflows.submissions import InvalidSubmission

pytestmark = pytest.mark.django_db(transaction=True)
SHIPMENT = {"carrier": "Norvik", "parcels": 2}
ADDRESS = {"street": "High Street 1", "country": "BE"}


@pytest.fixture(autouse=True)
def installed(test_workflows: None, settings: Any) -> None:
    install(settings, "tests.workflows.waiting")


def submit(tenant: Tenant, person: Person, workflow: str = "test-shipping", **order: Any) -> int:
    key = f"{workflow}-{timezone.now().timestamp()}"
    return submit_job(
        tenant_id=tenant.pk, workflow=workflow, value=order, submission_key=key, person_id=person.pk, source="test",
        now=timezone.now(),
    ).job_id  # fmt: skip


def send(
    tenant: Tenant, event_id: str = "e-1", key: str = "shipment R-7", value: Any = SHIPMENT, **more: Any
) -> Received:
    told = {"source": "carrier", "now": timezone.now(), **more}
    return receive_event(tenant_id=tenant.pk, event_id=event_id, key=key, value=value, **told)


def answer(tenant: Tenant, person: Person, expectation: Expectation, **value: Any) -> Any:
    return answer_question(
        tenant_id=tenant.pk, expectation_id=expectation.pk, person_id=person.pk, value={**ADDRESS, **value},
        now=timezone.now(),
    )  # fmt: skip


def items(tenant: Tenant, job_id: int, stage: str) -> list[tuple[ItemState, int]]:
    """(state, attempts) of a stage's items in order."""
    with reading(tenant.pk):
        rows = WorkItem.objects.filter(job_id=job_id, stage__name=stage).order_by("ordinal")
        return [(i.state_name, i.attempts) for i in rows]


def output(tenant: Tenant, job_id: int, stage: str) -> Any:
    """What the single item of a stage gave, once it has."""

    def look() -> Any:
        with reading(tenant.pk):
            rows = Checkpoint.objects.filter(item__job_id=job_id, item__stage__name=stage)
            return rows.values_list("output", flat=True).first()

    return json.loads(eventually(look, what=f"the output of {stage}"))


def waits(tenant: Tenant, job_id: int) -> list[Expectation]:
    with reading(tenant.pk):
        return list(Expectation.objects.filter(job_id=job_id).order_by("pk"))


def waiting(tenant: Tenant, job_id: int, count: int = 1) -> list[Expectation]:
    """The waits of a job, once so many are journalled."""

    def look() -> list[Expectation]:
        found = [w for w in waits(tenant, job_id) if w.begun_at is not None]
        return found if len(found) == count else []

    return eventually(look, what=f"{count} waits")


def journal(tenant: Tenant, job_id: int, event: str) -> list[dict[str, Any]]:
    with reading(tenant.pk):
        rows = JournalEntry.objects.filter(job_id=job_id, event=event).order_by("sequence")
        return [{**json.loads(e.evidence), "by": e.actor_name, "kind_of": e.actor_kind} for e in rows]


def events(tenant: Tenant) -> list[tuple[str, str]]:
    with reading(tenant.pk):
        return list(ExternalEvent.objects.order_by("pk").values_list("event_id", "closed_how"))


def test_an_event_ends_the_wait_and_the_next_step_takes_its_value(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter)
    (wait,) = waiting(tenant, job_id)
    assert (wait.kind, wait.key, wait.due_at, wait.settled_at) == ("event", "shipment R-7", None, None)
    assert items(tenant, job_id, "shipped") == [(ItemState.WAITING, 0)]

    assert send(tenant) == Received(used=True)

    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}
    assert output(tenant, job_id, "shipped") == SHIPMENT
    (settled,) = waits(tenant, job_id)
    assert (settled.settled_how, settled.settled_by) == ("came", "carrier")
    assert events(tenant) == [("e-1", "used")]
    (began,) = journal(tenant, job_id, "wait.began")
    assert (began["kind"], began["waits"], began["due"]) == ("event", 1, "")
    (received,) = journal(tenant, job_id, "event.received")
    assert (received["by"], received["kind_of"], received["event_id"]) == ("carrier", "source", "e-1")
    assert "R-7" not in json.dumps([began, received])
    with reading(tenant.pk):
        tries = Attempt.objects.filter(item__job_id=job_id, item__stage__name="shipped")
        assert [(t.number, t.outcome) for t in tries] == [(1, "waiting")]


def test_an_event_that_came_before_anybody_waited_is_used_at_once(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    assert send(tenant) == Received(used=False)
    job_id = submit(tenant, submitter)
    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}
    assert events(tenant) == [("e-1", "used")]
    assert send(tenant) == Received(used=True, replayed=True)


def test_the_same_event_twice_counts_once_and_another_content_is_refused(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    assert send(tenant) == Received(used=True)
    assert send(tenant) == Received(used=True, replayed=True)
    with pytest.raises(EventIdReused):
        send(tenant, value={**SHIPMENT, "parcels": 3})
    with pytest.raises(EventIdReused):
        send(tenant, key="shipment R-8")
    assert send(tenant, source="other-carrier") == Received(used=False)
    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}
    assert len(journal(tenant, job_id, "event.received")) == 1


def test_a_value_of_the_wrong_shape_is_refused_by_field_and_the_wait_goes_on(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    with pytest.raises(Misfit) as refused:
        send(tenant, value={"carrier": "", "parcels": 0, "colour": "red"})
    assert [p.field for p in refused.value.problems] == ["carrier", "parcels", "colour"]
    with pytest.raises(InvalidSubmission):
        send(tenant, value={"carrier": "Norvik", "parcels": "2\0"})
    (wait,) = waits(tenant, job_id)
    assert (wait.settled_at, wait.misfits, wait.misfit[:8]) == (None, 1, "carrier:")
    assert [e["fields"] for e in journal(tenant, job_id, "event.misfit")] == [
        ["carrier", "parcels", "colour"]
    ]
    assert events(tenant) == []
    assert send(tenant) == Received(used=True)
    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}


def test_only_ten_misfits_of_a_wait_are_journalled(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    for number in range(13):
        with pytest.raises(Misfit):
            send(tenant, f"e-{number}", value={})
    (wait,) = waits(tenant, job_id)
    assert wait.misfits == 13
    assert len(journal(tenant, job_id, "event.misfit")) == 10


def test_an_early_event_of_the_wrong_shape_is_kept_for_people_and_the_next_one_counts(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    send(tenant, "e-1", value={"weight": 3})
    send(tenant, "e-2")
    job_id = submit(tenant, submitter)
    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}
    assert events(tenant) == [("e-1", "misfit"), ("e-2", "used")]


def test_an_event_of_another_source_does_not_count_where_one_is_named(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, source="carrier")
    waiting(tenant, job_id)
    assert send(tenant, source="stranger") == Received(used=False)
    assert items(tenant, job_id, "shipped") == [(ItemState.WAITING, 0)]
    assert send(tenant) == Received(used=True)


def test_an_event_of_another_tenant_does_not_count(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    assert send(make_tenant()) == Received(used=False)
    assert items(tenant, job_id, "shipped") == [(ItemState.WAITING, 0)]


def test_what_nobody_waits_for_is_kept_up_to_a_limit_and_never_at_the_cost_of_what_is(
    engine: Engine, tenant: Tenant, submitter: Person, settings: Any
) -> None:
    settings.COUNTERFOIL_UNUSED_EVENTS = 3
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    for number in range(3):
        send(tenant, f"rubbish-{number}", key=f"rubbish {number}")
    with pytest.raises(TooManyUnused):
        send(tenant, "rubbish-3", key="rubbish 3")
    assert send(tenant) == Received(used=True)
    assert len(events(tenant)) == 4


def test_a_step_that_knows_the_answer_does_not_wait(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, known=True)
    assert output(tenant, job_id, "label") == {"text": "1 by ours"}
    assert waits(tenant, job_id) == []


@pytest.mark.parametrize(
    ("workflow", "step", "order", "said"),
    [
        ("test-asking", "where", {"reference": "NUL"}, "a character that cannot be stored"),
        ("test-asking", "where", {"reference": "HALF"}, "a character that cannot be stored"),
        ("test-asking", "where", {"reference": "UNCHECKED"}, "The database refused to store what the step"),
        ("test-shipping", "shipped", {"source": "s" * 101}, "a source is named in 1 to 100"),
    ],
)
def test_a_wait_that_cannot_be_kept_stops_its_item_and_nothing_else(
    engine: Engine, tenant: Tenant, submitter: Person, workflow: str, step: str, order: dict[str, Any], said: str
) -> None:  # fmt: skip
    job_id = submit(tenant, submitter, workflow, **order)
    eventually(lambda: items(tenant, job_id, step) == [(ItemState.REFUSED, 1)], what="the item to be refused")
    with reading(tenant.pk):
        assert said in Attempt.objects.get(item__job_id=job_id, item__stage__name=step).error_message
    other = submit(tenant, submitter, "test-napping")
    eventually(lambda: items(tenant, other, "rise") == [(ItemState.SUCCEEDED, 1)], what="others go on")


def test_a_second_job_cannot_wait_for_the_same_key(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    first = submit(tenant, submitter)
    waiting(tenant, first)
    second = submit(tenant, submitter)
    eventually(lambda: items(tenant, second, "shipped") == [(ItemState.REFUSED, 1)])
    with reading(tenant.pk):
        told = Attempt.objects.get(item__job_id=second, item__stage__name="shipped").error_message
    assert told.startswith(f"JOB-{first} waits for the event “shipment R-7” already")
    assert waits(tenant, second) == []


def test_a_wait_that_nothing_ends_is_refused_and_asks_again_when_attempts_are_granted(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, within=0.3)
    eventually(lambda: items(tenant, job_id, "shipped") == [(ItemState.REFUSED, 1)])
    eventually(lambda: journal(tenant, job_id, "item.refused"))
    (wait,) = waits(tenant, job_id)
    assert (wait.settled_how, wait.settled_at >= wait.due_at) == ("expired", True)  # type: ignore[operator]
    assert send(tenant) == Received(used=False)

    with reading(tenant.pk):
        item = WorkItem.objects.get(job_id=job_id, stage__name="shipped")
    grant_attempts(
        tenant_id=tenant.pk, item_id=item.pk, person_id=operator.pk, attempts=1, reason="It came late.",
        now=timezone.now(),
    )  # fmt: skip
    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}
    assert [w.settled_how for w in waits(tenant, job_id)] == ["expired", "came"]


def test_a_step_sleeps_without_a_worker_and_wakes_by_the_database_clock(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, "test-napping", nap=1.0)
    (wait,) = waiting(tenant, job_id)
    assert wait.kind == "time"
    assert wait.due_at is not None
    assert items(tenant, job_id, "nap") == [(ItemState.WAITING, 0)]
    woken = output(tenant, job_id, "nap")
    assert datetime.fromisoformat(woken["at"]) == wait.due_at
    assert output(tenant, job_id, "rise")
    with reading(tenant.pk):
        tries = Attempt.objects.filter(item__job_id=job_id, item__stage__name="nap").order_by("claim_no")
        assert [(t.number, t.outcome) for t in tries] == [(1, "waiting"), (1, "succeeded")]
        assert tries[1].started_at >= wait.due_at
    assert [w.settled_how for w in waits(tenant, job_id)] == ["time"]


def test_an_operator_answers_and_the_job_goes_on(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "test-asking")
    (question,) = waiting(tenant, job_id)
    assert (question.question, question.role) == ("Where does R-7 go?", "operator")
    assert sorted(json.loads(question.schema)["properties"]) == ["country", "street"]

    answer(tenant, operator, question)

    assert output(tenant, job_id, "stick") == {"text": "High Street 1, BE"}
    (told,) = journal(tenant, job_id, "question.answered")
    assert (told["by"], told["kind_of"]) == (operator.username, "operator")


def test_a_second_answer_is_told_who_was_first_and_the_same_again_changes_nothing(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    other = make_person(tenant, Role.OPERATOR)
    job_id = submit(tenant, submitter, "test-asking")
    (question,) = waiting(tenant, job_id)
    answer(tenant, operator, question)
    assert answer(tenant, operator, question).repeated
    for person, street, told in (
        (other, "High Street 1", f"{operator.username} answered"),
        (operator, "Low Road 2", "You answered"),
    ):
        with pytest.raises(AlreadyAnswered, match=told) as refused:
            answer(tenant, person, question, street=street)
        assert refused.value.by == operator.username
    assert output(tenant, job_id, "stick") == {"text": "High Street 1, BE"}
    assert [r["by"] for r in journal(tenant, job_id, "answer.refused")] == [other.username, operator.username]


def test_only_the_role_that_is_asked_may_answer(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "test-asking", role="manager")
    (question,) = waiting(tenant, job_id)
    for person in (operator, submitter, make_person(make_tenant(), Role.MANAGER)):
        with pytest.raises(NotPermitted, match="Only a manager"):
            answer(tenant, person, question)
    with pytest.raises(NoSuchQuestion):
        answer(make_tenant(), operator, question)
    with pytest.raises(Misfit) as wrong:
        answer(tenant, make_person(tenant, Role.MANAGER), question, country="Belgium")
    assert [p.field for p in wrong.value.problems] == ["country"]
    assert items(tenant, job_id, "where") == [(ItemState.WAITING, 0)]


def test_a_question_that_is_too_old_cannot_be_answered(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "test-asking", within=0.2)
    eventually(lambda: items(tenant, job_id, "where") == [(ItemState.REFUSED, 1)])
    (question,) = waits(tenant, job_id)
    with pytest.raises(NobodyWaits):
        answer(tenant, operator, question)


def test_a_cancelled_job_waits_for_nothing_any_more(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    cancel_job(
        tenant_id=tenant.pk, job_id=job_id, person_id=submitter.pk, reason="Not needed.", now=timezone.now()
    )
    assert [w.settled_how for w in waits(tenant, job_id)] == ["cancelled"]
    assert send(tenant) == Received(used=False)
    assert items(tenant, job_id, "shipped") == [(ItemState.CANCELLED, 0)]


def test_a_held_jobs_event_counts_and_nothing_runs_until_the_release(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    told = {"tenant_id": tenant.pk, "job_id": job_id, "person_id": operator.pk, "now": timezone.now()}
    hold_job(**told, reason="Wait.")
    assert send(tenant) == Received(used=True)
    assert items(tenant, job_id, "label") == [(ItemState.READY, 0)]
    other = submit(tenant, submitter, known=True)
    output(tenant, other, "label")
    assert items(tenant, job_id, "label") == [(ItemState.READY, 0)]
    release_job(**told)
    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}


def test_a_fan_out_waits_for_each_and_drops_those_that_are_not_needed(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, "test-parcels", parcels=["a", "b", "c"])
    waiting(tenant, job_id, 3)
    send(tenant, "e-1", key="parcel c", value={"carrier": "C", "parcels": 1})
    send(tenant, "e-2", key="parcel a", value={"carrier": "A", "parcels": 1})
    send(tenant, "e-3", key="parcel b", value={"carrier": "B", "parcels": 1})
    assert output(tenant, job_id, "tally") == {"text": "A, B, C"}
    told = journal(tenant, job_id, "wait.began")
    assert sum(t["waits"] for t in told) == 3


def test_an_event_and_a_wait_that_missed_each_other_are_brought_together(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    """The event is saved by a transaction that looked before the wait's was committed: neither saw the other."""
    job_id = submit(tenant, submitter)
    waiting(tenant, job_id)
    with acting(tenant.pk):
        ExternalEvent.objects.create(
            tenant=tenant, source="carrier", event_id="e-1", key="shipment R-7", value=json.dumps(SHIPMENT),
            digest="0" * 64, received_at=timezone.now(),
        )  # fmt: skip
    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}
    assert events(tenant) == [("e-1", "used")]


def test_the_host_clock_decides_nothing(
    engine: Engine, tenant: Tenant, submitter: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The web server's clock is two days ahead; the wait ends in an hour by the database's."""
    job_id = submit(tenant, submitter, within=3600)
    waiting(tenant, job_id)
    assert send(tenant, now=datetime.now(UTC) + timedelta(days=2)) == Received(used=True)
    assert output(tenant, job_id, "label") == {"text": "2 by Norvik"}


def test_ten_thousand_waits_cost_no_claims(tenant: Tenant, submitter: Person) -> None:
    """What a claim and a look for due items read is the same with ten thousand waits as without."""
    job_id = submit(tenant, submitter)
    before = [blocks_read(statement) for statement in (sql.CLAIM, sweeps_sql.PROMOTE)]
    with acting(tenant.pk):
        (item,) = WorkItem.objects.filter(job_id=job_id)
        tomorrow = timezone.now() + timedelta(days=1)
        WorkItem.objects.bulk_create(
            WorkItem(
                tenant=tenant, job_id=job_id, stage_id=item.stage_id, key=f"w{n}", lane_id=item.lane_id,
                state=ItemState.WAITING.number, next_attempt_at=tomorrow if n % 2 else None,
            )
            for n in range(10_000)
        )  # fmt: skip
    after = [blocks_read(statement) for statement in (sql.CLAIM, sweeps_sql.PROMOTE)]
    assert all(more <= few + 150 for few, more in zip(before, after, strict=True)), (before, after)


def blocks_read(statement: str) -> int:
    """Pages that the engine's statement touches, rolled back."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        owner.execute("ANALYZE workflows_workitem")  # as autovacuum does after so many inserts
    with connect("test") as engine, engine.transaction(force_rollback=True):
        lease = "INSERT INTO workflows_worker (name, host, pid, slots, started_at, server_started_at, lease_until, ended_why)"
        made = engine.execute(
            f"{lease} VALUES ('w', 'h', 1, 4, now(), now(), now() + interval '1 h', '') RETURNING id"
        )
        (worker,) = made.fetchone() or (0,)
        values = {"cursor": 0, "lanes": 32, "free": 4, "worker": worker, "apart": []}
        row = engine.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", values).fetchone()
        assert row is not None
        plan = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
