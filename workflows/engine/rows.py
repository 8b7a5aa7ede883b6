"""Results and claims as the parameters and rows of the committer's SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from workflows.engine.outcomes import Result
from workflows.engine.slots import Pinned
from workflows.machines import Claim
from workflows.models import AttemptOutcome, StageKind
from workflows.states import ItemState

Lanes = dict[tuple[int, str, int], int]
"""The lanes that this process has claimed from, by tenant, name of the limit, and the revision they are apart for."""

NEXT_COLUMNS = (
    "items",
    "claims",
    "jobs",
    "tenants",
    "stages",
    "digests",
    "lanes",
    "names",
    "ordinals",
    "kinds",
    "limits",
    "limited",
)


def complete_parameters(batch: Sequence[Result], *, worker_id: int, worker_name: str) -> dict[str, Any]:
    """For sql.COMPLETE."""
    return {
        "worker": worker_id,
        "name": worker_name,
        "ids": [r.claim.item_id for r in batch],
        "claims": [r.claim.claim_no for r in batch],
        "states": [r.state.number for r in batch],
        "outcomes": [r.outcome.value for r in batch],
        "outputs": [r.output for r in batch],
        "digests": [r.digest for r in batch],
        "waits": [r.wait_until for r in batch],
        "seconds": [r.wait_seconds for r in batch],
        "resets": [r.reset_attempts for r in batch],
        **_told(batch),
    }


def stale_parameters(stale: Sequence[Result], *, worker_name: str) -> dict[str, Any]:
    """For sql.STALE."""
    return {
        "name": worker_name,
        "ids": [r.claim.item_id for r in stale],
        "claims": [r.claim.claim_no for r in stale],
        "numbers": [r.claim.attempt for r in stale],
        "started": [r.started_at for r in stale],
        **_told(stale),
    }


def _told(results: Sequence[Result]) -> dict[str, list[Any]]:
    return {
        "classes": [r.error_class for r in results],
        "messages": [r.error_message for r in results],
        "traces": [r.trace for r in results],
        "answers": [r.answer for r in results],
        "routes": [r.usage.route if r.usage else "" for r in results],
        "tokens_in": [r.usage.tokens_in if r.usage else 0 for r in results],
        "tokens_out": [r.usage.tokens_out if r.usage else 0 for r in results],
        "costs": [r.usage.cost if r.usage else 0 for r in results],
        "unpriced": [r.usage.unpriced if r.usage else 0 for r in results],
        "by_route": [r.usage.by_route() if r.usage else "" for r in results],
        "ended": [r.ended_at for r in results],
    }


def next_stage(result: Result, pinned: Pinned | None, lanes: Lanes) -> tuple[Any, ...] | None:
    """The row (in the order of NEXT_COLUMNS) that opens a single step's single successor; None: the advancer does it."""
    claim = result.claim
    if pinned is None or result.state is not ItemState.SUCCEEDED or claim.kind != StageKind.STEP:
        return None
    following = pinned.definition().after(claim.ordinal_of_stage)
    if following is None or following.kind is StageKind.EACH:
        return None
    lane = lanes.get((claim.tenant_id, following.limit, claim.apart_for))
    if lane is None:
        return None
    return (
        claim.item_id,
        claim.claim_no,
        claim.job_id,
        claim.tenant_id,
        claim.stage_id,
        result.digest,
        lane,
        following.name,
        following.ordinal,
        following.kind.value,
        following.retry.attempts,
        bool(following.limit),
    )


RANK = 13
"""Where the rank of what was taken stands in a row of a claim."""


def pinned(found: Sequence[tuple[Any, ...]], *, worker_id: int, worker_name: str) -> list[Pinned]:
    """What the rows of sql.CLAIM and its like took; one that took nothing has a row of nulls."""
    return [_pin(row, worker_id, worker_name) for row in found if row[0] is not None]


def _pin(row: tuple[Any, ...], worker_id: int, worker_name: str) -> Pinned:
    (item, tenant, job, stage, key, ordinal, claim_no, attempts, limit, lane, started, deaths, elapsed) = row[
        :13
    ]
    name, kind, stage_ordinal, patient, limit_name, apart, workflow, revision, digest, reference, value = row[
        14:25
    ]
    reruns = row[25]
    claim = Claim(
        item_id=item,
        tenant_id=tenant,
        job_id=job,
        stage_id=stage,
        stage_name=name,
        kind=kind,
        key=key,
        ordinal=ordinal,
        ordinal_of_stage=stage_ordinal,
        claim_no=claim_no,
        attempt=attempts,
        attempts_limit=limit,
        worker_id=worker_id,
        worker_name=worker_name,
        lane_id=lane,
        revision=revision,
        limit_name=limit_name,
        apart_for=apart,
        deaths=deaths,
        patient=patient,
        reruns=reruns,
        elapsed_before=elapsed,
    )
    return Pinned(
        claim=claim,
        workflow=workflow,
        revision=revision,
        digest=digest,
        reference=reference,
        element=value,
        started_at=started,
    )


def unstorable(result: Result) -> Result:
    """What is recorded for a result whose values the database refuses: none of them."""
    return replace(
        result,
        outcome=AttemptOutcome.PERMANENT,
        state=ItemState.REFUSED,
        output=None,
        digest="",
        error_class="NotStorable",
        error_message="The database refused to store what the step returned.",
        trace="",
        answer="",
        asked=None,
        wait_until=None,
        wait_seconds=None,
        usage=None,
    )
