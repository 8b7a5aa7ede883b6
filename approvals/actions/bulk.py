"""Deciding several proposals together: choose, confirm once, and then each by `record_decision` in its own transaction.

What is decided is what was on the page that was confirmed, by id and digest; no filter is run again. Each result is a
row. A crash between a decision and its row's result changes nothing: the same decision again says that it was given.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from access import authority
from access.refusals import Conflict, NotFound, Refused, Unprocessable
from access.roles import Role
from access.tenancy import acting, reading
from access.tenant_journal import record
from approvals.actions.asked import DecisionResult, NoSuchVerdict, PasswordNeeded
from approvals.actions.decide import record_decision
from approvals.actions.refusing import SomebodyElseIsDeciding
from approvals.locks import lock_selection
from approvals.models import Chosen, ChosenState, Proposal, Selection, Verdict
from approvals.reasons import ReasonMissing, check_reason
from approvals.wording import clock

MOST = 100
"""Proposals of one selection: two pages of the list."""
GOOD_FOR = timedelta(hours=1)
TURN_SECONDS = 8.0
"""After so long the request ends and its page asks to go on; a web server may end what takes longer."""


class NothingChosen(Unprocessable):
    """No proposal of this organisation was chosen, or more than can be looked over at once. Nothing was stored."""


class NoSuchSelection(NotFound):
    """There is no such selection of this person here."""


class AlreadyConfirmed(Conflict):
    """The selection was confirmed before; what came of it stands on its page."""


class TooOld(Conflict):
    """The selection was chosen too long ago to be confirmed as what is meant now."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn left: so many still wait, because of `why` where it was not the time."""

    waiting: int
    why: str = ""


def choose_proposals(
    *, tenant_id: int, person_id: int, chosen: Sequence[tuple[int, str]], now: datetime
) -> int:
    """Store what was ticked, with the digests that were in the list; nothing is decided. The selection's number.

    A proposal twice counts once. Raises NotPermitted, NothingChosen.
    """
    digests = dict(chosen)
    if len(digests) > MOST:
        raise NothingChosen(f"Choose {MOST} at most: more cannot be looked over at once.")
    with acting(tenant_id):
        authority.require(person_id, Role.MANAGER)
        known = set(Proposal.objects.filter(pk__in=digests).values_list("pk", flat=True))
        if not known:
            raise NothingChosen("Nothing is chosen. Tick what you want to decide together.")
        selection = Selection.objects.create(tenant_id=tenant_id, person_id=person_id, chosen_at=now)
        Chosen.objects.bulk_create(
            Chosen(tenant_id=tenant_id, selection=selection, ordinal=n, proposal_id=pk, digest=digests[pk])
            for n, pk in enumerate((pk for pk in digests if pk in known), start=1)
        )
        return selection.pk


def confirm_selection(
    *,
    tenant_id: int,
    selection_id: int,
    person_id: int,
    verdict: str,
    reason: str,
    seen: Collection[int],
    why_left: Mapping[int, str],
    now: datetime,
) -> None:
    """Confirm one verdict for what was seen: of the selection, the proposals in `seen`. The others are left, for good.

    `why_left`: why those were not offered, by proposal, as the page says it.
    Nothing is decided yet: `carry_out` does. Locks the selection. Raises NoSuchSelection, NotPermitted, NoSuchVerdict,
    ReasonMissing, NothingChosen, AlreadyConfirmed, TooOld.
    """
    if verdict not in (Verdict.APPROVE, Verdict.REJECT):
        raise NoSuchVerdict("Together, proposals are approved or rejected.")
    if verdict == Verdict.REJECT and not reason.strip():
        raise ReasonMissing("Say why: each of them keeps your reason.")
    check_reason(reason)
    with acting(tenant_id):
        selection = _own(lock_selection(selection_id), person_id)
        actor = authority.require(person_id, Role.MANAGER)
        if selection.confirmed_at is not None:
            at = clock(selection.confirmed_at, tenant_id)
            raise AlreadyConfirmed(f"You confirmed this at {at}. It is not done twice.")
        if now - selection.chosen_at > GOOD_FOR:
            raise TooOld("This was chosen more than an hour ago. Choose again; nothing was decided.")
        rows = Chosen.objects.filter(selection=selection)
        confirmed = list(rows.filter(proposal__in=seen).order_by("ordinal"))
        if not confirmed:
            raise NothingChosen("None of them can be decided. Nothing was done.")
        for left in rows.exclude(proposal__in=seen):
            why = why_left.get(left.proposal_id) or "It was not among what was confirmed."
            Chosen.objects.filter(pk=left.pk).update(state=ChosenState.LEFT, why=why[:1000], settled_at=now)
        Selection.objects.filter(pk=selection.pk).update(
            verdict=verdict, reason=reason.strip(), confirmed_at=now
        )
        evidence = {
            "selection": selection.pk,
            "verdict": verdict,
            "proposals": [{"proposal": c.proposal_id, "digest": c.digest} for c in confirmed],
        }
        record(event="selection.confirmed", actor=actor, evidence=evidence)


def carry_out(*, tenant_id: int, selection_id: int, person_id: int, session: str) -> Turn:
    """Decide what waits of a confirmed selection, one after the other, for some seconds; again goes on where it stopped.

    Each decision has a transaction of its own and is refused or recorded by itself, with the rights of its moment. Raises
    NoSuchSelection.
    """
    until = time.monotonic() + TURN_SECONDS
    with reading(tenant_id):
        selection = _own(Selection.objects.filter(pk=selection_id).first(), person_id)
        waiting = list(
            Chosen.objects.filter(selection=selection, state=ChosenState.WAITING).order_by("ordinal")
        )
    if selection.confirmed_at is None:
        return Turn(len(waiting))
    why, busy = "", 0
    for at, row in enumerate(waiting):
        if time.monotonic() >= until:
            return Turn(len(waiting) - at + busy, why)
        try:
            _decide(selection, row, session)
        except PasswordNeeded as needed:
            return Turn(len(waiting) - at + busy, str(needed))
        except SomebodyElseIsDeciding as locked:
            why, busy = str(locked), busy + 1
    return Turn(busy, why)


def _decide(selection: Selection, row: Chosen, session: str) -> None:
    """One of them: its decision, and then its result. Raises what leaves it waiting."""
    now = timezone.now()
    try:
        result = record_decision(
            tenant_id=selection.tenant_id,
            proposal_id=row.proposal_id,
            person_id=selection.person_id,
            verdict=selection.verdict,
            digest=row.digest,
            reason=selection.reason,
            now=now,
            session=session,
            door="bulk",
        )
    except (PasswordNeeded, SomebodyElseIsDeciding):
        raise
    except Refused as refused:
        _settle(row, ChosenState.REFUSED, str(refused), None, now)
    else:
        _settle(row, ChosenState.DONE, result.sentence, result, now)


def _settle(row: Chosen, state: ChosenState, why: str, result: DecisionResult | None, now: datetime) -> None:
    with acting(row.tenant_id):
        Chosen.objects.filter(pk=row.pk, state=ChosenState.WAITING).update(
            state=state, why=why[:1000], decision_id=result.decision_id if result else None, settled_at=now
        )


def _own(selection: Selection | None, person_id: int) -> Selection:
    if selection is None or selection.person_id != person_id:
        raise NoSuchSelection("There is no such selection of yours here.")
    return selection
