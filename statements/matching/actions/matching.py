"""What a person does about lines: match them, take a match back, have the ladder walked again, set how far it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from access import authority
from access.refusals import Conflict, NotFound, Unprocessable
from access.roles import Role
from access.tenancy import acting
from access.tenant_journal import record
from dispatch.booked import Effect
from dispatch.locks import NoSuchOperation, lock_operation, lock_receiver
from dispatch.models import Operation
from statements.matching import making, running
from statements.matching.making import Pair, Word
from statements.matching.models import Match, MatchingSettings
from statements.matching.settings import LARGEST_GROUP, Settings
from web.redaction import hide
from workflows.locks import lock_job
from workflows.models import Job

WHO = (Role.OPERATOR,)
LONGEST_REASON = 4000


class ReasonMissing(Unprocessable):
    """Nobody said why."""


class NoSuchMatch(NotFound):
    """There is no such match in this tenant."""


class UnmadeAlready(Conflict):
    """Somebody has taken the match back."""


class WalkUnderWay(Conflict):
    """Workers are at the same walk."""


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a match, for each operation."""

    effects: tuple[Effect, ...]
    sentence: str


def match_lines(
    *,
    tenant_id: int,
    line_ids: Sequence[int],
    operation_ids: Sequence[int],
    person_id: int,
    reason: str,
    now: datetime,
) -> Made:
    """Match lines with operations, either of which may be several. Amounts have to add up exactly.

    Locks jobs by id, each with its operations. A repeat, or somebody else's match meanwhile, is LineClaimed. Raises
    NotPermitted, LineClaimed, DoNotBelongTogether, NeedsTwoPeople, NoSuchLine, NoSuchOperation, StillSending.
    """
    lines, operations = sorted(set(line_ids)), sorted(set(operation_ids))
    if not lines or not operations or len(lines) + len(operations) > LARGEST_GROUP + 1:
        raise making.DoNotBelongTogether(
            f"Choose a line and an operation, or up to {LARGEST_GROUP + 1} of both together."
        )
    with acting(tenant_id):
        actor = authority.require(person_id, *WHO)
        locked = _lock(operations)
        pairs = [Pair(line, *locked[operation]) for line in lines for operation in operations]
        effects = making.make(pairs, Word(actor, hide(reason).strip()[:LONGEST_REASON], now))
        return Made(tuple(effect for _, effect in effects), _sentence(effects))


def unmatch(*, tenant_id: int, match_id: int, person_id: int, reason: str, now: datetime) -> str:
    """Take a match back, with its set, by a reason; the sentence that says what follows.

    An operation that only this line confirmed is unknown again; in a job that has ended a case asks, and a second person
    reopens it. Locks jobs by id, each with its operations. Raises NotPermitted, NoSuchMatch, UnmadeAlready,
    ReasonMissing, StillSending.
    """
    with acting(tenant_id):
        actor = authority.require(person_id, *WHO)
        together = making.set_of(_match(match_id))
        locked = _lock(sorted({m.operation_id for m in together}))
        # Read again: whoever unmakes it holds the same locks.
        match = _match(match_id)
        if match.unmade_at is not None:
            raise UnmadeAlready("Somebody has taken this match back already. Nothing was done now.")
        if not reason.strip():
            raise ReasonMissing("Say why it is not this line.")
        doubted = making.unmake(
            match, list(locked.values()), Word(actor, hide(reason).strip()[:LONGEST_REASON], now)
        )
        labels = ", ".join(operation.label for _, operation in locked.values())
        if doubted:
            return f"Taken back. {labels} is of unknown outcome again, and a case asks what became of it."
        return f"Taken back. {labels} stays as it was; the machine does not put them together again."


def walk_again(*, tenant_id: int, receiver_id: int, person_id: int, now: datetime) -> None:
    """Have workers walk the ladder over every line of a receiver that nobody has claimed. Raises NotPermitted, WalkUnderWay."""
    with acting(tenant_id):
        actor = authority.require(person_id, *WHO)
        lock_receiver(receiver_id)
        if not running.begin(receiver_id=receiver_id, statement=None, asked_by=person_id, now=now):
            raise WalkUnderWay("Workers are at it already; ask again when they have ended.")
        record(event="matching.asked", actor=actor, evidence={"receiver": receiver_id})


def set_matching(
    *, tenant_id: int, receiver_id: int, settings: Settings, person_id: int, now: datetime
) -> int:
    """Write how far the ladder goes for a receiver, as its next version. Locks the receiver. Raises NotPermitted."""
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        lock_receiver(receiver_id)
        rows = MatchingSettings.objects.filter(receiver=receiver_id)
        version = (rows.aggregate(n=Max("version"))["n"] or 0) + 1
        MatchingSettings.objects.create(
            tenant_id=tenant_id, receiver_id=receiver_id, version=version, terms=settings.model_dump(mode="json"),
            written_by_id=person_id, written_at=now,
        )  # fmt: skip
        evidence = {"receiver": receiver_id, "version": version, **settings.model_dump(mode="json")}
        record(event="matching.settings_written", actor=actor, evidence=evidence)
        return version


def _lock(operation_ids: Sequence[int]) -> dict[int, tuple[Job, Operation]]:
    """Jobs by id, each with its operations among these."""
    jobs = dict(Operation.objects.filter(pk__in=operation_ids).values_list("pk", "job_id"))
    locked: dict[int, tuple[Job, Operation]] = {}
    for job_id in sorted(set(jobs.values())):
        job = lock_job(job_id)
        for operation_id in operation_ids:
            if jobs.get(operation_id) == job_id:
                locked[operation_id] = (job, lock_operation(job, operation_id))
    for operation_id in operation_ids:
        if operation_id not in locked:
            raise NoSuchOperation(f"There is no operation {operation_id} here.")
    return locked


def _match(match_id: int) -> Match:
    found = Match.objects.filter(pk=match_id).first()
    if found is None:
        raise NoSuchMatch(f"There is no match {match_id} here.")
    return found


_WORDS = {
    Effect.APPLIED: "{} is confirmed by it.",
    Effect.CORROBORATED: "{} was confirmed before; the line agrees.",
    Effect.CONTRADICTED: "{} was settled otherwise: a case asks about it, and nothing moved.",
    Effect.PART: "{} waits for what is left of it.",
    Effect.NOTED: "{} stays as it is; the line is kept as evidence.",
}


def _sentence(effects: Sequence[tuple[Operation, Effect]]) -> str:
    said = [_WORDS[effect].format(operation.label) for operation, effect in effects]
    return f"Matched. {' '.join(said)}"
