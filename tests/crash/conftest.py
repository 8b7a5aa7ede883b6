"""Real clusters on the test's database, and one paced job to watch."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from access.models import Tenant
from access.roles import Role
from access.tenancy import reading
from examples.demos.workers import Cluster
from tests import clusters
from tests.support import eventually, forget_workflows, install, make_person, make_tenant
from workflows import verification
from workflows.actions.submit import submit_job
from workflows.models import Attempt, Checkpoint, WorkItem
from workflows.replaying import comparing, rows
from workflows.replaying.folding import fold
from workflows.states import ItemState


class Start(NamedTuple):
    """One time that an item's handler began. `at` is of the machine's monotonic clock."""

    number: int
    attempt: int
    pid: int
    at: float


@dataclass(frozen=True)
class PacedJob:
    """One job of the paced workflow, as its rows and its handlers' own notes show it."""

    tenant: Tenant
    job_id: int
    folder: Path

    def go(self) -> None:
        """Let the gated items end."""
        (self.folder / "go").touch()

    def starts(self, number: int | None = None) -> list[Start]:
        path = self.folder / "starts"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [Start(int(n), int(a), int(p), float(t)) for n, a, p, t in map(str.split, lines)]
        return [s for s in found if number in (None, s.number)]

    def saved(self, stage: str = "work") -> dict[int, tuple[int, str, str, Any]]:
        """The checkpoints of a stage by item, with all that is in their rows."""
        with reading(self.tenant.pk):
            rows = Checkpoint.objects.filter(item__job_id=self.job_id, item__stage__name=stage)
            columns = ("item__ordinal", "pk", "output", "digest", "created_at")
            return {n: tuple(rest) for n, *rest in rows.order_by("pk").values_list(*columns)}  # type: ignore[misc]

    def outcomes(self, number: int | None = None) -> Counter[str]:
        """How the attempts of the items ended."""
        with reading(self.tenant.pk):
            rows = Attempt.objects.filter(item__job_id=self.job_id, item__stage__name="work")
            if number is not None:
                rows = rows.filter(item__ordinal=number)
            return Counter(rows.values_list("outcome", flat=True))

    def items_in(self, state: ItemState) -> int:
        with reading(self.tenant.pk):
            return WorkItem.objects.filter(job_id=self.job_id, stage__name="work", state=state.number).count()

    def wait_until_counted(self, items: int, seconds: float = 30) -> None:
        """The step after the fan-out has run, over all of it, and the journal is whole."""
        counted = eventually(lambda: self.saved("count"), seconds=seconds, what="the step after the fan-out")
        assert [output for _, output, _, _ in counted.values()] == [f'{{"count":{items}}}']
        assert verification.verify_jobs(job_id=self.job_id).bad is None
        with rows.snapshot(self.tenant.pk):
            found = rows.rows_of(self.job_id)
            assert comparing.compare(found, fold(found)) == []


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any) -> Iterator[None]:
    install(settings, "tests.crash.paced")
    yield
    forget_workflows()


@pytest.fixture
def paced_job(transactional_db: None, tmp_path: Path) -> Callable[..., PacedJob]:
    """Submits a job: `paced_job(items=3, gated=[1], milliseconds=0)`; with a `name`, in a folder of its own."""
    tenant = make_tenant()
    person = make_person(tenant, Role.SUBMITTER)

    def submit(*, name: str = "", **value: Any) -> PacedJob:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        submitted = submit_job(
            tenant_id=tenant.pk,
            workflow="test-paced",
            value={"folder": str(folder), **value},
            submission_key=secrets.token_hex(8),
            person_id=person.pk,
            source="tests",
            now=timezone.now(),
        )
        return PacedJob(tenant, submitted.job_id, folder)

    return submit


@pytest.fixture
def cluster(transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster and returns when its workers serve: `cluster(workers=2, slots=2, lease=30, workflows="…")`."""
    with clusters.starting(tmp_path) as start:

        def cluster(
            *, workers: int = 2, slots: int = 2, lease: float = 30, workflows: str = "tests.crash.paced"
        ) -> Cluster:
            return start(workflows, workers=workers, slots=slots, COUNTERFOIL_LEASE_SECONDS=lease)

        yield cluster
