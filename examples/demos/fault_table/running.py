"""Running the table: an installation of its own, one job for each fault and kind, and what became of each."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.urls import reverse
from django.utils import timezone

from access import signatures
from access.models import Membership, Person, Tenant
from access.roles import WORKER, Role
from access.tenancy import acting, reading
from approvals.policies import write_policy
from approvals.ruleset import RuleSet
from config.var import var_file
from dispatch.actions.receivers import write_contract, write_receiver
from dispatch.models import Observation, Operation, Receiver, Submission
from dispatch.states import NextStep
from examples.demos.fault_table import workflow
from examples.demos.fault_table.faults import Fault
from examples.demos.fault_table.gate import Gate
from examples.demos.fault_table.kinds import Kind
from examples.demos.fault_table.rows import Row, row_of
from examples.demos.installation import HERE, NotSeen, own_database, with_settings
from examples.demos.telling import Teller
from examples.demos.web import web_server
from examples.demos.workers import Cluster, live_workers
from examples.management.sample import SIGNED_BY
from examples.simulators.client import ErpControl, start_erp
from workflows import registry
from workflows.actions.submit import submit_job
from workflows.states import ENDED, JobState

WORKERS, SLOTS, LEASE_SECONDS = 2, 24, 5
LONGEST_WAIT, WATCH_SECONDS = 150.0, 3.0


@dataclass(frozen=True)
class _Case:
    fault: Fault
    kind: Kind
    record: str
    job_id: int


def run(teller: Teller, faults: Sequence[Fault], kinds: Sequence[Kind]) -> list[Row]:
    """The rows of an installation that lives as long as this takes. Raises NotSeen where a job does not come to rest."""
    name = f"counterfoil_faults_{secrets.token_hex(4)}"
    folder = var_file("demos", name, "erp.sqlite3").parent
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        url = stack.enter_context(own_database(name, keep=False))
        teller.step(f"Database {name} made")
        stand = stack.enter_context(stand_on(url, folder, teller))
        cases = stand.play(faults, kinds)
        stand.watch()
        return [stand.row(case) for case in cases]


class Stand:
    """An installation, the ERP, and the gates before it."""

    def __init__(
        self, teller: Teller, erp: ErpControl, cluster: Cluster, gate: Gate, late: Gate, web: str
    ) -> None:
        self.teller, self.erp, self.cluster, self.gate, self.late, self.web = (
            teller, erp, cluster, gate, late, web,
        )  # fmt: skip
        tenant = Tenant.objects.create(slug=workflow.NAME, name="Fault table")
        person = Person.objects.create(username=workflow.NAME)
        self._tenant_id, self._person_id = tenant.pk, person.pk
        self._receivers: set[str] = set()
        with acting(tenant.pk):
            for role in (Role.SUBMITTER, Role.ADMIN):
                Membership.objects.create(tenant=tenant, person=person, role=role)
        write_policy(
            tenant_id=tenant.pk, name=workflow.POLICY, rules=RuleSet(waives_approval=True), created_by=WORKER,
            now=timezone.now(),
        )  # fmt: skip

    def play(self, faults: Sequence[Fault], kinds: Sequence[Kind]) -> list[_Case]:
        """One job for each fault by each kind, each at rest in the end."""
        cases = [self._submit(fault, kind) for kind in kinds for fault in faults if not fault.killed]
        self._start()
        self._wait_for(lambda: self._not_sent_to_late(cases), "a first try where nobody listens")
        self.late.open()
        self._rest(cases)
        killed = [self._submit(fault, kind) for kind in kinds for fault in faults if fault.killed]
        if killed:
            self._wait_for(lambda: self._hold(killed), "the requests whose senders are killed")
            self.cluster.kill()
            self.teller.step("Every worker was killed while answers were awaited")
            self._start()
            self._rest(killed)
        return sorted([*cases, *killed], key=lambda c: (kinds.index(c.kind), faults.index(c.fault)))

    def watch(self) -> None:
        """Whoever would send once more by mistake gets the occasion: all workers are killed and started again."""
        before = self.gate.writes.total() + self.late.writes.total()
        self.cluster.kill()
        self._start()
        time.sleep(WATCH_SECONDS)
        more = self.gate.writes.total() + self.late.writes.total() - before
        if more:
            raise NotSeen(f"After the restart {more} more requests were sent.")
        self.teller.step("Every worker was killed and started again: nothing more was sent")

    def row(self, case: _Case) -> Row:
        operation, sends = self._seen(case)
        assert operation is not None, "it has come to rest"
        with reading(self._tenant_id):
            lookups = Observation.objects.filter(operation=operation, kind="lookup").count()
        requests = (self.late if case.fault.late else self.gate).writes[case.record]
        effects = len(self.erp.effects(record=case.record))
        return row_of(
            case.fault,
            case.kind,
            operation.job.state,
            sends,
            lookups=lookups,
            effects=effects,
            requests=requests,
        )

    def _submit(self, fault: Fault, kind: Kind) -> _Case:
        """A job whose one write meets the fault."""
        record = f"F-{secrets.token_hex(4)}"
        (self.late if fault.late else self.gate).expect(record, fault.strikes)
        job = submit_job(
            tenant_id=self._tenant_id, workflow=workflow.NAME, submission_key=record, person_id=self._person_id,
            value={"receiver": self._receiver(fault, kind), "record": record}, source="faulttable", now=timezone.now(),
        )  # fmt: skip
        return _Case(fault, kind, record, job.job_id)

    def _receiver(self, fault: Fault, kind: Kind) -> str:
        name = f"{kind.name}{'-late' * fault.late}{'-patient' * fault.killed}{f'-{fault.name}' * fault.apart}"
        if name not in self._receivers:
            who: dict[str, Any] = {
                "tenant_id": self._tenant_id,
                "person_id": self._person_id,
                "now": timezone.now(),
            }
            url = (self.late if fault.late else self.gate).url
            made = write_receiver(name=name, title=name, base_url=url, **who)
            with reading(self._tenant_id):
                public_id = Receiver.objects.get(pk=made.receiver_id).public_id
            address = f"{self.web}{reverse('api:callback', args=[public_id])}"
            terms = kind.terms(patient=fault.killed, callback_url=address)
            write_contract(receiver_id=made.receiver_id, terms=terms, source=workflow.NAME, **who)
            self._receivers.add(name)
        return name

    def _start(self) -> None:
        newest = max((w.pk for w in live_workers()), default=0)
        self.cluster.start()
        self._wait_for(lambda: sum(w.pk > newest for w in live_workers()) >= WORKERS, "workers")

    def _seen(self, case: _Case) -> tuple[Operation | None, list[Submission]]:
        """The case's one operation once there is one, and its sends."""
        with reading(self._tenant_id):
            operation = Operation.objects.filter(job_id=case.job_id).select_related("job").first()
            sends = Submission.objects.filter(operation__job_id=case.job_id).order_by("number")
            return operation, list(sends)

    def _not_sent_to_late(self, cases: Sequence[_Case]) -> bool:
        """Whether each that meets a port where nobody listens has tried once."""
        return all(any(s.closed_at for s in self._seen(c)[1]) for c in cases if c.fault.late)

    def _hold(self, cases: Sequence[_Case]) -> bool:
        """Whether each request whose sender is to be killed has arrived, and was done where it is to be done."""
        return all(
            self.gate.writes[c.record]
            and (not c.fault.strikes[0].applied or self.erp.effects(record=c.record))
            for c in cases
        )

    def _rest(self, cases: Sequence[_Case]) -> None:
        """Wait until nothing more comes of any of them by itself."""
        moving = list(cases)

        def look() -> bool:
            moving[:] = [c for c in moving if not self._rests(c)]
            self.teller.progress(f"{len(cases) - len(moving)} of {len(cases)} have come to rest")
            return not moving

        self._wait_for(
            look, "every job to rest", lambda: ", ".join(f"{c.kind.name} {c.fault.name}" for c in moving)
        )
        self.teller.step(f"{len(cases)} jobs have come to rest")

    def _rests(self, case: _Case) -> bool:
        operation, sends = self._seen(case)
        if operation is None:
            return False
        if operation.job.state in ENDED or operation.next_step == NextStep.BLOCKED:
            return True
        under_way = any(s.closed_at is None for s in sends)
        waits = under_way or operation.next_step or operation.next_step_at
        return operation.job.state == JobState.NEEDS_RECONCILIATION and not waits

    def _wait_for(self, look: Callable[[], bool], what: str, left: Callable[[], str] = str) -> None:
        """Raises NotSeen."""
        deadline = time.monotonic() + LONGEST_WAIT
        while not look():
            if time.monotonic() > deadline:
                raise NotSeen(f"Not seen within {LONGEST_WAIT:g} s: {what}. {left()}")
            time.sleep(0.2)


