"""A job waits while every process of the installation is killed and started anew: nothing is lost or asked twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from access.models import Tenant
from access.roles import Role
from access.tenancy import reading
from examples.demos.workers import Cluster, live_workers
from tests.support import eventually, install, make_person
from workflows import verification
from workflows.actions.answer import answer_question
from workflows.actions.receive_event import receive_event
from workflows.actions.submit import submit_job
from workflows.models import Checkpoint, Expectation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
WORKFLOWS = "tests.workflows.waiting"


@pytest.fixture(autouse=True)
def installed(_own_workflow: None, settings: Any) -> None:
    install(settings, WORKFLOWS)


@pytest.fixture
def workers(transactional_db: None, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(
        environment={
            "DATABASE_URL": os.environ["DATABASE_URL"],
            "COUNTERFOIL_WORKFLOWS": WORKFLOWS,
            "COUNTERFOIL_WORKERS": "1",
            "COUNTERFOIL_SLOTS": "2",
            "COUNTERFOIL_TEST_CALLS": str(tmp_path / "calls"),
        },
        log=tmp_path / "workers.log",
    )
    start(made)
    yield made
    made.kill()


def start(workers: Cluster) -> None:
    workers.start()
    eventually(lambda: len(live_workers()) >= 1, seconds=30, what="a worker")


def submit(tenant: Tenant, workflow: str, **order: Any) -> int:
    return submit_job(
        tenant_id=tenant.pk, workflow=workflow, value=order, submission_key=f"{workflow} {order}",
        person_id=make_person(tenant, Role.SUBMITTER).pk, source="test", now=timezone.now(),
    ).job_id  # fmt: skip


def waiting(tenant: Tenant, job_id: int) -> Expectation:
    def look() -> Expectation | None:
        with reading(tenant.pk):
            return Expectation.objects.filter(job_id=job_id, begun_at__isnull=False).first()

    return eventually(look, seconds=30, what="a wait")  # type: ignore[return-value]


def output(tenant: Tenant, job_id: int, stage: str) -> Any:
    def look() -> str | None:
        with reading(tenant.pk):
            rows = Checkpoint.objects.filter(item__job_id=job_id, item__stage__name=stage)
            return rows.values_list("output", flat=True).first()

    return json.loads(eventually(look, seconds=30, what=f"the output of {stage}"))


def test_waits_outlive_the_death_of_every_process(tenant: Tenant, workers: Cluster, tmp_path: Path) -> None:
    """An event, a question and a sleep: killed while all wait, ended while nothing runs, gone on with afterwards."""
    operator = make_person(tenant, Role.OPERATOR)
    shipping = submit(tenant, "test-shipping")
    asking = submit(tenant, "test-asking")
    napping = submit(tenant, "test-napping", nap=1.0)
    question = waiting(tenant, asking)
    for job_id in (shipping, napping):
        waiting(tenant, job_id)
    workers.kill()

    early = {"carrier": "Early", "parcels": 1}
    now = timezone.now()
    told: dict[str, Any] = {"tenant_id": tenant.pk, "source": "carrier", "now": now}
    receive_event(event_id="e-1", key="shipment R-7", value={"carrier": "Norvik", "parcels": 2}, **told)
    receive_event(event_id="e-2", key="shipment R-9", value=early, **told)
    answer_question(
        tenant_id=tenant.pk, expectation_id=question.pk, person_id=operator.pk,
        value={"street": "High Street 1", "country": "BE"}, now=now,
    )  # fmt: skip
    waits_early = submit(tenant, "test-shipping", reference="R-9")

    start(workers)
    assert output(tenant, shipping, "label") == {"text": "2 by Norvik"}
    assert output(tenant, asking, "stick") == {"text": "High Street 1, BE"}
    assert output(tenant, napping, "rise")["text"]
    assert output(tenant, waits_early, "label") == {"text": "1 by Early"}
    calls = (tmp_path / "calls").read_text().split("\n")
    assert sorted(c.split()[:2] for c in calls if c) == sorted(
        [
            ["shipped", str(shipping)],
            ["label", str(shipping)],
            ["nap", str(napping)],
            ["shipped", str(waits_early)],
            ["label", str(waits_early)],
        ]
    )
    assert verification.verify_jobs().bad is None
