"""What answers "what became of it?": look up, receipt, not applied, the same key again, accepting a difference.

Each takes the case's `version` that was on the screen. Locks job → operations → case. Nothing is sent here: a
resubmission is ordered, and the machine repeats its checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access.tenancy import reading
from dispatch.actions import look_up as dispatch_look_up
from dispatch.models import Operation
from reconciliation import locks
from reconciliation.actions import carrying_out, seconding
from reconciliation.actions.carrying_out import BY_STATEMENT, STOP, Deed
from reconciliation.actions.working import (
    EvidenceMissing,
    StaleCase,
    Worked,
    allow,
    check_version,
    operator,
    text,
    what_became_of,
    worked,
    working,
)
from reconciliation.casework import keep_evidence
from reconciliation.kinds import VerbName
from reconciliation.models import Case, EvidenceKind
from reconciliation.papers import Paper
from reconciliation.situation import Situation, look_at
from reconciliation.verbs import needs_second


class PaperMissing(EvidenceMissing):
    """The verb wants the document itself, not only what somebody says of it."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, field="file")


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What a look-up brought. `resolved`: its answer was a proof, and the case has closed by itself."""

    case_id: int
    found: str
    proves: bool
    resolved: bool
    sentence: str


def look_up(*, tenant_id: int, case_id: int, person_id: int, version: int, now: datetime) -> LookedUp:
    """Ask the receiver now. Its answer is kept as an observation, and settles what the contract lets it settle.

    The call stands outside any transaction. Only a resolved case refuses: an older version may ask all the same.
    Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow.
    """
    with working(tenant_id, case_id, person_id, "look up"):
        job, case = locks.lock_job_and_read_case(case_id)
        operator(person_id)
        if case.resolved_at is not None:
            raise StaleCase(what_became_of(case))
        allow(VerbName.LOOK_UP, look_at(job=job, case=case))
        operation_id = case.operation_id
    assert operation_id is not None
    seen = dispatch_look_up.look_up(
        tenant_id=tenant_id, operation_id=operation_id, person_id=person_id, now=now
    )
    with reading(tenant_id):
        resolved = Case.objects.filter(pk=case_id, resolved_at__isnull=False).exists()
    proof = "That settles it." if resolved else "That settles nothing yet."
    sentence = f"{seen.sight.summary[:1].upper()}{seen.sight.summary[1:]}. {proof}"
    return LookedUp(case_id, seen.sight.found.value, seen.proves, resolved, sentence)


def confirm_not_applied(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    evidence: str,
    now: datetime,
    basis: str = BY_STATEMENT,
    source: str = "",
    then: str = STOP,
    paper: Paper | None = None,
) -> Worked:
    """Ask a second person to attest that it did not happen. Nothing is settled before they do.

    `basis`: "look-up" (one that found nothing, late enough by the contract) or "statement" (what the receiver has
    written, its `source` named, the writing itself as `paper`). `then`: "stop", or "send again" with the same key while the approval lives. Raises
    NoSuchCase, NotPermitted, StaleCase, EvidenceMissing, NotAllowedNow, SameVerbAsked.
    """
    with working(tenant_id, case_id, person_id, VerbName.CONFIRM_NOT_APPLIED.value):
        return ask_not_applied_inside(
            case_id=case_id, person_id=person_id, version=version, evidence=evidence, now=now, basis=basis,
            source=source, then=then, paper=paper,
        )  # fmt: skip


def ask_not_applied_inside(
    *,
    case_id: int,
    person_id: int,
    version: int,
    evidence: str,
    now: datetime,
    basis: str,
    source: str = "",
    then: str = STOP,
    paper: Paper | None = None,
) -> Worked:
    """`confirm_not_applied` in the caller's transaction."""
    situation, operation = begin(case_id, version, person_id, VerbName.CONFIRM_NOT_APPLIED)
    actor = operator(person_id)
    reason = text(evidence, "Say what shows that it was not applied.")
    details = {"basis": basis, "then": then, "source": source[:200]}
    if basis == BY_STATEMENT:
        details["source"] = text(source, "Say whose statement it is, and where it can be found.")[:200]
        if paper is None:
            raise PaperMissing("Add the receiver's statement as a file: a letter, a mail, a picture of it.")
        details["file"] = paper.digest
    deed = Deed(VerbName.CONFIRM_NOT_APPLIED, reason, details, actor, None, now)
    carrying_out.check(situation, operation, deed)
    request = seconding.ask_for_second(situation, deed)
    if basis == BY_STATEMENT:
        keep_evidence(
            job=situation.job, case=situation.case, summary=reason, detail=reason, source=details["source"],
            actor=actor, now=now, kind=EvidenceKind.STATEMENT, proves="attests not applied", paper=paper,
        )  # fmt: skip
    return worked(case_id, situation.job, "Asked for. A second person has to confirm it.", request.pk)


def resubmit_same_key(
    *, tenant_id: int, case_id: int, person_id: int, version: int, reason: str, now: datetime
) -> Worked:
    """Order the same bytes under the same key once more, at once or, where the receiver would not recognise the key,
    after a second person agreed to a written reason.

    Unknown: not once a published window has passed. Not applied: while the approval lives. Never while the first send
    may still arrive. Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing, SameVerbAsked.
    """
    with working(tenant_id, case_id, person_id, VerbName.RESUBMIT.value):
        return resubmit_inside(case_id=case_id, person_id=person_id, version=version, reason=reason, now=now)


def resubmit_inside(*, case_id: int, person_id: int, version: int, reason: str, now: datetime) -> Worked:
    """`resubmit_same_key` in the caller's transaction."""
    situation, operation = begin(case_id, version, person_id, VerbName.RESUBMIT)
    reason = text(reason, "Say why it is sent again.")
    deed = Deed(VerbName.RESUBMIT, reason, {}, operator(person_id), None, now)
    if needs_second(VerbName.RESUBMIT, situation):
        request = seconding.ask_for_second(situation, deed)
        return worked(case_id, situation.job, "Asked for. A second person has to agree.", request.pk)
    return worked(case_id, situation.job, carrying_out.carry_out(situation, operation, deed))


def accept_conflict(
    *, tenant_id: int, case_id: int, person_id: int, version: int, difference: str, reason: str, now: datetime
) -> Worked:
    """Ask a second person to let stand what was done, though it differs from what was approved.

    `difference`: as it was on the screen (`Doubt.difference`); where the receiver says something else by now, nothing is
    asked, and the same holds for the second person. Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing, SameVerbAsked.
    """
    with working(tenant_id, case_id, person_id, VerbName.ACCEPT_CONFLICT.value):
        situation, operation = begin(case_id, version, person_id, VerbName.ACCEPT_CONFLICT)
        reason = text(reason, "Say why the difference can stand.")
        details = {"difference": difference}
        deed = Deed(VerbName.ACCEPT_CONFLICT, reason, details, operator(person_id), None, now)
        carrying_out.check(situation, operation, deed)
        request = seconding.ask_for_second(situation, deed)
        return worked(case_id, situation.job, "Asked for. A second person has to agree.", request.pk)


def begin(case_id: int, version: int, person_id: int, name: VerbName) -> tuple[Situation, Operation]:
    """Lock job → operations → case, and see that this person may do this now. Inside an action."""
    job, operations, case = locks.lock_with_operations(case_id)
    operator(person_id)
    check_version(case, version)
    operation = next((o for o in operations if o.pk == case.operation_id), None)
    situation = look_at(job=job, case=case, operation=operation)
    allow(name, situation)
    assert operation is not None, "the verbs of outcomes are about an operation"
    return situation, operation