@contextmanager
def stand_on(url: str, folder: Path, teller: Teller) -> Iterator[Stand]:
    """The ERP behind its gates, and workers to be started, on a database that this process uses already."""
    with ExitStack() as stack:
        erp = stack.enter_context(start_erp(database=folder / "erp.sqlite3"))
        gates = Gate(erp.port), Gate(erp.port)
        for gate in gates:
            stack.callback(gate.close)
        gates[0].open()
        stack.callback(_forget_workflows)
        stack.enter_context(
            with_settings(
                {"COUNTERFOIL_WORKFLOWS": [workflow.__name__], "COUNTERFOIL_INTERNAL_RECEIVERS": [HERE]}
            )
        )
        _forget_workflows()
        environment = {
            "DATABASE_URL": url,
            "COUNTERFOIL_WORKFLOWS": workflow.__name__,
            "COUNTERFOIL_INTERNAL_RECEIVERS": HERE,
            "COUNTERFOIL_WORKERS": str(WORKERS),
            "COUNTERFOIL_SLOTS": str(SLOTS),
            "COUNTERFOIL_LEASE_SECONDS": str(LEASE_SECONDS),
        }
        cluster = Cluster(environment=environment, log=folder / "workers.log")
        stack.callback(cluster.kill)
        control, secret = ErpControl(erp.base_url), signatures.make_secret()
        web = stack.enter_context(web_server({**cluster.environment, SIGNED_BY: secret}))
        control.call_back(web, secret)
        try:
            yield Stand(teller, control, cluster, *gates, web)
        except NotSeen:
            for line in cluster.log_text.splitlines()[-30:]:
                teller.step(f"workers: {line}")
            raise


def _forget_workflows() -> None:
    registry.workflows.cache_clear()
    registry.digests.cache_clear()
