"""Releases: modules that processes are started with, and one job of a workflow to watch."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from examples.demos.workers import Cluster
from tests import clusters
from tests.revisions import notes
from tests.support import eventually, forget_workflows, install, make_person
from workflows import verification
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine
from workflows.models import Checkpoint, Job, JournalEntry, WorkItem
from workflows.replaying.comparing import compare
from workflows.replaying.folding import fold
from workflows.replaying.rows import rows_of, snapshot
from workflows.states import ItemState

RELEASE_1, RELEASE_2, RELEASE_3, BOTH = (
    "tests.revisions.letters_1",
    "tests.revisions.letters_2",
    "tests.revisions.letters_3",
    "tests.revisions.release_both",
)

Deploy = Callable[..., None]
StartCluster = Callable[..., Cluster]


@dataclass(frozen=True)
class LetterJob:
    """One job, as its rows and its handlers' own notes show it."""

    tenant: Tenant
    job_id: int
    folder: Path

    @property
    def now(self) -> Job:
        with reading(self.tenant.pk):
            return Job.objects.get(pk=self.job_id)

    def notes(self, *steps: str) -> list[notes.Note]:
        return [n for n in notes.read(self.folder) if n.step in steps or not steps]

    def go(self, name: str = "") -> None:
        """Open the gate, for all or for one."""
        (self.folder / f"go {name}".strip()).touch()

    def saved(self, stage: str) -> dict[str, str]:
        """The newest result of each of a stage's items, by key."""
        with reading(self.tenant.pk):
            rows = Checkpoint.objects.filter(item__job_id=self.job_id, item__stage__name=stage)
            return dict(rows.order_by("version").values_list("item__key", "output"))

    def items_in(self, state: ItemState, stage: str) -> int:
        with reading(self.tenant.pk):
            items = WorkItem.objects.filter(job_id=self.job_id, stage__name=stage, state=state.number)
            return items.count()

    def events(self) -> list[str]:
        with reading(self.tenant.pk):
            return list(
                JournalEntry.objects.filter(job_id=self.job_id)
                .order_by("sequence")
                .values_list("event", flat=True)
            )

    def wait_for(self, stage: str, count: int = 1) -> None:
        eventually(lambda: len(self.saved(stage)) >= count, seconds=40, what=f"{count} of {stage}")

    def wait_until_drafted(self) -> None:
        """Its last step is saved, its journal is whole, and all of it follows from that. (No policy lets it go on.)"""
        self.wait_for("propose")
        assert verification.verify_jobs(job_id=self.job_id).bad is None
        assert self.differences() == []

    def differences(self) -> list[str]:
        """Where its rows differ from what its journal and attempts say."""
        with snapshot(self.tenant.pk):
            rows = rows_of(self.job_id)
            return [str(d) for d in compare(rows, fold(rows))]


@pytest.fixture
def deploy(settings: Any) -> Iterator[Deploy]:
    """Loads a release in this process: `deploy(BOTH)`."""

    def load(*modules: str) -> None:
        install(settings, *modules)

    yield load
    forget_workflows()


@pytest.fixture
def operator(tenant: Tenant) -> Person:
    return make_person(tenant, Role.OPERATOR, handle="o.perator")


@pytest.fixture
def letter_job(tenant: Tenant, submitter: Person, tmp_path: Path) -> Callable[..., LetterJob]:
    """Submits a job of the revision that is current: `letter_job("Ada", "Bob?", language="en")`."""

    def submit(*names: str, **more: Any) -> LetterJob:
        folder = tmp_path / secrets.token_hex(4)
        folder.mkdir()
        made = submit_job(
            tenant_id=tenant.pk,
            workflow="test-letters",
            value={"folder": str(folder), "names": list(names), **more},
            submission_key=secrets.token_hex(8),
            person_id=submitter.pk,
            source="tests",
            now=timezone.now(),
        )
        return LetterJob(tenant, made.job_id, folder)

    return submit


@pytest.fixture
def engine(transactional_db: None) -> Iterator[Callable[[], Engine]]:
    """Starts an engine in this process, with what is loaded now; stopped and signed off at the end."""
    running: list[Engine] = []

    def start() -> Engine:
        made = Engine(slots=4, lease_seconds=20)
        made.start_threads()
        running.append(made)
        return made

    yield start
    for one in running:
        one.request_stop()
        one.join()


@pytest.fixture
def cluster(transactional_db: None, tmp_path: Path) -> Iterator[StartCluster]:
    """Starts a release's workers as processes and returns when they serve: `cluster(BOTH, workers=1, slots=2)`."""
    with clusters.starting(tmp_path) as start:

        def cluster(*modules: str, workers: int = 1, slots: int = 2, grace: float = 60) -> Cluster:
            return start(*modules, workers=workers, slots=slots, COUNTERFOIL_REVISION_GRACE_SECONDS=grace)

        yield cluster
