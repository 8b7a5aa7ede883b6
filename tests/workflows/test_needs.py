"""Fan-outs that are enough with some of their items, and how their items are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.tenancy import reading
from tests.support import eventually
from tests.workflows import fan_outs
from workflows.actions.submit import submit_job
from workflows.authoring import BadDefinition, Needs
from workflows.engine import liveness
from workflows.engine.engine import Engine
from workflows.models import Attempt, Checkpoint, ItemInput, JournalEntry, Stage, WorkItem
from workflows.needs import checkpoints_digest
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("fan_outs_installed")]


@pytest.fixture(autouse=True)
def gate() -> Iterator[None]:
    fan_outs.GATE.clear()
    yield
    fan_outs.GATE.set()


def submit(tenant: Tenant, person: Person, workflow: str, *records: Any, key: str = "k") -> int:
    """A job over records; a plain text stands for an act."""
    given = [{"code": f"R{n}", "act": r} if isinstance(r, str) else r for n, r in enumerate(records, start=1)]
    return submit_job(
        tenant_id=tenant.pk,
        workflow=workflow,
        value={"records": given},
        submission_key=key,
        person_id=person.pk,
        source="test",
        now=timezone.now(),
    ).job_id


def states(tenant: Tenant, job_id: int, stage: str = "enrich") -> dict[str, ItemState]:
    with reading(tenant.pk):
        rows = WorkItem.objects.filter(job_id=job_id, stage__name=stage).order_by("ordinal")
        return {i.key: i.state_name for i in rows}


def closing(tenant: Tenant, job_id: int) -> dict[str, Any]:
    """The journal's line about the closed fan-out, once it is there."""

    def look() -> dict[str, Any] | None:
        with reading(tenant.pk):
            rows = JournalEntry.objects.filter(job_id=job_id, event="stage.closed").order_by("sequence")
            return json.loads(rows[0].evidence) if rows else None

    return eventually(look, what="the stage to close")


def summary(tenant: Tenant, job_id: int) -> list[str]:
    """What the step after the fan-out was given."""

    def look() -> dict[str, list[str]] | None:
        with reading(tenant.pk):
            found = Checkpoint.objects.filter(item__job_id=job_id, item__stage__name="summarise").first()
            return json.loads(found.output) if found else None

    return eventually(look, what="the summary")["codes"]


