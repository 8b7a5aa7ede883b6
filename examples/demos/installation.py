"""An installation that lives as long as one demo: a database, an ERP, a model provider, an index and workers of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from django.utils import timezone

from access.refusals import Refused
from access.tenancy import reading
from approvals.actions.decide import record_decision
from approvals.models import Proposal, Verdict
from config import database
from config.var import var_file
from dispatch.models import Operation
from examples.demos.telling import Teller
from examples.demos.workers import Cluster, live_workers
from examples.management import sample
from examples.management.sample import SUBMITTER, Sample
from examples.simulators.client import (
    BureauControl,
    ErpControl,
    IndexControl,
    ProviderControl,
    start_bureau,
    start_erp,
    start_index,
    start_provider,
)
from workflows import verification
from workflows.actions.keep_file import keep_file
from workflows.actions.submit import submit_job
from workflows.models import STUCK_NUMBERS, Attempt, Job
from workflows.states import JobState

T = TypeVar("T")
LOOK_EVERY, SHORT_WAIT, LOOK_LATER_EVERY = 0.02, 2.0, 0.25
"""Seconds: what comes soon is seen at once, and what takes long is not slowed down by looking."""
LONGEST_WAIT = 90.0
"""Seconds: far more than a calm machine needs. What has stopped for good is told at once."""


class NotSeen(Exception):
    """What the demo promises did not happen; the message says what was seen instead."""


def require_promised(job: Job, seen: Mapping[str, Any], **promised: Any) -> None:
    """NotSeen unless everything that was promised was seen so."""
    wrong = {name: (seen[name], value) for name, value in promised.items() if seen[name] != value}
    if wrong:
        raise NotSeen(f"{job.label} ended otherwise than promised (seen, promised): {wrong}.")


@dataclass(frozen=True)
class Installation:
    """What a demo works with."""

    sample: Sample
    cluster: Cluster
    erp: ErpControl
    provider: ProviderControl
    bureau: BureauControl
    index: IndexControl
    teller: Teller

    @property
    def tenant_id(self) -> int:
        return self.sample.tenant_id

    def submit(self, workflow: str, value: dict[str, object]) -> Job:
        """Submit a job as the sample submitter."""
        submitted = submit_job(
            tenant_id=self.tenant_id,
            workflow=workflow,
            value=value,
            submission_key=secrets.token_hex(8),
            person_id=self.sample.people[SUBMITTER],
            source="demo",
            now=timezone.now(),
        )
        return self.job(submitted.job_id)

    def upload(self, name: str, content: bytes) -> str:
        """Keep a file as the sample submitter; its digest."""
        kept = keep_file(
            tenant_id=self.tenant_id,
            name=name,
            content=content,
            person_id=self.sample.people[SUBMITTER],
            now=timezone.now(),
        )
        return kept.digest

    def approve(self, job_id: int, handle: str) -> str:
        """Have a person approve a job's open proposal through the real action; what they are told. Raises NotSeen."""
        with reading(self.tenant_id):
            proposal = Proposal.objects.get(job_id=job_id, closed_at__isnull=True)
        try:
            return record_decision(
                tenant_id=self.tenant_id,
                proposal_id=proposal.pk,
                person_id=self.sample.people[handle],
                verdict=Verdict.APPROVE,
                digest=proposal.digest,
                now=timezone.now(),
            ).sentence
        except Refused as refused:
            raise NotSeen(f"{handle} was refused: {refused}") from refused

    def job(self, job_id: int) -> Job:
        with reading(self.tenant_id):
            return Job.objects.defer("input").get(pk=job_id)

    def operation_key(self, job_id: int) -> str:
        """The one operation key of a job that has one operation."""
        with reading(self.tenant_id):
            return Operation.objects.values_list("operation_key", flat=True).get(job_id=job_id)

    def wait_for_state(self, job_id: int, *wanted: JobState, seconds: float = LONGEST_WAIT) -> Job:
        """The job once it is in one of the states. Raises NotSeen."""
        names = " or ".join(wanted)

        def look() -> Job | None:
            job = self.job(job_id)
            self.teller.progress(f"{job.label} is {job.state}, waiting for {names}")
            if job.ended_at is not None and job.state not in wanted:
                raise NotSeen(f"{job.label} ended in {job.state}, not in {names}.")
            if job.state not in wanted and (why := self._why_stuck(job)):
                raise NotSeen(f"{job.label} is {job.state} and does not go on: {why}")
            return job if job.state in wanted else None

        return self.wait(look, seconds=seconds, what=f"job {job_id} in {names}")

    def _why_stuck(self, job: Job) -> str:
        """The last error of a step that has stopped, if one has."""
        with reading(self.tenant_id):
            stuck = Attempt.objects.filter(item__job=job, item__state__in=STUCK_NUMBERS)
            last = stuck.order_by("-pk").select_related("item__stage").first()
            return "" if last is None else f"{last.item.stage.name} stopped with {last.error_message}"

    def wait(self, look: Callable[[], T | None], *, what: str, seconds: float = LONGEST_WAIT) -> T:
        """The first truthy value of `look`. Raises NotSeen."""
        began = time.monotonic()
        while not (value := look()):
            waited = time.monotonic() - began
            if waited > seconds:
                raise NotSeen(f"Not seen within {seconds:g} s: {what}.")
            time.sleep(LOOK_EVERY if waited < SHORT_WAIT else LOOK_LATER_EVERY)
        return value

    def wait_for_workers(self, count: int = 1, *, newer_than: int = 0) -> list[int]:
        """The ids of at least `count` living workers that registered after the worker `newer_than`."""

        def look() -> list[int]:
            return [w.pk for w in live_workers() if w.pk > newer_than]

        return self.wait(lambda: ids if len(ids := look()) >= count else None, what=f"{count} workers")

    def newest_worker(self) -> int:
        return max((w.pk for w in live_workers()), default=0)

    def journal_fault(self, job_id: int) -> str:
        """The first bad row of the job's journal, or nothing."""
        verified = verification.verify_jobs(job_id=job_id)
        return str(verified.bad or "")


