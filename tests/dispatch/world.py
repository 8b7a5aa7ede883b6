"""A tenant whose one receiver is at an address of the test's, and operations driven as the engine drives them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from django.utils import timezone

from access.models import Person
from access.roles import WORKER, Actor, ActorKind, Role
from access.tenancy import acting, reading
from approvals import canonical
from approvals.document import stamp
from dispatch import sending
from dispatch.actions.receivers import keep_contract
from dispatch.contracts import Action, Contract, KeyLocation, Lookup, Meaning, Signal, Timeouts
from dispatch.models import Observation, Operation, Receiver, Submission
from tests.approvals.world import World, draft, operation
from tests.support import make_person
from workflows.machines import Claim, Done, Wait
from workflows.models import Job, JournalEntry, Worker, WorkItem
from workflows.states import ItemState

BODY = {"limit": "4800.00"}
RECEIPT = {"id": "R-1", "record": "V-1", "fields": BODY}
QUICK = Timeouts(connect=1, read=0.4, write=1, send_window=20)


def a_contract(**changes: Any) -> Contract:
    """A contract with neither key nor lookup, unless `changes` say otherwise."""
    values: dict[str, Any] = {
        "title": "test",
        "actions": {
            "update": Action(
                method="PUT",
                path="/vendors/{record}",
                success={"200": Meaning.APPLIED, "201": Meaning.APPLIED, "202": Meaning.PENDING},
                record_path="record",
                echo_path="fields",
            )
        },
        "definite_not_applied_codes": frozenset({429}),
        "in_flight_max": 0,
        "timeouts": QUICK,
    }
    return Contract(**{**values, **changes})


def a_keyed_contract(**changes: Any) -> Contract:
    """The receiver deduplicates by header for a day; no lookup."""
    values: dict[str, Any] = {
        "key_location": KeyLocation.HEADER,
        "key_name": "Idempotency-Key",
        "deduplicates": True,
        "retention": 86_400,
        "mismatch_signals": (Signal(status=422, path="code", equals="key_reused"),),
        "in_progress_signals": (Signal(status=409, path="code", equals="key_in_progress"),),
        "automatic_resubmissions": 2,
    }
    return a_contract(**{**values, **changes})


def a_lookup_contract(*, proves_after: float | None = 0, **changes: Any) -> Contract:
    """An authoritative lookup by key, asked at once and twice."""
    values: dict[str, Any] = {
        "key_location": KeyLocation.HEADER,
        "key_name": "X-Key",
        "lookup": Lookup(
            path="/operations/{operation_key}",
            authoritative=True,
            schedule=(0, 0),
            absence_is_proof_after=proves_after,
        ),
        "automatic_resubmissions": 1 if proves_after is not None else 0,
    }
    return a_contract(**{**values, **changes})


@dataclass
class Dispatching:
    """What a test needs around one job that is ready to be sent."""

    world: World
    admin: Person
    worker: Worker

    @classmethod
    def make(cls, url: str, contract: Contract) -> Dispatching:
        world = World.make(waives_approval=True)
        admin = make_person(world.tenant, Role.ADMIN)
        made = cls(world, admin, make_worker())
        with acting(world.tenant.pk):
            receiver = Receiver.objects.get(name="erp")
            Receiver.objects.filter(pk=receiver.pk).update(base_url=url)
            keep_contract(
                receiver_id=receiver.pk,
                terms=contract.model_dump(mode="json"),
                source="test",
                actor=WORKER,
                now=timezone.now(),
            )
        return made

    @property
    def tenant_id(self) -> int:
        return self.world.tenant.pk

    def ready(
        self,
        *records: str,
        action: str = "update",
        at: datetime | None = None,
        recipient: str = "Fennmark Castings",
        **changes: Any,
    ) -> Job:
        """A job that is READY_TO_COMMIT with one operation for each record."""
        operations = [
            operation(**{"action": action, "record": r, "body": BODY, **changes})
            for r in (records or ("V-1",))
        ]
        job = self.world.job()
        self.world.freeze(job, draft(operations=operations, recipient=recipient), at)
        return job

    def operations(self, job: Job) -> list[Operation]:
        with reading(self.tenant_id):
            query = Operation.objects.filter(job=job).select_related(
                "receiver", "contract", "proposed__proposal"
            )
            return list(query.order_by("proposed__proposal_id", "ordinal"))

    def operation(self, job: Job) -> Operation:
        return self.operations(job)[-1]

    def submissions(self, job: Job) -> list[Submission]:
        with reading(self.tenant_id):
            return list(Submission.objects.filter(operation__job=job).order_by("operation_id", "number"))

    def observations(self, job: Job) -> list[Observation]:
        with reading(self.tenant_id):
            return list(Observation.objects.filter(operation__job=job).order_by("pk"))

    def job_state(self, job: Job) -> str:
        return self.fresh(job).state

    def events(self, job: Job) -> list[str]:
        with reading(self.tenant_id):
            rows = JournalEntry.objects.filter(job_id=job.pk).order_by("sequence")
            # Rooms above note their own beside it.
            return [e for e in rows.values_list("event", flat=True) if not e.startswith("case.")]

    @property
    def operator(self) -> Actor:
        return Actor(ActorKind.OPERATOR, self.world.operator.username, self.world.operator.pk)

    def fresh(self, job: Job) -> Job:
        """The job's row as it is now."""
        with reading(self.tenant_id):
            return Job.objects.get(pk=job.pk)

    def item(self, operation: Operation) -> WorkItem:
        with reading(self.tenant_id):
            return WorkItem.objects.select_related("stage").get(
                stage__name=sending.MACHINE, key=str(operation.pk)
            )

    def claim(self, operation: Operation, worker: Worker | None = None) -> Claim:
        """Claim the operation's item as the engine does, whatever its state."""
        worker = worker or self.worker
        item = self.item(operation)
        as_engine(
            "UPDATE workflows_workitem SET state = %s, claim_no = claim_no + 1, attempts = attempts + 1,"
            " worker_id = %s, started_at = now(), next_attempt_at = NULL WHERE id = %s",
            [ItemState.RUNNING.number, worker.pk, item.pk],
        )
        item = self.item(operation)
        return Claim(
            item_id=item.pk, tenant_id=self.tenant_id, job_id=item.job_id, stage_id=item.stage_id,
            stage_name=item.stage.name, kind=item.stage.kind, key=item.key, ordinal=item.ordinal,
            claim_no=item.claim_no, attempt=item.attempts, attempts_limit=item.attempts_limit, worker_id=worker.pk,
            worker_name=worker.name, lane_id=item.lane_id, ordinal_of_stage=item.stage.ordinal,
        )  # fmt: skip

    def step(self, operation: Operation, worker: Worker | None = None) -> Done | Wait:
        """One call of the machine, its time brought forward."""
        self.hurry(operation)
        return sending.run(self.claim(operation, worker))

    def run(self, job: Job, *, steps: int = 12) -> None:
        """Call the machine for every operation until none has a step left."""
        for _ in range(steps):
            waiting = [o for o in self.operations(job) if o.next_step not in ("", "blocked")]
            if not waiting or self.job_state(job) in ("CONFIRMED", "FAILED", "CANCELLED", "VALIDATED"):
                return
            before = len(self.events(job))
            for one in waiting:
                self.step(one)
            if before == len(self.events(job)):
                return

    def hurry(self, operation: Operation) -> None:
        """Bring the operation's next step forward to now; no test waits."""
        with acting(self.tenant_id):
            Operation.objects.filter(pk=operation.pk, next_step_at__isnull=False).update(
                next_step_at=timezone.now()
            )


