"""What a person reads off a receipt, compared with what was approved: with the asker, and again with the second person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from access.refusals import Unprocessable
from dispatch.models import Operation
from reconciliation.actions.working import text
from reconciliation.situation import Doubt, Situation
from web import amounts
from web.redaction import hide
from workflows.locks import lock_name


class DoesNotMatch(Unprocessable):
    """What was entered is not what was approved. `field` is the form's name of it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a person reads off a receipt. `amount` and `currency` stay empty where none was approved.

    `receipt_id` may be empty where the receipt itself is put to the case as a file.
    """

    receipt_id: str
    record: str
    obtained_from: str
    obtained_at: datetime
    amount: str = ""
    currency: str = ""

    @classmethod
    def read(cls, details: Mapping[str, str]) -> Receipt:
        """From the details of a request for a second person."""
        names = ("receipt_id", "record", "obtained_from", "amount", "currency")
        at = datetime.fromisoformat(details["obtained_at"])
        return cls(obtained_at=at, **{name: details[name] for name in names})

    @property
    def details(self) -> dict[str, str]:
        return {**asdict(self), "obtained_at": self.obtained_at.isoformat()}

    @property
    def title(self) -> str:
        number = self.receipt_id.strip()
        return f"Receipt {number}" if number else "A receipt without a number"

    def without_secrets(self) -> Receipt:
        """As it is kept: with the case, with the operation and with a request for a second person."""
        return replace(self, record=hide(self.record), obtained_from=hide(self.obtained_from))

    def as_text(self) -> str:
        """All that was entered, a line each."""
        lines = [
            f"receipt: {self.receipt_id.strip()}",
            f"record or payee: {self.record.strip()}",
            f"amount: {self.amount.strip()} {self.currency.strip()}".rstrip(),
            f"obtained from: {self.obtained_from.strip()}",
            f"obtained at: {self.obtained_at.isoformat()}",
        ]
        return "\n".join(lines)


def compare(situation: Situation, operation: Operation, receipt: Receipt, *, has_file: bool) -> None:
    """DoesNotMatch, with the field, or EvidenceMissing, unless the receipt says what was approved."""
    doubt = situation.doubt
    assert doubt is not None
    _compare_receipt_id(operation, receipt, has_file)
    _compare_amount(doubt, receipt)
    known = {operation.record.strip(), doubt.proposal.recipient.strip()} - {""}
    if receipt.record.strip() not in known:
        raise DoesNotMatch("record", "The record or payee on the receipt is not the one that was approved.")
    text(receipt.obtained_from, "Say who gave you the receipt, or where you found it.")
    sent_at = operation.first_may_have_been_sent_at
    if receipt.obtained_at > situation.clock:
        raise DoesNotMatch("obtained_at", "A receipt cannot have been obtained in the future.")
    # A person gives whole seconds; a receipt of the same second is not older.
    if sent_at is not None and receipt.obtained_at < sent_at.replace(microsecond=0):
        raise DoesNotMatch(
            "obtained_at", "The receipt is older than the first send, so it is for something else."
        )


def _compare_receipt_id(operation: Operation, receipt: Receipt, has_file: bool) -> None:
    number = receipt.receipt_id.strip()
    if not number and not has_file:
        raise DoesNotMatch("receipt_id", "Enter the receipt's number, or add the receipt as a file.")
    if len(number) > 200 or not number.isprintable():
        raise DoesNotMatch("receipt_id", "Enter the receipt's number, up to 200 printable characters.")
    if number:  # of two who put one receipt to two operations at once the second sees the first
        lock_name("receipt", operation.tenant_id, f"{operation.receiver_id} {number}")
    others = Operation.objects.filter(receiver=operation.receiver_id, receipt_id=number).exclude(
        pk=operation.pk
    )
    other = others.order_by("pk").first() if number else None
    if other is not None:
        raise DoesNotMatch("receipt_id", f"This receipt is the one of {other.label} already.")


def _compare_amount(doubt: Doubt, receipt: Receipt) -> None:
    if doubt.amount is None:
        if receipt.amount.strip() or receipt.currency.strip():
            raise DoesNotMatch(
                "amount", "No amount was approved. Leave it empty, or look at the receipt again."
            )
        return
    if receipt.currency.strip().upper() != doubt.currency:
        raise DoesNotMatch("currency", "The currency on the receipt is not the one that was approved.")
    try:
        amount = amounts.typed(receipt.amount)
    except ValueError as not_one:
        raise DoesNotMatch("amount", str(not_one)) from None
    if amount != doubt.amount:
        raise DoesNotMatch("amount", "The amount on the receipt is not the one that was approved.")
