"""Why somebody may not decide: each reason a refusal of its own, with the few words that a list has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from access.refusals import NotPermitted

if TYPE_CHECKING:
    from approvals.models import Decision


class NotAnApprover(NotPermitted):
    """The person holds no role that decides proposals, is no longer active, or what was lent to them has ended."""

    short: ClassVar = "Only managers decide"


class FourEyes(NotPermitted):
    """The person, or whose authority they would use, started the job or had a hand in it."""

    def __init__(self, message: str, short: str) -> None:
        super().__init__(message)
        self.short = short


class Twice(NotPermitted):
    """The same authority would count twice: a person and whoever acts for them are one."""

    short: ClassVar = "Signed for you already"


class NotYourLevel(NotPermitted):
    """The level that is open asks for others."""

    def __init__(self, message: str, short: str) -> None:
        super().__init__(message)
        self.short = short


class OverLimit(NotPermitted):
    """The amount is above what the person may approve, or in a currency that it cannot be compared with."""

    short: ClassVar = "Over your limit"


class OverSum(NotPermitted):
    """Together with what was approved before it would be more than the policy allows."""

    short: ClassVar = "Over the sum allowed"


class NotInBulk(NotPermitted):
    """The policy, as it was frozen or as it is today, wants this decided by itself."""

    short: ClassVar = "Not in bulk"


class RecipientBlocked(NotPermitted):
    """Nothing may be approved for this recipient, by anybody."""

    short: ClassVar = "Recipient is blocked"


Objection = NotAnApprover | FourEyes | Twice | NotYourLevel | OverLimit | OverSum | RecipientBlocked


def lost(decision: Decision) -> NotAnApprover:
    """Why an approval has no authority behind it any more."""
    if not decision.person.is_active:
        return NotAnApprover(f"The account of {decision.person_name} is disabled.")
    if decision.delegation_id is not None:
        return NotAnApprover(
            f"What {decision.person_name} was lent has ended, or its giver is no longer a manager here."
        )
    return NotAnApprover(f"{decision.person_name} is no longer a manager here.")