def test_a_share_is_enough_and_the_rest_is_listed(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    job_id = submit(tenant, submitter, "test-most", "ok", "refuse", "ok", "later", "ok")
    assert summary(tenant, job_id) == ["R1", "R3", "R5"]
    told = closing(tenant, job_id)
    assert (told["items"], told["failed"]) == (5, {"count": 2, "keys": ["2", "4"]})
    assert "late" not in told
    assert list(states(tenant, job_id, "check")) == ["1", "3", "5"]
    with reading(tenant.pk):
        assert not JournalEntry.objects.filter(job_id=job_id, event__in=["retry.exhausted", "item.refused"])
        assert not WorkItem.objects.filter(job_id=job_id, state=5, reported_at=None)
        stage = Stage.objects.get(job_id=job_id, name="enrich")
        assert (stage.total, stage.need, stage.digest) == (5, 3, checkpoints_digest(stage))


def test_a_share_that_can_no_longer_be_met_asks_for_a_person(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(tenant, submitter, "test-most", "ok", "refuse", "refuse", "refuse", "ok")

    def told() -> list[str]:
        with reading(tenant.pk):
            rows = JournalEntry.objects.filter(job_id=job_id, event="item.refused").order_by("sequence")
            return [json.loads(r.evidence)["key"] for r in rows]

    assert sorted(eventually(lambda: told() if len(told()) == 3 else None, what="3 reports")) == [
        "2",
        "3",
        "4",
    ]
    assert states(tenant, job_id, "summarise") == {}


def test_the_first_two_are_enough_and_the_late_one_is_recorded_and_not_used(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    job_id = submit(
        tenant, submitter, "test-first", "ok", "gate", "ok", {"code": "R4", "act": "later", "wait": 60}
    )
    assert summary(tenant, job_id) == ["R1", "R3"]
    assert closing(tenant, job_id)["late"] == {"count": 2, "keys": ["2", "4"]}
    assert states(tenant, job_id)["2"] is ItemState.SKIPPED
    fan_outs.GATE.set()

    def late() -> list[str]:
        with reading(tenant.pk):
            rows = Attempt.objects.filter(item__job_id=job_id, item__stage__name="enrich", item__key="2")
            return list(rows.values_list("outcome", flat=True))

    assert eventually(late, what="the late result") == ["stale"]
    assert states(tenant, job_id)["2"] is ItemState.SKIPPED
    with reading(tenant.pk):
        assert not Checkpoint.objects.filter(item__job_id=job_id, item__stage__name="enrich", item__key="2")


def test_a_fan_out_that_cannot_go_on_yet_keeps_nobody_behind_it_from_going_on(
    engine: Engine, tenant: Tenant, submitter: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "SWEPT_AT_ONCE", 1)
    monkeypatch.setattr(liveness, "SWEEP_SECONDS", 0.2)
    later = {"code": "R9", "act": "later", "wait": 60}
    stuck = submit(tenant, submitter, "test-soon", later)
    eventually(lambda: states(tenant, stuck) == {"1": ItemState.BACKING_OFF}, what="the first is open")
    job_id = submit(tenant, submitter, "test-soon", "ok", later, key="other")
    assert summary(tenant, job_id) == ["R1"]
    assert closing(tenant, job_id)["late"] == {"count": 1, "keys": ["2"]}
    assert states(tenant, stuck) == {"1": ItemState.BACKING_OFF}


def test_an_empty_fan_out_is_done_at_once(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    for workflow in ("test-all", "test-most"):
        job_id = submit(tenant, submitter, workflow)
        assert summary(tenant, job_id) == []


def test_items_are_named_by_their_key_all_the_way_down(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    given = [{"code": "Ä/1 x"}, {"code": 7}, {"code": "last"}]
    job_id = submit(tenant, submitter, "test-keyed", *given)
    assert summary(tenant, job_id) == ["Ä/1 x", "7", "last"]
    assert list(states(tenant, job_id)) == list(states(tenant, job_id, "check")) == ["Ä/1 x", "7", "last"]
    with reading(tenant.pk):
        values = ItemInput.objects.filter(item__job_id=job_id, item__stage__name="enrich").order_by(
            "item__ordinal"
        )
        assert [json.loads(v.value)["code"] for v in values] == ["Ä/1 x", 7, "last"]


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        (["a", "b", "a"], "Elements 1 and 3 of records both have the code 'a'"),
        ([1, "1"], "Elements 1 and 2 of records both have the code '1'"),
        (["a", ""], "Element 2 has no code"),
        (["a", "   "], "Element 2 has no code"),
        (["x" * 10_000], "The code of element 1 has 10,000 characters; a key has at most 200."),
        (["a\nb"], "holds a character that cannot be printed"),
    ],
)
def test_keys_that_cannot_tell_items_apart_stop_the_step_they_come_from(
    engine: Engine, tenant: Tenant, submitter: Person, codes: list[Any], told: str
) -> None:
    job_id = submit(tenant, submitter, "test-keyed", *({"code": c} for c in codes))

    def stopped() -> WorkItem | None:
        with reading(tenant.pk):
            return WorkItem.objects.filter(
                job_id=job_id, stage__name="read", state=ItemState.EXHAUSTED.number
            ).first()

    item = eventually(stopped, what="the step to stop")
    with reading(tenant.pk):
        messages = Attempt.objects.filter(item=item).values_list("error_message", flat=True)
        assert len(messages) == 2
        assert all(told in message for message in messages)
        assert not Stage.objects.filter(job_id=job_id, name="enrich").exists()
        assert not Checkpoint.objects.filter(item=item).exists()


@pytest.mark.parametrize("given", ["some", "-1%", True, 1.5, -1, "101%"])
def test_needs_that_mean_nothing_are_refused(given: Any) -> None:
    with pytest.raises(BadDefinition):
        Needs.read(given)


@pytest.mark.parametrize(
    ("given", "total", "need"),
    [("all", 5, None), (3, 5, 3), (9, 5, 5), ("80%", 100, 80), (0.8, 10, 8), ("33.3%", 10, 4), (0, 5, 0)],
)
def test_needs_are_counted_upwards(given: Any, total: int, need: int | None) -> None:
    assert Needs.read(given).of(total) == need
