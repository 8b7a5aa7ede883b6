"""Two agreements. The first becomes a record although its fields time out and every process is killed: it goes on from the
same summary. The second says no total, so an operator gives it up, and what is in the index is taken out again, the
last first; every process is killed in the middle of that, too.
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from access.tenancy import reading
from examples.demos.installation import Installation, require_promised
from examples.management.sample import MANAGER, OPERATOR
from examples.sample_documents import agreement, docx, pdf
from examples.simulators.client import Call, Change
from workflows.actions.retry import fail_job
from workflows.compensation.plan import Standing, progress_of
from workflows.engine.handling import request_key
from workflows.models import STUCK_NUMBERS, Checkpoint, Job, WorkItem
from workflows.states import JobState

WORKERS, SLOTS = 1, 2
HANG_SECONDS = 60.0
RECORD, UNDONE = "DEMO-DOC", "DEMO-UNDONE"


def play(on: Installation, *, contract: str) -> dict[str, Any]:
    """Run both stories; what was observed. Raises NotSeen where that is not what is promised."""
    return {"contract": contract, "record": _record(on, contract), "undone": _undone(on, contract)}


# --- a record, from the same summary ------------------------------------------------------------------------------------


def _record(on: Installation, contract: str) -> dict[str, Any]:
    hang = {"kind": "timeout", "seconds": HANG_SECONDS}
    on.provider.set_script({"match": {"task": "extract-fields"}, "fault": hang, "times": 1})
    on.teller.step("The provider will not answer the first call for the fields")
    job = _submit(on, contract, RECORD, "frame-agreement.pdf", pdf(agreement()))
    on.wait(
        lambda: any(c["outcome"] is None for c in _calls(on, "extract-fields")),
        what="the call for the fields",
    )
    on.cluster.kill()
    summary = _checkpoint(on, job, "summarise")
    on.teller.step("Every process killed while the fields were asked for: the summary is saved")
    last = max(c["id"] for c in on.provider.calls())
    on.cluster.start()
    on.wait_for_state(job.pk, JobState.AWAITING_APPROVAL)
    on.teller.step(
        f"Started again: {len(on.provider.calls(since=last))} calls more, and the record is proposed"
    )
    on.teller.step(f"{MANAGER}: {on.approve(job.pk, MANAGER)}")
    on.wait_for_state(job.pk, JobState.CONFIRMED)
    key = on.operation_key(job.pk)
    sent = [r for r in on.erp.requests(path=f"/{contract}/records/") if r["method"] == "PUT"]
    seen: dict[str, Any] = {
        "job": job.label,
        "state": on.job(job.pk).state,
        "calls_for_the_summary": len(_calls(on, "summarise")),
        "calls_for_the_fields": len(_calls(on, "extract-fields")),
        "summary_unchanged": _checkpoint(on, job, "summarise") == summary,
        "effects": len(on.erp.effects(record=RECORD)),
        "requests": len(sent),
        "keys_sent": sorted({r["key"] for r in sent if r["key"]}),
        "taken_out": [c["kind"] for c in _changes(on, job) if "deleted" in c["kind"]],
        "journal_fault": on.journal_fault(job.pk),
    }
    require_promised(
        job,
        seen,
        state=JobState.CONFIRMED.value,
        calls_for_the_summary=1,
        calls_for_the_fields=2,
        summary_unchanged=True,
        effects=1,
        keys_sent=[] if contract == "neither" else [key],
        taken_out=[],  # what was applied keeps all that was made on the way
        journal_fault="",
    )
    on.teller.step(f"{job.label}: {seen['state']}, one call for the summary, one record, its index stands")
    return seen


# --- an index, taken down again -----------------------------------------------------------------------------------------


def _undone(on: Installation, contract: str) -> dict[str, Any]:
    job = _submit(on, contract, UNDONE, "agreement-draft.docx", docx(agreement(without=["Total"])))
    on.wait(lambda: _is_stuck(on, job), what="the fields stopped")
    made = _changes(on, job)
    on.teller.step(f"{job.label} says no total: its fields stopped, {len(made)} changes stand in the index")
    batches, (summary,) = _groups(on, job, "embed-batch"), _groups(on, job, "index-summary")
    on.index.set_fault("slow_after", method="DELETE", contains=f"/groups/{batches[-2]}", seconds=HANG_SECONDS)
    fail_job(
        tenant_id=on.tenant_id,
        job_id=job.pk,
        person_id=on.sample.people[OPERATOR],
        reason="The supplier sends another document.",
        now=timezone.now(),
    )
    on.teller.step(f"{OPERATOR} gave it up; the index will not answer the second deletion of a batch in time")
    on.wait(lambda: batches[-2] in _deleted(on, job), what=f"the deletion of {batches[-2]}")
    on.cluster.kill()
    on.teller.step(f"Every process killed there: {len(_deleted(on, job))} deletions, the last not known of")
    on.cluster.start()
    on.wait(lambda: _standing(on, job) is Standing.FINISHED, what="everything undone")
    seen: dict[str, Any] = {
        "job": job.label,
        "state": on.job(job.pk).state,
        "made": [c["group"] for c in made if c["kind"] == "entries stored"],
        "deleted": _deleted(on, job),
        "left": [c["name"] for c in on.index.collections() if c["name"] == f"document-{job.pk}"],
        "effects": len(on.erp.effects(record=UNDONE)),
        "asked_twice": len([r for r in on.index.requests() if r["method"] == "DELETE"])
        - len(_deleted(on, job)),
        "journal_fault": on.journal_fault(job.pk),
    }
    require_promised(
        job,
        seen,
        state=JobState.FAILED.value,
        deleted=[summary, *batches[::-1], f"document-{job.pk}"],
        left=[],
        effects=0,
        asked_twice=1,
        journal_fault="",
    )
    on.teller.step(
        f"{job.label}: {seen['state']}, {len(seen['deleted'])} deletions, the last made first, each once"
    )
    return seen


# --- below ----------------------------------------------------------------------------------------------------------------


def _submit(on: Installation, contract: str, reference: str, name: str, content: bytes) -> Job:
    digest = on.upload(name, content)
    job = on.submit("document-intake", {"reference": reference, "document": digest, "erp": contract})
    on.teller.step(f"{job.label} submitted: {name}, {len(content):,} bytes")
    return job


def _calls(on: Installation, task: str) -> list[Call]:
    return [c for c in on.provider.calls() if c["last_user"].startswith(f"task: {task}\n")]


def _changes(on: Installation, job: Job) -> list[Change]:
    return on.index.changes(collection=f"document-{job.pk}")


def _deleted(on: Installation, job: Job) -> list[str]:
    """What was really deleted, in order: groups by their name, the collection by its own."""
    return [c["group"] or c["collection"] for c in _changes(on, job) if "deleted" in c["kind"]]


def _checkpoint(on: Installation, job: Job, stage: str) -> tuple[Any, ...]:
    """All that is in the one row of a step's result."""
    with reading(on.tenant_id):
        rows = Checkpoint.objects.filter(item__job=job, item__stage__name=stage)
        return rows.values_list("pk", "version", "output", "digest", "created_at").get()


def _groups(on: Installation, job: Job, stage: str) -> list[str]:
    """What a step's items are called in the index, in the order of their inputs."""
    with reading(on.tenant_id):
        items = WorkItem.objects.filter(job=job, stage__name=stage).order_by("ordinal")
        return [request_key(job.workflow, job.pk, pk) for pk in items.values_list("pk", flat=True)]


def _is_stuck(on: Installation, job: Job) -> bool:
    with reading(on.tenant_id):
        return WorkItem.objects.filter(job=job, state__in=STUCK_NUMBERS).exists()


def _standing(on: Installation, job: Job) -> Standing | None:
    with reading(on.tenant_id):
        progress = progress_of(Job.objects.get(pk=job.pk))
    return None if progress is None else progress.standing
