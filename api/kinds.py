"""What a refusal of a decision is called in a problem document: one stable `type` each, whatever its sentence says.

The types are addresses: GET answers with what the type means. A name here is part of the API and is never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from access.reentry import TooManyWrong, WrongPassword
from access.refusals import Refused
from approvals.actions import asked
from approvals.actions.refusing import SomebodyElseIsDeciding
from approvals.locks import NoSuchProposal
from approvals.objections import FourEyes, NotAnApprover, NotInBulk, NotYourLevel, OverLimit, OverSum, Twice
from approvals.reasons import ReasonMissing


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of problem: its name in the address, its title, and what a client does about it."""

    name: str
    title: str
    meaning: str


KINDS: dict[type[Refused], Kind] = {
    NoSuchProposal: Kind(
        "no-such-proposal",
        "There is no such proposal here",
        "No proposal of this organisation has this number.",
    ),
    asked.NoSuchVerdict: Kind(
        "no-such-verdict", "This is no decision", "Send approve, reject or request changes, with the digest."
    ),
    ReasonMissing: Kind(
        "reason-missing",
        "The reason is missing or too long",
        "Reject and request changes need a reason that can be kept.",
    ),
    asked.StaleProposal: Kind(
        "stale-digest",
        "This is not the digest of the proposal",
        "Read the proposal again, and decide on the digest that it has.",
    ),
    asked.SameAgain: Kind(
        "same-again",
        "Another proposal asks for the same",
        "Look at the proposals under `same`. To have it done again, send the newest one's number as `knows_of`.",
    ),
    asked.AlreadyDecided: Kind(
        "already-decided", "You decided this already", "Your earlier verdict stands; it was another one."
    ),
    asked.ProposalClosed: Kind(
        "proposal-closed",
        "Somebody or something was first",
        "The proposal no longer waits. The detail says who decided, or how it ended.",
    ),
    asked.Expired: Kind(
        "proposal-expired", "This proposal has expired", "It can be proposed again, and then decided."
    ),
    asked.HeldOrCancelRequested: Kind(
        "job-stands-still", "This job stands still", "The job is held, or somebody asked to cancel it."
    ),
    SomebodyElseIsDeciding: Kind(
        "busy", "Somebody else is at it at this moment", "Nothing was done. Send the same again."
    ),
    NotAnApprover: Kind(
        "not-an-approver", "Only managers decide", "The person holds no role here that decides."
    ),
    FourEyes: Kind(
        "four-eyes", "Somebody else has to decide this", "The person started the job or had a hand in it."
    ),
    NotYourLevel: Kind(
        "not-your-level", "Others sign this now", "The level that is open asks for another role or group."
    ),
    Twice: Kind("authority-used", "This authority is used already", "Nobody's authority counts twice."),
    OverLimit: Kind(
        "over-limit",
        "This is above what you may approve",
        "The amount is above the person's limit, or cannot be compared with it. Saying no is possible.",
    ),
    OverSum: Kind(
        "over-sum",
        "This would be more than the policy allows",
        "With what was approved before, it is above a sum that the policy allows.",
    ),
    NotInBulk: Kind(
        "not-in-bulk",
        "This is decided by itself",
        "The policy does not allow deciding it together with others.",
    ),
    asked.PasswordNeeded: Kind(
        "password-needed",
        "The password has to be entered again",
        "Post it to /api/v1/password-entry in this session, and then the decision again within five minutes.",
    ),
    WrongPassword: Kind(
        "wrong-password", "This is not the password", "Five wrong ones in fifteen minutes lock the entry."
    ),
    TooManyWrong: Kind(
        "too-many-wrong-passwords",
        "There were too many wrong passwords",
        "No password is looked at until the time that the detail names.",
    ),
}
WRONG_BODY = Kind(
    "wrong-body",
    "The body has wrong members",
    "The errors name each member that is missing, wrong or not known.",
)
_BY_NAME = {kind.name: kind for kind in (*KINDS.values(), WRONG_BODY)}


def kind_of(refusal: Refused) -> Kind | None:
    """The type of a refusal, if it has one of its own."""
    return next((KINDS[c] for c in type(refusal).__mro__ if c in KINDS), None)


def address(kind: Kind) -> str:
    """Where a type says what it means."""
    return reverse("api:problem", args=[kind.name])


def called(name: str) -> Kind | None:
    """The type of a name, if there is one."""
    return _BY_NAME.get(name)
