"""Ways on from what stopped: retry, skip, give up, cancel, go on, stop here, propose again, release.

Where the work is another room's action, that action's journal row closes the case in its own transaction (see
`answering.py`), so that every door to it does, and so that the case cannot be closed without the deed.
"""

from __future__ import annotations

from datetime import datetime

from access import authority
from access.refusals import Conflict
from approvals.actions.repropose import NothingToRepropose, repropose_job
from dispatch import settling
from dispatch.actions.receivers import hasten_sends
from dispatch.fates import in_a_sentence
from reconciliation import locks, mismatched
from reconciliation.actions.working import (
    EvidenceMissing,
    NotAllowedNow,
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
from reconciliation.casework import close_case, keep_evidence
from reconciliation.kinds import VerbName, terms_of
from reconciliation.models import Case, EvidenceKind
from reconciliation.papers import Paper
from reconciliation.restored import nothing_was_sent
from reconciliation.situation import SECONDERS, look_at
from workflows.actions.cancel import cancel_job_inside
from workflows.actions.hold import NotHoldable, is_held_by_a_person, release_job, release_job_inside
from workflows.actions.retry import fail_job_inside, grant_attempts_inside
from workflows.actions.skip import skip_item_inside


def retry(
    *, tenant_id: int, case_id: int, person_id: int, version: int, attempts: int, reason: str, now: datetime
) -> Worked:
    """Grant a stopped step 1 to 20 more attempts; every checkpoint is kept. Locks job → item → case.

    Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing, NothingToRetry, Unprocessable.
    """
    with working(tenant_id, case_id, person_id, VerbName.RETRY.value):
        job, case = locks.lock_job_and_read_case(case_id)
        operator(person_id)
        check_version(case, version)
        allow(VerbName.RETRY, look_at(job=job, case=case))
        assert case.item_id is not None
        reason = text(reason, "Say why it should work now.")
        granted = grant_attempts_inside(
            item_id=case.item_id, person_id=person_id, attempts=attempts, reason=reason
        )
        return worked(case_id, job, f"It is tried again, up to {granted.attempts} times.")


def skip(*, tenant_id: int, case_id: int, person_id: int, version: int, reason: str, now: datetime) -> Worked:
    """Have the job go on without the item that stopped, where its workflow can. Locks job → item → case.

    Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing, CannotSkip.
    """
    with working(tenant_id, case_id, person_id, VerbName.SKIP.value):
        job, case = locks.lock_job_and_read_case(case_id)
        operator(person_id)
        check_version(case, version)
        allow(VerbName.SKIP, look_at(job=job, case=case))
        assert case.item_id is not None
        reason = text(reason, "Say why the job can go on without it.")
        skip_item_inside(item_id=case.item_id, person_id=person_id, reason=reason, now=now)
        return worked(case_id, job, "The job goes on without it.")


def cancel(
    *, tenant_id: int, case_id: int, person_id: int, version: int, reason: str, now: datetime
) -> Worked:
    """Cancel the case's job, or ask for it where something may have been sent. Locks job → items → case.

    An admin, or the submitter of an own job before it is approved. Raises NoSuchCase, NotPermitted, StaleCase,
    NotAllowedNow, EvidenceMissing, AlreadyEnded.
    """
    with working(tenant_id, case_id, person_id, VerbName.CANCEL.value):
        job, case = locks.lock_job_and_read_case(case_id)
        check_version(case, version)
        allow(VerbName.CANCEL, look_at(job=job, case=case))
        reason = text(reason, "Say why the job is cancelled.")
        done = cancel_job_inside(job_id=job.pk, person_id=person_id, reason=reason[:1000], now=now)
        job.refresh_from_db()
        said = "is cancelled" if done.ended else "is stopping"
        return worked(case_id, job, f"{job.label} {said}. {in_a_sentence(job.pk)}")


def give_up(
    *, tenant_id: int, case_id: int, person_id: int, version: int, reason: str, now: datetime
) -> Worked:
    """End the job as FAILED before anything was sent. Locks job → items → case; closes the job's other cases too.

    Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing, CannotFail.
    """
    with working(tenant_id, case_id, person_id, VerbName.GIVE_UP.value):
        job, case = locks.lock_job_and_read_case(case_id)
        operator(person_id)
        check_version(case, version)
        allow(VerbName.GIVE_UP, look_at(job=job, case=case))
        fail_job_inside(
            job_id=job.pk, person_id=person_id, reason=text(reason, "Say why the job is given up.")
        )
        job.refresh_from_db()
        return worked(case_id, job, f"{job.label} is given up. {nothing_was_sent(job)}")


def go_on(
    *, tenant_id: int, case_id: int, person_id: int, version: int, reason: str, now: datetime
) -> Worked:
    """Send what was never sent, once what stood in the way is put right. Locks job → operations → case.

    Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing, NotInDoubt.
    """
    with working(tenant_id, case_id, person_id, VerbName.GO_ON.value):
        job, _, case = locks.lock_with_operations(case_id)
        actor = operator(person_id)
        check_version(case, version)
        allow(VerbName.GO_ON, look_at(job=job, case=case))
        reason = text(reason, "Say what has been put right.")
        close_case(job=job, case=case, resolution="went on", reason=reason, actor=actor, now=now)
        settling.go_on(job=job, actor=actor, now=now)
        return worked(case_id, job, "What was never sent is checked again and then sent.")


def stop_here(
    *, tenant_id: int, case_id: int, person_id: int, version: int, reason: str, now: datetime
) -> Worked:
    """End a partly applied job: what was applied stays, nothing more is sent. Locks job → operations → case.

    Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing, NotInDoubt.
    """
    with working(tenant_id, case_id, person_id, VerbName.STOP_HERE.value):
        job, _, case = locks.lock_with_operations(case_id)
        actor = operator(person_id)
        check_version(case, version)
        allow(VerbName.STOP_HERE, look_at(job=job, case=case))
        reason = text(reason, "Say why what was applied can stand alone.")
        close_case(job=job, case=case, resolution="stopped here", reason=reason, actor=actor, now=now)
        settling.close_partly_applied(job=job, actor=actor, now=now, why=reason)
        return worked(case_id, job, f"{job.label} has ended. What was applied stays applied.")


def record_outcome(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    outcome: str,
    evidence: str,
    source: str,
    now: datetime,
    paper: Paper | None = None,
) -> Worked:
    """Close a case that asks about something outside of us, with one of its kind's outcomes and what shows it.

    Operators and admins; no state moves. The answer of a key mismatch lets its workflow's sends go on: what waited is rung
    for once it is committed. Locks job → case. Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, EvidenceMissing.
    """
    with working(tenant_id, case_id, person_id, VerbName.RECORD_OUTCOME.value):
        job, case = locks.lock_job_and_case(case_id)
        actor = authority.require(person_id, *SECONDERS)
        check_version(case, version)
        allow(VerbName.RECORD_OUTCOME, look_at(job=job, case=case))
        outcomes = terms_of(case.kind).outcomes
        if outcome not in outcomes:
            raise EvidenceMissing(f"Say one of: {'; '.join(outcomes)}.")
        reason = text(evidence, "Say what shows it.")
        where = text(source, "Say where that can be found: a receipt, a letter, a ticket.")
        keep_evidence(
            job=job, case=case, summary=reason, detail=reason, source=where, actor=actor, now=now,
            kind=EvidenceKind.STATEMENT, proves=f"attests: {outcome}"[:60], paper=paper,
        )  # fmt: skip
        close_case(job=job, case=case, resolution=outcome, reason=reason, actor=actor, now=now)
        done, waited = worked(case_id, job, f"Recorded: {outcome}."), mismatched.waited_for(case, job, now)
    hasten_sends(tenant_id, waited)
    return done


def repropose(*, tenant_id: int, case_id: int, person_id: int, version: int, now: datetime) -> Worked:
    """Freeze the job's saved draft anew; the new proposal's journal row closes the case.

    An operator, or the submitter of the job. Where the draft cannot be frozen the case stays open and the sentence
    says why. Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow.
    """
    with working(tenant_id, case_id, person_id, VerbName.REPROPOSE.value):
        job, case = locks.lock_job_and_read_case(case_id)
        check_version(case, version)
        allow(VerbName.REPROPOSE, look_at(job=job, case=case))
    try:
        made = repropose_job(tenant_id=tenant_id, job_id=job.pk, person_id=person_id, now=now)
    except NothingToRepropose as late:
        raise _who_was_first(tenant_id, case_id, person_id, VerbName.REPROPOSE, late) from late
    sentence = (
        f"It could not be proposed: {made.refused}" if made.refused else "A new proposal waits for approval."
    )
    return _after(tenant_id, case_id, person_id, VerbName.REPROPOSE, sentence)


def release(*, tenant_id: int, case_id: int, person_id: int, version: int, now: datetime) -> Worked:
    """Lift the hold of a job; its journal row closes the case.

    Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow.
    """
    with working(tenant_id, case_id, person_id, VerbName.RELEASE.value):
        job, case = locks.lock_job_and_read_case(case_id)
        operator(person_id)
        check_version(case, version)
        allow(VerbName.RELEASE, look_at(job=job, case=case))
    try:
        release_job(tenant_id=tenant_id, job_id=job.pk, person_id=person_id, now=now)
    except NotHoldable as late:
        raise _who_was_first(tenant_id, case_id, person_id, VerbName.RELEASE, late) from late
    return _after(tenant_id, case_id, person_id, VerbName.RELEASE, "The hold is lifted.")


def release_inside(
    *, case_id: int, person_id: int, version: int, reason: str, now: datetime, bulk: int = 0
) -> Worked:
    """`release` in the caller's transaction, as one of many: what a person holds, for a reason of theirs, is left to people."""
    job, case = locks.lock_job_and_read_case(case_id)
    operator(person_id)
    check_version(case, version)
    allow(VerbName.RELEASE, look_at(job=job, case=case))
    if is_held_by_a_person(job):
        raise NotAllowedNow(
            f"{job.held_by} holds {job.label} (“{job.hold_reason}”): lift that on the page of the case."
        )
    release_job_inside(job_id=job.pk, person_id=person_id, reason=reason, bulk=bulk)
    return worked(case_id, job, "The hold is lifted.")


def _who_was_first(tenant_id: int, case_id: int, person_id: int, name: VerbName, late: Conflict) -> Conflict:
    """Between our look and the other room's lock somebody else was at it: say who, where the case knows."""
    with working(tenant_id, case_id, person_id, name.value):
        case = Case.objects.get(pk=case_id)
        return StaleCase(what_became_of(case)) if case.resolved_at is not None else late


def _after(tenant_id: int, case_id: int, person_id: int, name: VerbName, sentence: str) -> Worked:
    with working(tenant_id, case_id, person_id, name.value):
        job, _ = locks.lock_job_and_read_case(case_id)
        return worked(case_id, job, sentence)
