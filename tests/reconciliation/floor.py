"""An organisation where much has stopped, and who does something about it in bulk."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from access.models import Person, Tenant, TenantEntry
from access.roles import Role
from access.tenancy import acting, reading
from reconciliation.actions.bulk import confirm_bulk, plan_bulk
from reconciliation.bulk import working
from reconciliation.bulk.selecting import Filters
from reconciliation.models import Bulk, BulkEntry
from tests.console.mending import letter
from tests.dispatch.world import as_engine
from tests.support import make_person, make_tenant
from workflows.actions.retry import fail_job
from workflows.models import Job, WorkItem
from workflows.states import ItemState


@dataclass
class Floor:
    """An organisation with an operator, an admin, and jobs of which items have stopped."""

    tenant: Tenant
    submitter: Person
    operator: Person
    admin: Person
    made: list[int] = field(default_factory=list)

    @classmethod
    def make(cls) -> Floor:
        tenant = make_tenant()
        return cls(
            tenant,
            make_person(tenant, Role.SUBMITTER),
            make_person(tenant, Role.OPERATOR, handle=f"ops.{tenant.slug}"),
            make_person(tenant, Role.ADMIN, handle=f"boss.{tenant.slug}"),
        )

    def stopped(self, *errors: str) -> tuple[int, list[WorkItem]]:
        """A job whose second step has an item that stopped with each of these errors, and one that is open."""
        job_id = letter(self.tenant, self.submitter, *(f"line {n}" for n, _ in enumerate(errors)), "open")
        with acting(self.tenant.pk):
            found = WorkItem.objects.filter(job=job_id, stage__name="read", ordinal__lte=len(errors))
            found.update(state=ItemState.REFUSED.number, attempts=1, finished_at=timezone.now())
            items = list(found.select_related("stage").order_by("ordinal"))
        as_engine(
            "INSERT INTO workflows_attempt (tenant_id, item_id, number, claim_no, worker_name, started_at, ended_at,"
            " outcome, error_class, error_message, route, tokens_in, tokens_out, cost)"
            " SELECT %s, t.item, 1, 1, 'w', now(), now(), CASE WHEN t.error LIKE '%% %%' THEN t.error ELSE 'permanent' END,"
            " CASE WHEN t.error LIKE '%% %%' THEN '' ELSE t.error END, '', '', 0, 0, 0"
            " FROM unnest(%s::bigint[], %s::text[]) AS t(item, error)",
            [self.tenant.pk, [i.pk for i in items], list(errors)],
        )
        self.made.append(job_id)
        return job_id, items

    def failed(self, *errors: str) -> int:
        job_id, _ = self.stopped(*(errors or ("ValueError",)))
        fail_job(
            tenant_id=self.tenant.pk,
            job_id=job_id,
            person_id=self.operator.pk,
            reason="enough",
            now=timezone.now(),
        )
        return job_id

    def plan(self, verb: str, person: Person | None = None, **filters: str) -> int:
        return plan_bulk(
            tenant_id=self.tenant.pk,
            person_id=(person or self.operator).pk,
            verb=verb,
            filters=Filters.read(filters),
            now=timezone.now(),
        ).bulk_id

    def confirm(self, bulk_id: int, person: Person | None = None, **given: Any) -> None:
        values = {"reason": "they are back", "attempts": 2, "now": timezone.now(), **given}
        confirm_bulk(
            tenant_id=self.tenant.pk, bulk_id=bulk_id, person_id=(person or self.operator).pk, **values
        )

    def work(self, bulk_id: int, worker: str = "w1") -> None:
        while working.turn(self.tenant.pk, bulk_id, worker):
            pass

    def done(self, verb: str, person: Person | None = None, **filters: str) -> int:
        bulk_id = self.plan(verb, person, **filters)
        self.confirm(bulk_id, person)
        self.work(bulk_id)
        return bulk_id

    def bulk(self, bulk_id: int) -> Bulk:
        with reading(self.tenant.pk):
            return Bulk.objects.get(pk=bulk_id)

    def entries(self, bulk_id: int) -> list[BulkEntry]:
        with reading(self.tenant.pk):
            return list(BulkEntry.objects.filter(bulk=bulk_id).order_by("pk"))

    def results(self, bulk_id: int) -> list[tuple[int, str]]:
        return [(e.item_id or e.job_id, e.state) for e in self.entries(bulk_id)]

    def item(self, item: WorkItem) -> WorkItem:
        with reading(self.tenant.pk):
            return WorkItem.objects.get(pk=item.pk)

    def state(self, job_id: int) -> str:
        with reading(self.tenant.pk):
            return Job.objects.values_list("state", flat=True).get(pk=job_id)

    def told(self, event: str) -> list[dict[str, Any]]:
        with reading(self.tenant.pk):
            rows = TenantEntry.objects.filter(event=event).order_by("sequence")
            return [json.loads(e) for e in rows.values_list("evidence", flat=True)]
