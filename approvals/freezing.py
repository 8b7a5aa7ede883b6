"""From a draft to a frozen proposal: the one step from VALIDATED to AWAITING_APPROVAL.

Registered with `hooks.freezes_proposals`; runs in the transaction that closes the propose stage, or in that of a
person who proposes again. What cannot be frozen is journalled as `proposal.refused` and leaves the job VALIDATED.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import QuerySet, Subquery

from access.roles import WORKER
from access.statements import Update, Values, insert
from approvals import canonical, document, rendering, schedule, sums
from approvals.blocking import block_of, said_of
from approvals.drafts import NotFrozen, read_draft
from approvals.facts import in_force
from approvals.hands import hands_on
from approvals.missing import note_approvers
from approvals.models import Policy, Proposal, ProposedOperation
from approvals.rendering import FrozenRequest
from approvals.rules import amounts_of
from workflows import journal, machines, registry
from workflows.authoring import OperationDraft, ProposalDraft, Workflow
from workflows.kinds import NOT_STEPS
from workflows.models import Checkpoint, Job, Stage, StageKind
from workflows.states import JobState

EXPIRE_MACHINE = "approvals.expire"


DraftObjection = Callable[[Job, ProposalDraft], str]
_objections: list[DraftObjection] = []


def objects_to_drafts(objection: DraftObjection) -> None:
    """Have a room above say what a job may not propose: a sentence, or "". Asked before it is frozen, the job locked."""
    _objections.append(objection)


KeepsKeys = Callable[[Job, Sequence[OperationDraft], list[FrozenRequest], datetime], list[FrozenRequest]]
_keeps_keys: list[KeepsKeys] = []


def keeps_keys(keep: KeepsKeys) -> None:
    """Have a room above give requests the key under which the same was sent before."""
    _keeps_keys.append(keep)


AsksForTwo = Callable[[Job, Sequence[FrozenRequest], Policy, datetime], str]
_asks_for_two: list[AsksForTwo] = []


def asks_for_two(reason: AsksForTwo) -> None:
    """Have a room above say why two people have to sign what is about to be proposed, whatever its policy: a sentence, or ""."""
    _asks_for_two.append(reason)


@dataclass(frozen=True, slots=True)
class _Plan:
    draft: ProposalDraft
    requests: list[rendering.FrozenRequest]
    frame: document.Frame
    text: str


def freeze(job: Job, draft_json: str, now: datetime) -> None:
    """Freeze a proposal from a draft and ask for its approval (or note that the policy waives it).

    The job is VALIDATED and locked, the tenant's scope is set. A draft that cannot be frozen raises nothing; a
    process that lacks the job's revision cannot say, and raises RevisionMissing.
    """
    try:
        plan = _plan(job, draft_json, now)
    except (NotFrozen, canonical.NotCanonical, rendering.CannotRender) as refused:
        evidence = {
            "why": str(refused)[:1000],
            "draft": canonical.sha256(draft_json.encode("utf-8", "replace")),
        }
        journal.record(job=job, event="proposal.refused", actor=WORKER, evidence=evidence)
        return
    proposal = _insert(job, plan)
    journal.transition(
        job=job,
        to=JobState.PROPOSED,
        event="proposal.frozen",
        actor=WORKER,
        evidence={
            "proposal": proposal.pk,
            "number": proposal.number,
            "digest": proposal.digest,
            "operations": [r.operation_key for r in plan.requests],
            "checkpoints": _checkpoint_digests(job),
            "draft": canonical.sha256(draft_json),
        },
    )
    if plan.frame.policy.waives_approval and not proposal.two_because:
        _waive(job, proposal, plan.frame.policy, now)
    else:
        _ask(job, proposal, plan.frame.policy)


def _ask(job: Job, proposal: Proposal, policy: Policy) -> None:
    planned = schedule.plan(proposal, policy.ruleset)
    journal.transition(
        job=job,
        to=JobState.AWAITING_APPROVAL,
        event="approval.asked",
        actor=WORKER,
        evidence={
            **_reference(proposal, policy),
            "quorum": max(proposal.quorum, 2) if proposal.two_because else proposal.quorum,
            "expires_at": document.stamp(proposal.expires_at),
            **planned,
        },
    )
    machines.ring(job=job, machine=EXPIRE_MACHINE, key=str(proposal.pk), at=proposal.expires_at)
    schedule.ring(job, proposal)
    note_approvers(job, proposal, opened=True)


def _waive(job: Job, proposal: Proposal, policy: Policy, now: datetime) -> None:
    _SET(proposal.pk, approved_at=now)
    proposal.approved_at = now
    if policy.ruleset.sums:
        sums.reserve(proposal, amounts_of(proposal), sums.today(now), now)
    machines.ring(job=job, machine=EXPIRE_MACHINE, key=str(proposal.pk), at=proposal.expires_at)
    journal.transition(
        job=job,
        to=JobState.READY_TO_COMMIT,
        event="approval.waived",
        actor=WORKER,
        evidence=_reference(proposal, policy),
    )


def _reference(proposal: Proposal, policy: Policy) -> dict[str, Any]:
    return {"proposal": proposal.pk, "policy": policy.name, "policy_revision": policy.revision}


def _plan(job: Job, draft_json: str, now: datetime) -> _Plan:
    draft = read_draft(draft_json)
    workflow = registry.pinned(job.workflow, job.revision, job.configuration_digest)
    policy = in_force(workflow.approval_policy)
    if policy is None:
        raise NotFrozen(
            f'There is no approval policy "{workflow.approval_policy}", so nobody could approve this.'
        )
    if policy.waives_approval:
        _waivable(draft, policy, now)
    if (block := block_of(draft.recipient)) is not None:
        raise NotFrozen(f"{said_of(block)} It can be proposed again when the block is lifted.")
    if said := next((said for objection in _objections if (said := objection(job, draft))), ""):
        raise NotFrozen(said)
    requests = [rendering.render(one, None, now) for one in draft.operations]
    for keep in _keeps_keys:
        requests = keep(job, draft.operations, requests, now)
    if len({r.operation_key for r in requests}) < len(requests):
        raise NotFrozen("Two operations were given the same key.")
    frame = _frame(job, workflow, policy, now, _why_two(job, requests, policy, now))
    return _Plan(draft, requests, frame, canonical.write(document.build(frame, draft, requests)))


def _waivable(draft: ProposalDraft, policy: Policy, now: datetime) -> None:
    """NotFrozen where the sums of a policy that asks nobody are used up; the lock is held until it is reserved."""
    if not policy.ruleset.sums:
        return
    sums.lock_sums(policy.name)
    taken = sums.taken_for({policy.name: [policy.ruleset]}, now)[policy.name]
    amounts = [(Decimal(amount), currency) for amount, currency in document.compared_amounts(draft)]
    over = sums.over_sums(amounts, [policy.ruleset], taken, recipient=draft.recipient)
    if over is not None:
        raise NotFrozen(f"{over} It can be proposed again when there is room.")


def _why_two(job: Job, requests: Sequence[FrozenRequest], policy: Policy, now: datetime) -> str:
    said = (reason(job, requests, policy, now) for reason in _asks_for_two)
    return " ".join(sentence for sentence in said if sentence)[:500]


def _frame(job: Job, workflow: Workflow, policy: Policy, now: datetime, two_because: str) -> document.Frame:
    ((initiator, zone, last),) = _ABOUT.all(job.pk)
    return document.Frame(
        job=job,
        number=(last or 0) + 1,
        workflow_title=workflow.title or workflow.name,
        initiator=initiator,
        policy=policy,
        quorum=policy.ruleset.quorum,
        frozen_at=now,
        expires_at=policy.ruleset.expiry(now, ZoneInfo(zone)),
        hands=hands_on(job),
        two_because=two_because,
    )


def _insert(job: Job, plan: _Plan) -> Proposal:
    frame, draft = plan.frame, plan.draft
    proposal = insert(
        Proposal(
            tenant_id=job.tenant_id,
            job=job,
            number=frame.number,
            title=draft.title,
            recipient=draft.recipient,
            document=plan.text,
            digest=canonical.sha256(plan.text),
            policy=frame.policy,
            quorum=frame.quorum,
            two_because=frame.two_because,
            amount=draft.amount,
            currency=draft.currency or "",
            amount_label=draft.amount_label,
            amounts=canonical.write(document.compared_amounts(draft)),
            initiator_id=job.submitted_by_id,
            frozen_at=frame.frozen_at,
            expires_at=frame.expires_at,
        )
    )
    for ordinal, (one, request) in enumerate(zip(draft.operations, plan.requests, strict=True), start=1):
        insert(
            ProposedOperation(
                tenant_id=job.tenant_id,
                proposal=proposal,
                ordinal=ordinal,
                independent=one.independent,
                operation_key=request.operation_key,
                receiver=request.receiver,
                contract_version=request.contract_version,
                account=request.account,
                record=request.record,
                title=request.title,
                method=request.method,
                target=request.target,
                headers=canonical.write(dict(request.headers)),
                body=request.body,
                body_digest=canonical.sha256(request.body),
            )
        )
    return proposal


def proposed_draft(job: Job) -> tuple[str, str] | None:
    """The saved draft of a job's propose stage and its digest, in its newest version; None before there is one."""
    row = _DRAFT.first(job.pk)
    return None if row is None else (row[0], row[1])


