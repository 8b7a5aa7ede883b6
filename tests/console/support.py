"""Jobs and what belongs to them, put in place without running anything; pages asked for as somebody."""

from __future__ import annotations

import hashlib
import json
import secrets
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.test import Client
from django.utils import timezone

from access.models import Person, Tenant
from access.owner import as_owner
from access.tenancy import acting
from approvals.models import Policy, Proposal, ProposedOperation
from approvals.policies import text_of
from approvals.ruleset import RuleSet
from dispatch.contracts import Contract
from dispatch.models import Operation, Receiver, ReceiverContract
from dispatch.presets import KEYED
from workflows.actions.submit import submit_job
from workflows.models import Job, Stage, StageKind, WorkItem
from workflows.states import ItemState

HOSTILE = '<img src=x onerror="alert(1)">'


def order(**changes: Any) -> dict[str, Any]:
    """A valid input of the test workflow."""
    return {
        "reference": f"PO-{secrets.token_hex(4)}",
        "title": "Twelve chairs",
        "quantity": 12,
        "amount": "1250.00",
        "currency": "EUR",
        "channel": "post",
        "lines": ["chair", "table"],
        "address": {"city": "Ghent"},
        **changes,
    }


def make_job(tenant: Tenant, person: Person, **changes: Any) -> int:
    """A job as the submit action makes it; the person must be a submitter."""
    made = submit_job(
        tenant_id=tenant.pk,
        workflow="test-orders",
        value=order(**changes),
        submission_key=secrets.token_hex(8),
        person_id=person.pk,
        source="console",
        now=timezone.now(),
    )
    return made.job_id


def move(tenant: Tenant, job_id: int, *states: str, actor: str = "worker", **evidence: Any) -> None:
    """Journal rows that move a job on, without the hooks of the rooms: only where it stands matters here."""
    with acting(tenant.pk):
        for state in states:
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO workflows_journalentry (tenant_id, job_id, sequence, event, from_state, to_state,"
                    " actor_kind, actor_id, actor_name, evidence)"
                    " SELECT tenant_id, id, version + 1, 'test.moved', state, %s, %s, 0, %s, %s"
                    " FROM workflows_job WHERE id = %s",
                    [state, actor, actor, json.dumps(evidence), job_id],
                )
            if state in ("CONFIRMED", "FAILED", "CANCELLED"):
                Job.objects.filter(pk=job_id).update(ended_at=timezone.now())


def make_fan(tenant: Tenant, job_id: int, states: list[ItemState]) -> list[int]:
    """A fan-out stage with one item in each of these states."""
    with acting(tenant.pk):
        lane = WorkItem.objects.filter(job=job_id).values_list("lane_id", flat=True)[0]
        stage = Stage.objects.create(
            tenant=tenant, job_id=job_id, name="check", ordinal=2, kind=StageKind.EACH, total=len(states),
            opened_at=timezone.now(),
        )  # fmt: skip
        made = []
        for number, state in enumerate(states, 1):
            item = WorkItem.objects.create(
                tenant=tenant, job_id=job_id, stage=stage, key=str(number), ordinal=number, lane_id=lane,
                state=state.number, attempts=1,
                next_attempt_at=timezone.now() + timedelta(minutes=5) if state is ItemState.BACKING_OFF else None,
            )  # fmt: skip
            made.append(item.pk)
        return made


def record_attempt(tenant: Tenant, item_id: int, **columns: Any) -> None:
    """One more attempt of an item, as the engine would have written it."""
    now = timezone.now()
    row = {
        "number": 1, "claim_no": 1, "worker_name": "w", "started_at": now, "ended_at": now, "outcome": "succeeded",
        "error_class": "", "error_message": "", "route": "", "tokens_in": 0, "tokens_out": 0, "cost": 0, **columns,
    }  # fmt: skip
    names = ", ".join(row)
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO workflows_attempt (tenant_id, item_id, {names}) VALUES (%s, %s{', %s' * len(row)})",
            [tenant.pk, item_id, *row.values()],
        )


def make_receiver(tenant: Tenant, title: str = "Astrel ERP", contract: Contract = KEYED.contract) -> Receiver:
    """A receiver with a contract."""
    with acting(tenant.pk):
        receiver = Receiver.objects.create(
            tenant=tenant, name=f"erp-{secrets.token_hex(3)}", title=title, base_url="http://127.0.0.1:1"
        )
        ReceiverContract.objects.create(
            tenant=tenant, receiver=receiver, version=1, terms=contract.model_dump(mode="json"),
            reviewed_at=timezone.now(),
        )  # fmt: skip
        return receiver


def make_proposal(
    tenant: Tenant, job_id: int, person: Person, title: str = "Order twelve chairs"
) -> Proposal:
    """An open proposal of a VALIDATED job, as it is before the job moves on."""
    now = timezone.now()
    with acting(tenant.pk):
        policy, _ = Policy.objects.get_or_create(
            tenant=tenant,
            name="orders",
            revision=1,
            defaults={"rules": text_of(RuleSet()), "created_at": now, "created_by": "test"},
        )
        return Proposal.objects.create(
            tenant=tenant, job_id=job_id, number=1, title=title, document="{}", digest=hashlib.sha256(b"{}").hexdigest(), policy=policy,
            quorum=1, amount=Decimal("1250.00"), currency="EUR", initiator=person, frozen_at=now,
            expires_at=now + timedelta(hours=2),
        )  # fmt: skip


def make_operation(
    tenant: Tenant, proposal: Proposal, receiver: Receiver, sent_at: datetime | None = None, ordinal: int = 1
) -> Operation:
    """A PREPARED operation of the proposal, on the record of its ordinal."""
    now = timezone.now()
    with acting(tenant.pk):
        key = f"k{secrets.token_hex(12)}"
        proposed = ProposedOperation.objects.create(
            tenant=tenant, proposal=proposal, ordinal=ordinal, operation_key=key, receiver=receiver.name,
            contract_version=1, record=f"V-{ordinal}", title=f"Update vendor V-{ordinal}", method="PUT",
            target="http://127.0.0.1:1/v",
            body=b"{}", body_digest=hashlib.sha256(b"{}").hexdigest(),
        )  # fmt: skip
        contract = ReceiverContract.objects.get(receiver=receiver)
        return Operation.objects.create(
            tenant=tenant, job_id=proposal.job_id, proposed=proposed, receiver=receiver, contract=contract,
            ordinal=ordinal, operation_key=key, record=f"V-{ordinal}", first_may_have_been_sent_at=sent_at,
            created_at=now,
        )  # fmt: skip


def as_person(person: Person) -> Client:
    """A browser in which the person is signed in; it checks CSRF as a real one is checked."""
    client = Client(headers={"host": "localhost"})
    client.force_login(person)
    return client
