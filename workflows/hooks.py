"""What the rooms above are told, in the same transaction as the journal row that tells it.

A lower room never names a higher one. It keeps these small tables; the rooms above register from AppConfig.ready().
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from access.roles import Actor
    from workflows.models import Job


@dataclass(frozen=True, slots=True)
class Happened:
    """One journal row as its hooks see it. The job's row is locked; its `state` is already the new one."""

    job: Job
    sequence: int
    event: str
    from_state: str
    to_state: str
    actor: Actor
    evidence: Mapping[str, Any]
    at: datetime


Hook = Callable[[Happened], None]
WaitReason = Callable[["Job"], str | None]

_by_state: dict[str, list[Hook]] = defaultdict(list)
_by_event: dict[str, list[Hook]] = defaultdict(list)
_wait_reasons: list[tuple[int, WaitReason]] = []


def on_state(state: str, hook: Hook) -> None:
    """Call `hook` whenever a job enters `state`."""
    _by_state[str(state)].append(hook)


def on_event(event: str, hook: Hook) -> None:
    """Call `hook` whenever this event is journalled."""
    _by_event[event].append(hook)


def explains_waiting(rank: int, reason: WaitReason) -> None:
    """Add a source of "why it waits" sentences; the lowest rank that has something to say wins."""
    _wait_reasons.append((rank, reason))
    _wait_reasons.sort(key=lambda pair: pair[0])


KnowsEffects = Callable[["Job"], bool]
_effects: list[KnowsEffects] = []


def knows_effects(stands: KnowsEffects) -> None:
    """Who can say whether something of a job was, or may have been, applied elsewhere and stands."""
    _effects.append(stands)


def effect_stands(job: Job) -> bool:
    """Whether what a job did elsewhere stands. Then what its steps made stays too. Needs the tenant's scope."""
    return any(stands(job) for stands in _effects)


FreezesProposal = Callable[["Job", str, "datetime"], None]
_freezes: list[FreezesProposal] = []


def freezes_proposals(freeze: FreezesProposal) -> None:
    """Who turns a draft (JSON of a ProposalDraft) into a proposal and moves the VALIDATED job on. One room does."""
    _freezes.append(freeze)


def freeze_proposal(job: Job, draft: str, now: datetime) -> None:
    """Called in the transaction that closes the propose stage, the job's row locked."""
    (freeze,) = _freezes
    freeze(job, draft, now)


Objection = Callable[["Job"], str]
_objections: list[Objection] = []


def objects_to_redrive(objection: Objection) -> None:
    """Add a reason that forbids to redrive a failed job, or to run steps again: a sentence, or "".

    Asked with and without the job's lock.
    """
    _objections.append(objection)


def why_not_redrive(job: Job) -> str:
    """The first room's reason not to redrive the job, or to run steps again, or "". Needs the tenant's scope."""
    return next((said for objection in _objections if (said := objection(job))), "")


_migrating: list[Objection] = []


def objects_to_migration(objection: Objection) -> None:
    """Add a reason that forbids to migrate a job: a sentence, or "". Asked with and without the job's lock."""
    _migrating.append(objection)


def why_not_migrate(job: Job) -> str:
    """The first room's reason not to migrate the job, or "". Needs the tenant's scope."""
    return next((said for objection in _migrating if (said := objection(job))), "")


def run(happened: Happened) -> None:
    """Tell everybody. Called by the journal, inside its transaction."""
    for hook in _by_event[happened.event]:
        hook(happened)
    if happened.to_state:
        for hook in _by_state[happened.to_state]:
            hook(happened)


def why_waiting(job: Job) -> str | None:
    """One sentence on what the job waits for, or None when nobody knows a reason. Needs the tenant's scope."""
    for _, reason in _wait_reasons:
        sentence = reason(job)
        if sentence:
            return sentence
    return None
