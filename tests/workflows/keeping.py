"""One job of the workflow in `compensated.py`, its folder, and what its rows say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils import timezone

from access.models import Person, Tenant
from access.tenancy import acting, reading
from reconciliation.models import Case
from tests.dispatch.world import as_engine, make_worker
from tests.support import eventually
from workflows.actions.cancel import cancel_job
from workflows.actions.retry import fail_job
from workflows.compensation import plan
from workflows.compensation.plan import MACHINE, Standing
from workflows.machines import Claim
from workflows.models import Job, JournalEntry, WorkItem
from workflows.states import ItemState

IN_REVERSE = ["note", "part-3", "part-2", "part-1", "shelf"]
"""What a job of three parts made, the last first."""


@dataclass(frozen=True)
class Kept:
    """One job of the keeping workflow, and its folder."""

    tenant: Tenant
    submitter: Person
    operator: Person
    admin: Person
    job_id: int
    folder: Path

    @property
    def lines(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def took(self) -> list[str]:
        """What was taken away, in order."""
        return [line.removeprefix("took ") for line in self.lines if line.startswith("took ")]

    def asked(self, name: str) -> list[str]:
        """The request keys under which one thing was asked to be undone."""
        return [line.split()[-1] for line in self.lines if line.startswith(f"undo {name} ")]

    def stands(self) -> list[str]:
        names = ("shelf", "note", "part-")
        return sorted(p.name for p in self.folder.iterdir() if p.name.startswith(names))

    def tell(self, name: str) -> Path:
        """A file that tells a handler what to do."""
        path = self.folder / name
        path.touch()
        return path

    def job(self) -> Job:
        with reading(self.tenant.pk):
            return Job.objects.get(pk=self.job_id)

    def events(self) -> list[str]:
        with reading(self.tenant.pk):
            rows = JournalEntry.objects.filter(job_id=self.job_id).order_by("sequence")
            return [
                e for e in rows.values_list("event", flat=True) if e.split(".")[0] in ("step", "compensation")
            ]

    def evidence(self, event: str) -> list[dict[str, Any]]:
        with reading(self.tenant.pk):
            rows = JournalEntry.objects.filter(job_id=self.job_id, event=event).order_by("sequence")
            return [json.loads(text) for text in rows.values_list("evidence", flat=True)]

    def items(self, stage: str) -> list[ItemState]:
        with reading(self.tenant.pk):
            rows = WorkItem.objects.filter(job_id=self.job_id, stage__name=stage).order_by("ordinal")
            return [i.state_name for i in rows]

    def item_id(self, stage: str, number: int) -> int:
        with reading(self.tenant.pk):
            items = WorkItem.objects.filter(job_id=self.job_id, stage__name=stage, ordinal=number)
            return int(items.values_list("pk", flat=True).get())

    def standing(self) -> Standing | None:
        with reading(self.tenant.pk):
            return plan.standing_of(Job.objects.get(pk=self.job_id))

    def wait(self, standing: Standing) -> None:
        eventually(lambda: self.standing() is standing, what=f"{standing}, not {self.standing()}")

    def wait_until_stuck(self) -> None:
        eventually(lambda: self.items("last") == [ItemState.REFUSED], what="the last step stopped")

    def wait_until_took(self, name: str) -> None:
        eventually(lambda: name in self.took(), what=f"{name} taken away")

    def wait_for_case(self) -> None:
        def look() -> bool:
            with reading(self.tenant.pk):
                return Case.objects.filter(job_id=self.job_id, resolved_at__isnull=True).exists()

        eventually(look, what="an open case")

    def give_up(self) -> None:
        fail_job(
            tenant_id=self.tenant.pk, job_id=self.job_id, person_id=self.operator.pk, reason="No use.", now=timezone.now()
        )  # fmt: skip

    def cancel(self) -> None:
        cancel_job(
            tenant_id=self.tenant.pk, job_id=self.job_id, person_id=self.admin.pk, reason="No use.", now=timezone.now()
        )  # fmt: skip


Keep = Callable[..., Kept]


def a_claim(kept: Kept) -> Claim:
    """The machine's item claimed as the engine does, by no engine."""
    with acting(kept.tenant.pk):
        item = WorkItem.objects.select_related("stage").get(job_id=kept.job_id, stage__name=MACHINE)
    worker = make_worker("undoing")
    as_engine(
        "UPDATE workflows_workitem SET state = %s, claim_no = claim_no + 1, attempts = attempts + 1, worker_id = %s,"
        " started_at = now(), next_attempt_at = NULL WHERE id = %s",
        [ItemState.RUNNING.number, worker.pk, item.pk],
    )
    return Claim(
        item_id=item.pk, tenant_id=kept.tenant.pk, job_id=kept.job_id, stage_id=item.stage_id, stage_name=MACHINE,
        kind="machine", key=item.key, ordinal=0, ordinal_of_stage=1000, claim_no=item.claim_no + 1,
        attempt=item.attempts + 1, attempts_limit=10, worker_id=worker.pk, worker_name="undoing", lane_id=item.lane_id,
    )  # fmt: skip
