"""A tenant with people, a policy, a receiver of its own, and jobs driven to VALIDATED by their journal alone."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from access.models import Membership, Person, Tenant
from access.roles import WORKER, Actor, ActorKind, Role
from access.tenancy import acting, reading
from approvals import rendering
from approvals.actions.asked import DecisionResult
from approvals.actions.decide import record_decision
from approvals.freezing import freeze
from approvals.models import Policy, Proposal
from approvals.policies import read_rules, write_policy
from dispatch.models import Receiver, ReceiverContract
from tests.support import make_people, make_tenant
from tests.support import make_person as make_person
from tests.workflows_for_tests import Order, orders, propose
from workflows import journal, stages
from workflows.authoring import OperationDraft, Workflow
from workflows.locks import lock_job
from workflows.models import Checkpoint, Job, JournalEntry, Stage, WorkItem
from workflows.states import ItemState, JobState

OWN_EVENTS = ("job", "proposal", "approval", "approver", "decision", "changes", "withdrawal", "reminder")


def draft(**changes: Any) -> dict[str, Any]:
    """A ProposalDraft as JSON has it."""
    value: dict[str, Any] = {
        "title": "Update vendor record V-1",
        "summary": "The limit rises.",
        "model_text": "I recommend it.",
        "model_route": "large",
        "amount": "4800.0",
        "currency": "EUR",
        "amount_label": "New credit limit",
        "recipient": "Fennmark Castings",
        "sources": [{"name": "Credit report", "version": "3"}],
        "operations": [operation()],
    }
    return {**value, **changes}


def operation(**changes: Any) -> dict[str, Any]:
    """An OperationDraft as JSON has it."""
    value: dict[str, Any] = {
        "receiver": "erp",
        "action": "vendors.update",
        "record": "V-1",
        "title": "Update V-1",
        "changes": [{"field": "limit", "label": "Limit", "current": "20000.00", "proposed": "4800.00"}],
        "body": {"limit": "4800.00", "payee": {"iban": "NO93"}, "items": [{"note": "a"}]},
    }
    return {**value, **changes}


def render(one: OperationDraft, key: str | None, now: datetime) -> rendering.FrozenRequest:
    """A receiver "erp" that takes JSON; every other name is unknown."""
    if one.receiver != "erp":
        raise rendering.CannotRender(f'There is no receiver "{one.receiver}" here.')
    key = key or rendering.new_operation_key()
    return rendering.FrozenRequest(
        operation_key=key,
        receiver="erp",
        contract_version=1,
        account="main",
        record=one.record,
        title=one.title,
        method="POST",
        target=f"http://erp.test/vendors/{one.record}",
        headers={"content-type": "application/json", "idempotency-key": key},
        body=json.dumps(one.body, sort_keys=True).encode(),
    )


@dataclass
class World:
    tenant: Tenant
    submitter: Person
    manager: Person
    second: Person
    operator: Person

    @classmethod
    def make(cls, **rules: Any) -> World:
        tenant = make_tenant()
        submitter, manager, second, operator = make_people(
            tenant,
            {
                f"sub.{tenant.slug}": [Role.SUBMITTER],
                f"mia.{tenant.slug}": [Role.MANAGER],
                f"max.{tenant.slug}": [Role.MANAGER],
                f"ops.{tenant.slug}": [Role.OPERATOR],
            },
        )
        world = cls(tenant=tenant, submitter=submitter, manager=manager, second=second, operator=operator)
        world.policy(**rules)
        with acting(tenant.pk):
            receiver = Receiver.objects.create(
                tenant=tenant, name="erp", title="ERP", base_url="http://erp.test"
            )
            ReceiverContract.objects.create(
                tenant=tenant, receiver=receiver, version=1, terms={}, reviewed_at=timezone.now()
            )
        return world

    def policy(self, **rules: Any) -> Policy:
        return write_policy(
            tenant_id=self.tenant.pk,
            name="test-policy",
            rules=read_rules(rules),
            created_by=WORKER,
            now=timezone.now(),
        )

    def job(
        self, by: Person | None = None, *, workflow: Workflow = orders, text: str = "", **columns: Any
    ) -> Job:
        """A VALIDATED job, as the engine leaves it just before its propose stage closes."""
        by = by or self.submitter
        actor = Actor(ActorKind.SUBMITTER, by.username, by.pk)
        text = text or Order(item="V-1", amount="4800.00", currency="EUR").model_dump_json()
        with acting(self.tenant.pk):
            job = Job.objects.create(
                tenant=self.tenant,
                workflow=workflow.name,
                revision=workflow.revision,
                configuration_digest=workflow.configuration_digest(),
                **{"title": "Order V-1", **columns},
                submission_key=secrets.token_hex(8),
                input=text,
                input_digest=hashlib.sha256(text.encode()).hexdigest(),
                submitted_by=by,
                created_at=timezone.now(),
            )
            journal.transition(job=job, to=JobState.RECEIVED, event="job.received", actor=actor, evidence={})
            stages.lane_of(self.tenant.pk)
            journal.transition(
                job=job, to=JobState.VALIDATED, event="job.validated", actor=WORKER, evidence={}
            )
        return job

    def freeze(
        self, job: Job, value: dict[str, Any] | str | None = None, now: datetime | None = None
    ) -> None:
        """What the engine does when the propose stage closes: saves the draft and has it frozen."""
        text = value if isinstance(value, str) else json.dumps(draft() if value is None else value)
        now = now or timezone.now()
        with acting(self.tenant.pk):
            locked = lock_job(job.pk)
            stage = stages.open_step(job=locked, step=propose, now=now)
            item, digest = WorkItem.objects.get(stage=stage), hashlib.sha256(text.encode()).hexdigest()
            Checkpoint.objects.create(
                tenant=self.tenant, item=item, output=text, digest=digest, created_at=now
            )
            WorkItem.objects.filter(pk=item.pk).update(state=ItemState.SUCCEEDED.number, finished_at=now)
            Stage.objects.filter(pk=stage.pk).update(closed_at=now, digest=digest)
            freeze(locked, text, now)

    def proposed(
        self, value: dict[str, Any] | None = None, *, by: Person | None = None, now: datetime | None = None
    ) -> Proposal:
        """A job whose proposal awaits approval, about a record of its own: two of the same would be twins."""
        job = self.job(by)
        with reading(self.tenant.pk):
            number = Proposal.objects.count() + 1
        asked = draft() if value is None else value
        own = [{**o, "record": f"V-{number}"} if o["record"] == "V-1" else o for o in asked["operations"]]
        self.freeze(job, {**asked, "operations": own}, now)
        return self.proposal(job)

    def proposal(self, of: Job | Proposal) -> Proposal:
        """A job's newest proposal, or a proposal itself, read again."""
        with reading(self.tenant.pk):
            query = Proposal.objects.select_related("policy")
            if isinstance(of, Job):
                return query.filter(job=of).latest("number")
            return query.get(pk=of.pk)

    def state(self, of: Job | Proposal) -> str:
        with reading(self.tenant.pk):
            return Job.objects.get(pk=of.pk if isinstance(of, Job) else of.job_id).state

    def events(self, of: Job | Proposal) -> list[str]:
        """What is journalled of this room and the job itself; rooms above note their own beside it."""
        with reading(self.tenant.pk):
            rows = JournalEntry.objects.filter(job_id=of.pk if isinstance(of, Job) else of.job_id)
            events = rows.order_by("sequence").values_list("event", flat=True)
            return [e for e in events if e.split(".")[0] in OWN_EVENTS]

    def evidence(self, of: Job | Proposal, event: str) -> dict[str, Any]:
        with reading(self.tenant.pk):
            rows = JournalEntry.objects.filter(
                job_id=of.pk if isinstance(of, Job) else of.job_id, event=event
            )
            value: dict[str, Any] = json.loads(rows.latest("sequence").evidence)
            return value

    def decide(
        self, proposal: Proposal, person: Person, verdict: str = "approve", **more: Any
    ) -> DecisionResult:
        more = {"digest": proposal.digest, "now": timezone.now(), "reason": "because", **more}
        return record_decision(
            tenant_id=self.tenant.pk, proposal_id=proposal.pk, person_id=person.pk, verdict=verdict, **more
        )

    def end_role(self, person: Person) -> None:
        with acting(self.tenant.pk):
            Membership.objects.filter(person=person, ended_at=None).update(ended_at=timezone.now())


def long_ago() -> datetime:
    """A moment at which a proposal must have been frozen to have expired by now."""
    return timezone.now() - timedelta(days=2)
