"""Real clusters on the test's database, and jobs whose handlers misbehave."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from access.models import Membership, Person, Tenant
from access.roles import Role
from access.tenancy import acting, reading
from examples.demos.workers import Cluster
from reconciliation.models import Case
from tests import clusters
from tests.support import eventually, forget_workflows, make_tenant
from workflows.actions.submit import submit_job
from workflows.models import Attempt, Checkpoint, WorkItem
from workflows.states import ItemState

WORKFLOWS = ["tests.faults.handlers"]


class Start(NamedTuple):
    """One time that an item's handler began."""

    number: int
    attempt: int
    pid: int


@dataclass(frozen=True)
class ActingJob:
    """One job of the misbehaving workflow, as its rows and its handlers' own notes show it."""

    tenant: Tenant
    job_id: int
    folder: Path

    def go(self) -> None:
        """Let gated and hanging handlers end."""
        (self.folder / "go").touch()

    def notes(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def starts(self, number: int | None = None) -> list[Start]:
        found = [Start(*map(int, line.split()[:3])) for line in self.notes("starts")]
        return [s for s in found if number in (None, s.number)]

    def states(self) -> dict[int, ItemState]:
        with reading(self.tenant.pk):
            rows = WorkItem.objects.filter(job_id=self.job_id, stage__name="act")
            return {item.ordinal: item.state_name for item in rows}

    def said(self) -> dict[int, Any]:
        with reading(self.tenant.pk):
            rows = Checkpoint.objects.filter(item__job_id=self.job_id, item__stage__name="act")
            return {n: json.loads(o)["said"] for n, o in rows.values_list("item__ordinal", "output")}

    def outcomes(self, number: int | None = None) -> Counter[str]:
        """How the attempts ended; of one item, or of all."""
        with reading(self.tenant.pk):
            rows = Attempt.objects.filter(item__job_id=self.job_id, item__stage__name="act")
            if number is not None:
                rows = rows.filter(item__ordinal=number)
            return Counter(rows.values_list("outcome", flat=True))

    def errors(self, number: int) -> list[str]:
        """What its attempts told, in order."""
        with reading(self.tenant.pk):
            rows = Attempt.objects.filter(
                item__job_id=self.job_id, item__stage__name="act", item__ordinal=number
            )
            return [f"{c}: {m}" for c, m in rows.order_by("pk").values_list("error_class", "error_message")]

    def cases(self) -> list[Case]:
        """All that were opened about it."""
        with reading(self.tenant.pk):
            return list(Case.objects.filter(job_id=self.job_id).select_related("item").order_by("pk"))

    def settled(self, *wanted: ItemState, seconds: float = 40) -> None:
        """Wait until the items are in these states, in input order."""

        seen: list[ItemState] = []

        def look() -> bool:
            states = self.states()
            seen[:] = [states[n] for n in sorted(states)]
            return seen == list(wanted)

        try:
            eventually(look, seconds=seconds)
        except AssertionError as late:
            raise AssertionError(f"after {seconds} s: {[s.value for s in seen]} {self.outcomes()}") from late


@pytest.fixture(autouse=True)
def _own_workflows(settings: Any) -> Iterator[None]:
    settings.COUNTERFOIL_WORKFLOWS = WORKFLOWS
    forget_workflows()
    yield
    forget_workflows()


@pytest.fixture
def acting_job(transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., ActingJob]]:
    """Submits a job: `acting_job("fine", "gated")`, one item an act; `hasty` ones may take a second and a half."""
    tenant = make_tenant()
    person = Person.objects.create(username=f"sub.{tenant.slug}")
    with acting(tenant.pk):
        Membership.objects.create(tenant=tenant, person=person, role=Role.SUBMITTER)
    made: list[ActingJob] = []

    def submit(*acts: str, hasty: bool = False) -> ActingJob:
        folder = tmp_path / f"job-{len(made)}"
        folder.mkdir()
        submitted = submit_job(
            tenant_id=tenant.pk,
            workflow="test-hasty" if hasty else "test-patient",
            value={"folder": str(folder), "acts": list(acts)},
            submission_key=secrets.token_hex(8),
            person_id=person.pk,
            source="tests",
            now=timezone.now(),
        )
        made.append(ActingJob(tenant, submitted.job_id, folder))
        return made[-1]

    yield submit
    for job in made:
        job.go()


@pytest.fixture
def cluster(transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster and returns when its workers serve: `cluster(workers=1, slots=2, lease=30)`."""
    with clusters.starting(tmp_path) as start:

        def cluster(*, workers: int = 1, slots: int = 2, lease: float = 30, **environment: str) -> Cluster:
            return start(
                *WORKFLOWS, workers=workers, slots=slots, COUNTERFOIL_LEASE_SECONDS=lease, **environment
            )

        yield cluster