HERE = "*=127.0.0.1"
"""The simulators are on this machine, which nothing but a demo's installation may send to."""


@contextmanager
def installation(
    teller: Teller, *, workers: int, slots: int, keep: bool, environment: dict[str, str] | None = None
) -> Iterator[Installation]:
    """Make it, and take all of it away again, however the demo ends. With `keep` database and logs stay."""
    name = f"counterfoil_demo_{secrets.token_hex(4)}"
    folder = var_file("demos", name, "erp.sqlite3").parent
    with ExitStack() as stack:
        if not keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        url = stack.enter_context(own_database(name, keep=keep))
        teller.step(f"Database {name} made")
        erp = stack.enter_context(start_erp(database=folder / "erp.sqlite3"))
        provider = stack.enter_context(start_provider(database=folder / "provider.sqlite3"))
        bureau = stack.enter_context(start_bureau(database=folder / "bureau.sqlite3"))
        index = stack.enter_context(start_index(database=folder / "index.sqlite3"))
        addresses = {
            "COUNTERFOIL_ERP_URL": erp.base_url,
            "COUNTERFOIL_PROVIDER_URL": provider.base_url,
            "COUNTERFOIL_BUREAU_URL": bureau.base_url,
            "COUNTERFOIL_INDEX_URL": index.base_url,
        }
        stack.enter_context(with_settings({**addresses, "COUNTERFOIL_INTERNAL_RECEIVERS": [HERE]}))
        teller.step(
            f"ERP listens on {erp.base_url}, model provider on {provider.base_url},"
            f" company bureau on {bureau.base_url}, document index on {index.base_url}"
        )
        loaded = sample.load(now=timezone.now(), sign_in=False)
        cluster = Cluster(
            environment={
                **addresses,
                "COUNTERFOIL_INTERNAL_RECEIVERS": HERE,
                "DATABASE_URL": url,
                "COUNTERFOIL_WORKERS": str(workers),
                "COUNTERFOIL_SLOTS": str(slots),
                **(environment or {}),
            },
            log=folder / "workers.log",
        )
        stack.callback(cluster.stop)
        cluster.start()
        made = Installation(
            loaded,
            cluster,
            ErpControl(erp.base_url),
            ProviderControl(provider.base_url),
            BureauControl(bureau.base_url),
            IndexControl(index.base_url),
            teller,
        )
        made.wait_for_workers(workers)
        processes = f"{workers} worker process{'es' if workers > 1 else ''}"
        teller.step(f"{processes} with {slots} slot{'s' if slots > 1 else ''} each, up")
        yield made


@contextmanager
def own_database(name: str, *, keep: bool) -> Iterator[str]:
    """A migrated database that this process uses in place of the installation's own."""
    url = database.create_database(name)
    before = connection.settings_dict["NAME"], os.environ.get("DATABASE_URL")
    connections.close_all()
    try:
        connection.settings_dict["NAME"], os.environ["DATABASE_URL"] = name, url
        call_command("migrate", verbosity=0)
        yield url
    finally:
        connections.close_all()
        connection.settings_dict["NAME"] = before[0]
        if before[1] is None:
            del os.environ["DATABASE_URL"]
        else:
            os.environ["DATABASE_URL"] = before[1]
        if not keep:
            database.drop_database(name)


@contextmanager
def with_settings(values: Mapping[str, object]) -> Iterator[None]:
    """This process with other settings for as long as it lasts."""
    before = {name: getattr(settings, name) for name in values}
    for name, value in values.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)