def receipt(record: str) -> bytes:
    """What the receiver answers that has applied an update of the record."""
    return as_json({"id": f"R-{record}", "record": record, "fields": BODY})


def states(d: Dispatching, job: Job) -> tuple[str, list[str]]:
    """Of the job and of its operations, in their order."""
    return d.job_state(job), [o.state for o in d.operations(job)]


def make_worker(name: str = "worker-1") -> Worker:
    """A worker with a lease of a minute."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO workflows_worker (name, host, pid, slots, started_at, server_started_at, lease_until, ended_why)"
            " VALUES (%s, 'host', 1, 8, now(), now(), now() + interval '1 minute', '') RETURNING id",
            [name],
        ).fetchone()
    assert row is not None
    return Worker.objects.get(pk=row[0])


def end_worker(worker: Worker) -> None:
    """What whoever takes a dead worker over writes on its row."""
    as_engine("UPDATE workflows_worker SET ended_at = now(), ended_why = 'died' WHERE id = %s", [worker.pk])


def as_engine(statement: str, values: list[Any]) -> None:
    """One statement as the engine's role, committed."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("SET ROLE counterfoil_engine")
        connection.execute(statement, values)


def as_owner(table: str, change: str, values: list[Any]) -> None:
    """One UPDATE past the table's triggers, to bring about what only time or a fault would."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        connection.execute(f"UPDATE {table} SET {change}", values)
        connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def expire_approval(d: Dispatching, job: Job) -> None:
    """What passing time does: its document, and whatever was signed of it, name an expiry that is over."""
    proposal, now = d.world.proposal(job), timezone.now().replace(microsecond=0)
    frozen, expires = now - timedelta(hours=2), now - timedelta(seconds=1)
    value = json.loads(proposal.document)
    text = canonical.write({**value, "frozen_at": stamp(frozen), "expires_at": stamp(expires)})
    digest = canonical.sha256(text)
    as_owner(
        "approvals_proposal",
        "document = %s, digest = %s, frozen_at = %s, expires_at = %s WHERE id = %s",
        [text, digest, frozen, expires, proposal.pk],
    )
    as_owner("approvals_decision", "digest = %s WHERE proposal_id = %s", [digest, proposal.pk])
