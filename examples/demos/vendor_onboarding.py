"""Two vendor changes, the two ways in which an answer is lost: the receiver drops it, or its reader is killed.

With an operation key or a look-up both are CONFIRMED with one effect. With neither, nobody can know: both are
NEEDS_RECONCILIATION, with one effect and one request, also after the workers were restarted.
"""

from __future__ import annotations

from typing import Any

from examples.demos.installation import Installation, NotSeen, require_promised
from examples.demos.workers import kill_worker, live_workers, worker_at_work_on
from examples.management.sample import MANAGER, SECOND_MANAGER
from workflows.models import Job
from workflows.states import JobState

WORKERS, SLOTS = 2, 4
ANSWER_SECONDS = 4.0
WATCH_SECONDS = 2.0


def play(on: Installation, *, contract: str) -> dict[str, Any]:
    """Run both stories; what was observed. Raises NotSeen where that is not what is promised."""
    goal = JobState.NEEDS_RECONCILIATION if contract == "neither" else JobState.CONFIRMED
    dropped = _change(on, contract, "V-30417", "48200.00")
    on.erp.set_fault("drop_after_commit", path=f"/{contract}/vendors/V-30417")
    on.teller.step("The ERP will apply the next change of V-30417 and drop its answer")
    _approve(on, dropped, MANAGER)
    _effect_of(on, "V-30417")
    on.teller.step("The ERP has applied it, and closed the connection without an answer")
    on.wait_for_state(dropped.pk, goal)
    on.teller.step(f"{dropped.label} is {goal}")

    killed = _change(on, contract, "V-30502", "49000.00")
    on.erp.set_fault("slow", path=f"/{contract}/vendors/V-30502", seconds=ANSWER_SECONDS)
    on.teller.step(
        f"The ERP will apply the next change of V-30502 at once and answer {ANSWER_SECONDS:g} s later"
    )
    _approve(on, killed, SECOND_MANAGER)
    restart = _kill_sender(on, killed, "V-30502")
    on.wait_for_state(killed.pk, goal)
    on.teller.step(f"{killed.label} is {goal}")

    _restart(on)
    jobs = [_observed(on, job, contract, goal) for job in (dropped, killed)]
    return {"contract": contract, "expected": goal.value, "killed_worker": restart, "jobs": jobs}


def _change(on: Installation, contract: str, vendor_id: str, limit: str) -> Job:
    job = on.submit(
        "vendor-onboarding",
        {
            "reference": f"DEMO-{vendor_id}",
            "vendor_id": vendor_id,
            "request": "We sign the frame contract and expect larger orders.",
            "requested_limit": limit,
            "currency": "EUR",
            "contact": "accounts@vendor.example",
            "erp": contract,
        },
    )
    on.teller.step(
        f"{job.label} submitted: a new credit limit for {vendor_id}, receiver contract {contract!r}"
    )
    on.wait_for_state(job.pk, JobState.AWAITING_APPROVAL)
    on.teller.step(f"{job.label} awaits approval")
    return job


def _approve(on: Installation, job: Job, handle: str) -> None:
    on.teller.step(f"{handle}: {on.approve(job.pk, handle)}")


def _effect_of(on: Installation, record: str) -> None:
    on.wait(lambda: on.erp.effects(record=record), what=f"an effect on {record} at the receiver")


def _kill_sender(on: Installation, job: Job, record: str) -> dict[str, Any]:
    """Between the receiver's commit and our record of it, kill the process that waits for the answer."""
    _effect_of(on, record)
    worker = worker_at_work_on(tenant_id=on.tenant_id, job_id=job.pk)
    if worker is None:
        raise NotSeen(f"No worker holds {job.label} while its request is open.")
    newest = on.newest_worker()
    kill_worker(worker)
    on.teller.step(
        f"The ERP has applied it; worker process {worker.pid}, which waits for the answer, was killed"
    )
    on.wait_for_workers(newer_than=newest)
    pids = [w.pid for w in live_workers() if w.pk > newest]
    on.teller.step(f"A new worker process is up: {pids[0]}")
    return {"pid": worker.pid, "restarted_as": pids[0]}


def _restart(on: Installation) -> None:
    """Whoever would send again by mistake gets the occasion."""
    newest = on.newest_worker()
    on.cluster.kill()
    on.cluster.start()
    on.wait_for_workers(newer_than=newest)
    on.teller.step("All workers killed and started again; watching for a second send")
    before = len(on.erp.requests())
    try:
        on.wait(
            lambda: len(on.erp.requests()) > before, what="nothing, which is right", seconds=WATCH_SECONDS
        )
    except NotSeen:
        return
    raise NotSeen("After the restart something more was sent to the receiver.")


def _observed(on: Installation, job: Job, contract: str, goal: JobState) -> dict[str, Any]:
    """What the receiver, the journal and the job say in the end."""
    record = job.title.rsplit(" ", 1)[1]
    key = on.operation_key(job.pk)
    sent = [r for r in on.erp.requests(path=f"/{contract}/vendors/{record}") if r["method"] == "PUT"]
    seen: dict[str, Any] = {
        "job": job.label,
        "state": on.job(job.pk).state,
        "effects": len(on.erp.effects(record=record)),
        "requests": len(sent),
        "bodies": len({r["body_sha256"] for r in sent}),
        "operation_key": key,
        "keys_sent": sorted({r["key"] for r in sent if r["key"]}),
        "journal_fault": on.journal_fault(job.pk),
    }
    expected = {
        "state": goal.value,
        "effects": 1,
        "bodies": 1,
        "keys_sent": [] if contract == "neither" else [key],
        "journal_fault": "",
        **({"requests": 1} if contract == "neither" else {}),
    }
    require_promised(job, seen, **expected)
    on.teller.step(
        f"{job.label}: {seen['state']}, {seen['effects']} effect at the receiver, {seen['requests']} request, journal valid"
    )
    return seen
