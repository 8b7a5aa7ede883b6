"""A desk with two operators and an admin, jobs that are really sent to a socket, and their cases."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from django.utils import timezone

from access.models import Person
from access.roles import WORKER, Role
from access.tenancy import acting, reading
from dispatch.contracts import Contract, Timeouts
from dispatch.models import Operation
from reconciliation.actions.comparing import Receipt
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind, Evidence, ResolutionRequest
from reconciliation.papers import Paper, read_paper
from reconciliation.queries import CasePage, case_page
from reconciliation.verbs import Verb
from tests.approvals.world import World, draft, operation
from tests.dispatch.world import BODY, Dispatching
from tests.support import make_people
from workflows import journal
from workflows.locks import lock_job
from workflows.models import Job, JournalEntry, WorkItem

PATIENT = Timeouts(connect=5, read=5, write=5, send_window=60)
"""Long enough for a busy machine; `Desk.let_time_pass` brings the end of a send's time forward."""


@dataclass
class Desk:
    """Who works on cases, and what they look at."""

    sending: Dispatching
    anna: Person
    ben: Person
    admin: Person
    auditor: Person

    @classmethod
    def make(cls, url: str, contract: Contract) -> Desk:
        sending = Dispatching.make(url, contract)
        tenant = sending.world.tenant
        anna, ben, auditor = make_people(
            tenant,
            {
                f"anna.{tenant.slug}": [Role.OPERATOR],
                f"ben.{tenant.slug}": [Role.OPERATOR],
                f"audit.{tenant.slug}": [Role.AUDITOR],
            },
        )
        return cls(sending=sending, anna=anna, ben=ben, admin=sending.admin, auditor=auditor)

    @property
    def world(self) -> World:
        return self.sending.world

    @property
    def tenant_id(self) -> int:
        return self.sending.tenant_id

    def unknown(self, *records: str, **changes: Any) -> tuple[Job, Case]:
        """A job that was sent as far as it goes by itself, and the case that it left."""
        job = self.sending.ready(*records, **changes)
        self.run(job)
        return job, self.case(job)

    def freeze(self, job: Job) -> None:
        """Have a proposal of one operation frozen for a job."""
        self.world.freeze(job, draft(operations=[operation(action="update", body=BODY)]))

    def run(self, job: Job, *, steps: int = 12) -> None:
        """Call the machine for every operation that has a step of its own, until the job rests."""
        for _ in range(steps):
            waiting = [o for o in self.sending.operations(job) if o.next_step not in ("", "blocked")]
            if not waiting or self.sending.job_state(job) not in ("READY_TO_COMMIT", "SUBMITTED"):
                return
            for one in waiting:
                self.sending.step(one)

    def cases(self, job: Job, *, open_only: bool = False) -> list[Case]:
        with reading(self.tenant_id):
            rows = Case.objects.filter(job=job).select_related("resolved_by", "second_person", "assignee")
            return list((rows.filter(resolved_at__isnull=True) if open_only else rows).order_by("pk"))

    def case(self, job: Job, kind: CaseKind | None = None) -> Case:
        """The newest case of a job, of a kind if given."""
        return [c for c in self.cases(job) if kind is None or c.kind == kind][-1]

    def page(self, case: Case, person: Person | None = None) -> CasePage:
        with reading(self.tenant_id):
            return case_page(case.pk, (person or self.anna).pk, now=timezone.now())

    def verb(self, case: Case, name: VerbName, person: Person | None = None) -> Verb:
        return next(v for v in self.page(case, person).verbs if v.name is name)

    def once_allowed(self, case: Case, name: VerbName) -> Case:
        """Let the time of what was sent pass, so that a verb is allowed, and give the case as it is then."""
        self.let_time_pass(case.job_id)
        verb = self.verb(case, name)
        assert verb.allowed, verb.why_not
        return self.fresh(case)

    def let_time_pass(self, job_id: int) -> None:
        """Put what was sent for a job an hour back. Only the tables' owner can, with the trigger off."""
        with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
            owner.execute("ALTER TABLE dispatch_submission DISABLE TRIGGER kept")
            owner.execute(
                "UPDATE dispatch_submission SET opened_at = opened_at - interval '1 hour',"
                " send_deadline_at = send_deadline_at - interval '1 hour'"
                " WHERE operation_id IN (SELECT id FROM dispatch_operation WHERE job_id = %s)",
                [job_id],
            )
            owner.execute("ALTER TABLE dispatch_submission ENABLE TRIGGER kept")

    def fresh(self, case: Case) -> Case:
        with reading(self.tenant_id):
            return Case.objects.select_related("resolved_by", "second_person", "assignee").get(pk=case.pk)

    def evidence(self, case: Case) -> list[Evidence]:
        with reading(self.tenant_id):
            return list(Evidence.objects.filter(case=case).order_by("pk"))

    def requests(self, case: Case) -> list[ResolutionRequest]:
        with reading(self.tenant_id):
            return list(ResolutionRequest.objects.filter(case=case).order_by("pk"))

    def events(self, job: Job) -> list[str]:
        with reading(self.tenant_id):
            rows = JournalEntry.objects.filter(job=job).order_by("sequence")
            return list(rows.values_list("event", flat=True))

    def happens(self, job: Job, event: str, **evidence: Any) -> Case:
        """Something that another room journals about a job; the newest case after it."""
        with acting(self.tenant_id):
            journal.record(job=lock_job(job.pk), event=event, actor=WORKER, evidence=evidence)
        return self.case(job)

    def item(self, job: Job) -> WorkItem:
        with reading(self.tenant_id):
            return WorkItem.objects.select_related("stage").filter(job=job).order_by("pk")[0]

    def snapshot(self, job: Job) -> tuple[Any, ...]:
        """All that an action could change, apart from the journal."""
        with reading(self.tenant_id):
            return (
                Job.objects.values_list("state", "held_at").get(pk=job.pk),
                list(Operation.objects.filter(job=job).order_by("pk").values()),
                list(WorkItem.objects.filter(job=job).order_by("pk").values("state", "attempts_limit")),
                list(Case.objects.filter(job=job).order_by("pk").values()),
                list(Evidence.objects.filter(case__job=job).order_by("pk").values()),
                list(ResolutionRequest.objects.filter(case__job=job).order_by("pk").values()),
                len(self.sending.submissions(job)),
            )

    def act(self, action: Callable[..., Any], case: Case, person: Person | None = None, **more: Any) -> Any:
        """Call an action as a person does who looks at the case as it was given."""
        values = {"version": case.version, "now": timezone.now(), **more}
        return action(tenant_id=self.tenant_id, case_id=case.pk, person_id=(person or self.anna).pk, **values)

    def answer(self, action: Callable[..., Any], case: Case, person: Person, **more: Any) -> Any:
        """Second, decline or withdraw the latest request of a case, which somebody may have closed meanwhile."""
        request = self.requests(case)[-1]
        values = {"version": case.version, "now": timezone.now(), **more}
        return action(tenant_id=self.tenant_id, request_id=request.pk, person_id=person.pk, **values)


def receipt(**changes: Any) -> Receipt:
    """What the receipt of V-1 says."""
    values: dict[str, Any] = {
        "receipt_id": "R-77",
        "record": "V-1",
        "obtained_from": "j.lindahl at the ERP desk",
        "obtained_at": timezone.now(),
    }
    return Receipt(**{**values, **changes})


def a_letter(name: str = "letter.txt", content: bytes = b"We never received it.\n") -> Paper:
    """What the receiver has written, as somebody uploads it."""
    return read_paper(name, content)


def now() -> datetime:
    return timezone.now()
