"""What came out of a run, told the same way by the kit and by an installation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from access.tenancy import reading
from counterfoil.testing import Receiver, Run
from dispatch.models import Operation, Submission
from examples.simulators.client import ErpControl
from workflows.models import Attempt, Checkpoint, ItemInput, Job, JournalEntry, Stage, StageKind, WorkItem

OF_CASES = "case."
"""The kit has no cases: who owns a question is an installation's matter."""


@dataclass(frozen=True)
class Seen:
    """All of it in plain values, so that a difference shows as one."""

    state: str
    events: list[str]
    stages: dict[str, Any]
    items: dict[str, Any]
    operations: list[Any]
    sent: list[Any]
    effects: list[Any]
    used: tuple[int, int]


@dataclass(frozen=True)
class Before:
    """How far a receiver that several tests share had come."""

    request: int
    effects: int

    @classmethod
    def now(cls, erp: ErpControl) -> Before:
        return cls(max((r["id"] for r in erp.requests()), default=0), len(erp.effects()))


def of_kit(run: Run, receiver: Receiver) -> Seen:
    """A run of the kit."""
    stages = run._memory.stages
    return Seen(
        state=run.state,
        events=run.events,
        stages=_closings([(e.event, e.evidence) for e in run.journal]),
        items={
            s.name: [
                (i.key, i.ordinal, i.state.value, _plain(i.element), i.output, i.digest,
                 [(a.number, a.outcome.value, a.error, a.message) for a in i.attempts])
                for i in s.items
            ]
            for s in stages
        },
        operations=[
            (o.ordinal, o.record, o.state.value, bool(o.receipt), o.next_step.value, len(o.key),
             [(s.number, s.resubmission, s.permit, s.marked, s.outcome and s.outcome.value, _status(s.status))
              for s in o.submissions])
            for o in run.operations
            if run.proposal.approved_at is not None
        ],
        sent=[
            (r.method, urlsplit(r.target).path, json.loads(r.body), r.operation_key == o.key)
            for r in receiver.requests for o in run.operations if o.record == r.record
        ],
        effects=[(e.record, e.body) for e in receiver.effects],
        used=(run.tokens_in, run.tokens_out),
    )  # fmt: skip


def of_installation(tenant_id: int, job_id: int, erp: ErpControl, *, since: Before) -> Seen:
    """A job in the database, and what arrived at the receiver since then."""
    with reading(tenant_id):
        job = Job.objects.get(pk=job_id)
        journal = list(JournalEntry.objects.filter(job=job).order_by("sequence"))
        stages = list(Stage.objects.filter(job=job).exclude(kind=StageKind.MACHINE).order_by("ordinal"))
        operations = list(
            Operation.objects.filter(job=job).select_related("proposed").order_by("proposed_id")
        )
        latest = max((o.proposed.proposal_id for o in operations), default=0)
        operations = [o for o in operations if o.proposed.proposal_id == latest]
        attempts = Attempt.objects.filter(item__job=job).exclude(item__stage__kind=StageKind.MACHINE)
        used = [(a.tokens_in, a.tokens_out) for a in attempts]
        requests = [r for r in erp.requests() if r["id"] > since.request and r["method"] == "PUT"]
        keys = {o.record: o.operation_key for o in operations}
        return Seen(
            state=job.state,
            events=[e.event for e in journal if not e.event.startswith(OF_CASES)],
            stages=_closings([(e.event, json.loads(e.evidence)) for e in journal]),
            items={s.name: [_item(i) for i in WorkItem.objects.filter(stage=s).order_by("ordinal")] for s in stages},
            operations=[_operation(o) for o in operations],
            sent=[
                (r["method"], r["path"], json.loads(r["body"] or "{}"),
                 r["key"] == keys[r["path"].rsplit("/", 1)[1]] or "/neither/" in r["path"])
                for r in requests
            ],
            effects=[(e["record"], e["fields"]) for e in erp.effects()[since.effects :]],
            used=(sum(i for i, _ in used), sum(o for _, o in used)),
        )  # fmt: skip


def _item(item: WorkItem) -> Any:
    given = ItemInput.objects.filter(item=item).order_by("-version").first()
    saved = Checkpoint.objects.filter(item=item).order_by("-version").first()
    attempts = Attempt.objects.filter(item=item).order_by("claim_no")
    return (
        item.key, item.ordinal, item.state_name.value, _plain(given.value if given else None),
        saved.output if saved else None, saved.digest if saved else "",
        [(a.number, a.outcome, a.error_class, a.error_message) for a in attempts],
    )  # fmt: skip


def _operation(operation: Operation) -> Any:
    submissions = Submission.objects.filter(operation=operation).order_by("number")
    return (
        operation.ordinal, operation.record, operation.state, bool(operation.receipt_id), operation.next_step,
        len(operation.operation_key),
        [(s.number, s.resubmission, s.permit, s.may_have_been_sent_at is not None, s.outcome or None, _status(s.status))
         for s in submissions],
    )  # fmt: skip


def _closings(journal: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    return {e["stage"]: e for event, e in journal if event == "stage.closed"}


def _plain(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _status(status: int | None) -> int | None:
    """200 and 201 differ by what the receiver had before, not by what was sent."""
    return 200 if status == 201 else status
