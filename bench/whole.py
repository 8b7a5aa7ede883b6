"""Whole jobs: submitted, validated, proposed, approval waived by policy, sent to a local receiver, confirmed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from django.utils import timezone

from bench.installation import PROJECT, Installation, installation, workers
from bench.ours import SLOTS

_ENDED = "SELECT count(*) FROM workflows_job WHERE state = 'CONFIRMED'"
_SPAN = (
    "SELECT extract(epoch FROM max(j.ended_at) - (SELECT min(started_at) FROM workflows_attempt))"
    " FROM workflows_job j"
)
_PREPARED = (
    "SELECT count(*) FROM dispatch_operation o JOIN workflows_job j ON j.id = o.job_id"
    " WHERE o.state = 'PREPARED' AND j.state = 'READY_TO_COMMIT'"
)
_SENDING = "SELECT extract(epoch FROM max(closed_at) - min(opened_at)) FROM dispatch_submission"


def jobs(count: int, processes: int = 1) -> float:
    """Jobs a second, all submitted before the workers start: from the first attempt to the last confirmation."""
    with installation() as there, local_receiver() as port:
        prepare(there, port)
        there.submit("bench-whole", {}, count)
        with workers(there, processes=processes, slots=SLOTS):
            there.until(lambda: there.one(_ENDED) == count)
            return count / float(there.one(_SPAN))


def sends(count: int, slots: int = 16) -> float:
    """Operations a second that one worker process sends and records, each approved before a paused receiver is resumed.

    From the first submission to the last confirmation.
    """
    with installation() as there, local_receiver() as port:
        from dispatch.actions.receivers import pause_receiver, resume_receiver

        receiver = prepare(there, port)
        switch = {"tenant_id": there.tenant_id, "receiver_id": receiver, "person_id": there.person_id}
        pause_receiver(**switch, reason="bench", now=timezone.now())
        there.submit("bench-whole", {}, count)
        with workers(there, processes=1, slots=slots):
            there.until(lambda: there.one(_PREPARED) == count)
        there.owner.execute("ANALYZE")  # as autovacuum has done wherever sends go on for a while
        resume_receiver(**switch, now=timezone.now())
        with workers(there, processes=1, slots=slots):
            there.until(lambda: there.one(_ENDED) == count)
            return count / float(there.one(_SENDING))


@contextlib.contextmanager
def local_receiver() -> Iterator[int]:
    """The port of a receiver in a process of its own."""
    command = [sys.executable, "-m", "bench.receiver"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def prepare(there: Installation, port: int) -> int:
    """A policy that waives approval, and a receiver at this port, whose id it returns."""
    from access.models import Membership
    from access.roles import WORKER, Role
    from access.tenancy import acting
    from approvals.policies import write_policy
    from approvals.ruleset import RuleSet
    from dispatch.actions.receivers import write_contract, write_receiver
    from dispatch.presets import KEYED

    now = timezone.now()
    with acting(there.tenant_id):
        Membership.objects.create(tenant_id=there.tenant_id, person_id=there.person_id, role=Role.ADMIN)
    write_policy(
        tenant_id=there.tenant_id,
        name="waived",
        rules=RuleSet(waives_approval=True),
        created_by=WORKER,
        now=now,
    )
    receiver = write_receiver(
        tenant_id=there.tenant_id,
        name="local",
        title="Local",
        base_url=f"http://127.0.0.1:{port}",
        person_id=there.person_id,
        now=now,
    )
    write_contract(
        tenant_id=there.tenant_id,
        receiver_id=receiver.receiver_id,
        terms=KEYED.contract.model_dump(mode="json"),
        source="bench",
        person_id=there.person_id,
        now=now,
    )
    return receiver.receiver_id
