"""A refused decision as content: what was not recorded, who was first and when, and where to go on."""

from __future__ import annotations

import re
from datetime import datetime

from access.refusals import Conflict, Refused, status_of
from approvals.actions.asked import (
    AlreadyDecided,
    Expired,
    HeldOrCancelRequested,
    NoSuchVerdict,
    PasswordNeeded,
    ProposalClosed,
    SameAgain,
    StaleProposal,
)
from approvals.actions.refusing import SomebodyElseIsDeciding
from approvals.actions.remind import NothingToRemindOf, RemindedLately
from approvals.actions.withdraw import TooLateToWithdraw
from approvals.closing import HOW
from approvals.forms import Posted
from approvals.inbox import Place
from approvals.models import Closing, Proposal, Verdict
from approvals.objections import FourEyes, NotAnApprover, NotInBulk, NotYourLevel, OverLimit, OverSum, Twice
from web import times
from web.htmx import Conflict as Shown
from web.htmx import Side

TITLES: dict[type[Refused], str] = {
    StaleProposal: "This proposal changed while you were looking",
    SameAgain: "Another proposal asks for the same",
    AlreadyDecided: "You decided this already",
    ProposalClosed: "Somebody or something was first",
    Expired: "This proposal has expired",
    HeldOrCancelRequested: "This job stands still",
    NoSuchVerdict: "This is no decision",
    SomebodyElseIsDeciding: "Somebody else is at it at this moment",
    NotAnApprover: "Only managers decide",
    FourEyes: "Somebody else has to decide this",
    NotYourLevel: "Others sign this first",
    Twice: "This authority is used already",
    OverLimit: "This is above what you may approve",
    OverSum: "This would be more than the policy allows",
    NothingToRemindOf: "There is nothing to remind of",
    RemindedLately: "They were reminded a short while ago",
    NotInBulk: "This is decided by itself",
    PasswordNeeded: "Enter your password again",
}
WHAT = {
    Verdict.APPROVE.value: "signature",
    Verdict.REJECT.value: "rejection",
    Verdict.REQUEST_CHANGES.value: "request for changes",
    "withdraw": "withdrawal",
    "unsign": "withdrawal",
    "remind": "reminder",
}
_DIGEST = re.compile(r"[0-9a-f]{64}")


def refused_decision(
    refusal: Refused, asked: Posted, proposal: Proposal, place: Place, now: datetime
) -> Shown:
    """The content of a refusal. Needs a tenant's scope."""
    newer = _newer(proposal)
    looked_away = newer is not None or isinstance(refusal, StaleProposal)
    target = newer or proposal
    return Shown(
        title=TITLES[StaleProposal] if newer is not None else _title(refusal),
        not_done=_not_done(refusal, asked),
        because=str(refusal),
        was=_was(proposal, asked, now) if looked_away else None,
        now=_side("What it is now", target, target.digest) if looked_away else None,
        next_url=place.of("approval", target.pk),
        next_label="Read the new slip" if looked_away else "See how it is now",
        back_url=place.url,
        back_label="Back to the list",
        status=status_of(refusal),
    )


def _title(refusal: Refused) -> str:
    fallback = "Somebody or something was first" if isinstance(refusal, Conflict) else "This was not recorded"
    return next((title for family, title in TITLES.items() if isinstance(refusal, family)), fallback)


def _not_done(refusal: Refused, asked: Posted) -> str:
    what = WHAT.get(asked.verdict, "decision")
    # Whoever was first may have had it sent meanwhile, so that is not denied here.
    sent = (
        ""
        if isinstance(refusal, ProposalClosed | AlreadyDecided | TooLateToWithdraw)
        else " and nothing was sent"
    )
    return f"Your {what} was not recorded{sent}."


def _newer(proposal: Proposal) -> Proposal | None:
    later = Proposal.objects.filter(
        job_id=proposal.job_id, number__gt=proposal.number, closed_at__isnull=True
    )
    return later.defer("document").first()


def _was(proposal: Proposal, asked: Posted, now: datetime) -> Side:
    digest = asked.digest if _DIGEST.fullmatch(asked.digest) else ""
    stamp = ""
    if proposal.closed_at is not None:
        word = HOW[Closing(proposal.closing)].removeprefix("was ").split(" by ")[0]
        stamp = f"{word.capitalize()} {times.stamp_words(proposal.closed_at, now, seconds=False)}"
    elif digest != proposal.digest:
        stamp = "Void"
    return _side("What you were looking at", proposal, digest, stamp)


def _side(title: str, proposal: Proposal, digest: str, stamp: str = "") -> Side:
    return Side(
        title=title,
        number=proposal.label,
        digest=digest,
        stamp=stamp,
        facts=(("Frozen", times.full_words(proposal.frozen_at)),),
    )