def _checkpoint_digests(job: Job) -> dict[str, str]:
    """By stage: the digest over its checkpoints; for the propose stage, which is just closing, its one checkpoint's."""
    found: dict[str, str] = dict(_DIGESTS.all(job.pk))
    saved = proposed_draft(job)
    return found if saved is None else {**found, "draft": saved[1]}


def _about(job: Any) -> QuerySet[Job, tuple[Any, ...]]:
    """Who started it, the organisation's time zone, and the number of its last proposal."""
    last = Proposal.objects.filter(job=job).order_by("-number").values("number")[:1]
    return Job.objects.filter(pk=job).values_list(
        "submitted_by__username", "tenant__time_zone", Subquery(last)
    )


def _saved_drafts(job: Any) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    saved = Checkpoint.objects.filter(item__job=job, item__stage__kind=StageKind.PROPOSE)
    return saved.order_by("-version", "-pk").values_list("output", "digest")[:1]


def _digests(job: Any) -> QuerySet[Stage, tuple[Any, ...]]:
    stages = Stage.objects.filter(job=job).exclude(kind__in=NOT_STEPS).exclude(digest="")
    return stages.order_by("ordinal").values_list("name", "digest")


_SET = Update(lambda proposal: Proposal.objects.filter(pk=proposal))
_ABOUT = Values(_about)
_DRAFT = Values(_saved_drafts)
_DIGESTS = Values(_digests)
