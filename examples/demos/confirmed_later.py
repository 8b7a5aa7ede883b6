"""Four vendor changes at an ERP that accepts first, does it later, and calls back over HTTP.

It calls back before its own answer; while every worker is dead; with a signature that is not its own, so that only asking
tells; and to say no. Each change is one request, and is settled once.
"""

from __future__ import annotations

from typing import Any

from access.tenancy import reading
from dispatch.models import Callback, Receiver
from examples.demos.installation import Installation, require_promised
from examples.demos.web import web_server
from examples.management import sample
from examples.management.sample import MANAGER, SECOND_MANAGER
from workflows.models import Job, JournalEntry
from workflows.states import JobState

WORKERS, SLOTS = 2, 4
CONTRACT = "later"
AFTER_SECONDS = 4.0


def play(on: Installation, *, contract: str) -> dict[str, Any]:
    """Run the four stories, whatever contract is named; what was observed. Raises NotSeen where a promise is broken."""
    secret = {sample.SIGNED_BY: sample.a_callback_secret()}
    with web_server({**on.cluster.environment, **secret}) as web:
        sample.hear_from(on.erp, on.tenant_id, web=web, secret=secret[sample.SIGNED_BY])
        on.teller.step(f"The web server listens on {web}; the ERP calls back there")
        jobs = [_early(on), _nobody_works(on), _forged(on), _refused(on)]
        return {"contract": CONTRACT, "jobs": jobs, "callbacks": _callbacks(on)}


def _early(on: Installation) -> dict[str, Any]:
    job = _change(on, "V-30417", "48200.00", "early", MANAGER)
    on.wait_for_state(job.pk, JobState.CONFIRMED)
    on.teller.step(f"{job.label}: the callback came before the answer, and both were joined: CONFIRMED")
    return _observed(on, job, state="CONFIRMED", effects=1, requests=1)


def _nobody_works(on: Installation) -> dict[str, Any]:
    job = _change(on, "V-30502", "49000.00", "once", SECOND_MANAGER, seconds=AFTER_SECONDS)
    on.wait(lambda: on.erp.requests(path="/later/vendors/V-30502"), what="the request at the ERP")
    on.wait(lambda: _has_answer(on, job), what="the answer on record")
    on.cluster.kill()
    on.teller.step(f"{job.label} is accepted; every worker was killed")
    on.wait_for_state(job.pk, JobState.CONFIRMED)
    on.teller.step(f"{job.label} is CONFIRMED by the callback, with no worker alive")
    newest = on.newest_worker()
    on.cluster.start()
    on.wait_for_workers(newer_than=newest)
    return _observed(on, job, state="CONFIRMED", effects=1, requests=1, confirmed_by="receiver")


def _forged(on: Installation) -> dict[str, Any]:
    job = _change(on, "V-30288", "9000.00", "wrong_signature", MANAGER)
    on.wait_for_state(job.pk, JobState.CONFIRMED)
    on.teller.step(f"{job.label}: a callback with another signature was refused, and asking confirmed it")
    return _observed(on, job, state="CONFIRMED", effects=1, requests=1, confirmed_by="worker")


def _refused(on: Installation) -> dict[str, Any]:
    job = _change(on, "V-30417", "47000.00", "rejected", SECOND_MANAGER)
    on.wait_for_state(job.pk, JobState.FAILED)
    on.teller.step(f"{job.label}: accepted, then not done: FAILED")
    return _observed(
        on, job, state="FAILED", effects=1, requests=2
    )  # those of the first change of this vendor


def _change(
    on: Installation, vendor_id: str, limit: str, plan: str, manager: str, *, seconds: float = 0.2
) -> Job:
    job = on.submit(
        "vendor-onboarding",
        {
            "reference": f"DEMO-{vendor_id}-{limit[:2]}",
            "vendor_id": vendor_id,
            "request": "We sign the frame contract and expect larger orders.",
            "requested_limit": limit,
            "currency": "EUR",
            "contact": "accounts@vendor.example",
            "erp": CONTRACT,
        },
    )
    on.wait_for_state(job.pk, JobState.AWAITING_APPROVAL)
    on.erp.plan_callbacks(plan, seconds=seconds)
    on.teller.step(f"{job.label} awaits approval; the ERP's callbacks for it: {plan}")
    on.teller.step(f"{manager}: {on.approve(job.pk, manager)}")
    return job


def _has_answer(on: Installation, job: Job) -> bool:
    with reading(on.tenant_id):
        return JournalEntry.objects.filter(job_id=job.pk, event="submission.closed").exists()


def _observed(on: Installation, job: Job, **promised: Any) -> dict[str, Any]:
    record = job.title.rsplit(" ", 1)[1]
    with reading(on.tenant_id):
        ended = JournalEntry.objects.filter(
            job_id=job.pk, from_state__in=("SUBMITTED", "NEEDS_RECONCILIATION")
        )
        by = list(ended.order_by("sequence").values_list("actor_kind", flat=True))
    seen: dict[str, Any] = {
        "job": job.label,
        "state": on.job(job.pk).state,
        "effects": len(on.erp.effects(record=record)),
        "requests": len(
            [r for r in on.erp.requests(path=f"/later/vendors/{record}") if r["method"] == "PUT"]
        ),
        "confirmed_by": by[-1] if by else "",
        "settled": len(by),
        "journal_fault": on.journal_fault(job.pk),
    }
    require_promised(job, seen, settled=1, journal_fault="", **promised)
    return seen


def _callbacks(on: Installation) -> dict[str, Any]:
    """How the ERP was answered, and what was kept."""
    on.wait(lambda: all(c["ended"] for c in on.erp.callbacks()), what="the end of every callback")
    with reading(on.tenant_id):
        receiver = Receiver.objects.get(name=f"astrel-erp-{CONTRACT}")
        kept = list(
            Callback.objects.filter(receiver=receiver).order_by("pk").values_list("finding", flat=True)
        )
    return {"answered": [c["status"] for c in on.erp.callbacks()], "kept": kept}
