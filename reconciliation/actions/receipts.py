"""Confirming an unknown outcome with a receipt that a person holds in their hands.

They enter what the receipt says without being shown what it should say; it counts where that is what was approved.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from access.refusals import Unprocessable
from dispatch import settling
from dispatch.models import Operation
from reconciliation.actions.outcomes import begin
from reconciliation.actions.working import Worked, operator, text, worked, working
from reconciliation.casework import close_case, keep_evidence
from reconciliation.kinds import VerbName
from reconciliation.models import EvidenceKind
from reconciliation.situation import Doubt, Situation


class DoesNotMatch(Unprocessable):
    """What was entered is not what was approved. `field` is the form's name of it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a person reads off a receipt. `amount` and `currency` stay empty where none was approved."""

    receipt_id: str
    record: str
    obtained_from: str
    obtained_at: datetime
    amount: str = ""
    currency: str = ""


def confirm_with_receipt(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    receipt: Receipt,
    now: datetime,
    note: str = "",
) -> Worked:
    """Settle an unknown operation as applied, by a receipt that agrees with what was approved.

    `record` is the record or the payee. Locks job → operations → case. Raises NoSuchCase, NotPermitted, StaleCase,
    NotAllowedNow, DoesNotMatch (with the field), EvidenceMissing, and dispatch's NotInDoubt and StillSending.
    """
    with working(tenant_id, case_id, person_id, VerbName.CONFIRM_WITH_RECEIPT.value):
        situation, operation = begin(case_id, version, person_id, VerbName.CONFIRM_WITH_RECEIPT)
        actor = operator(person_id)
        _compare(situation, operation, receipt)
        said = f"Receipt {receipt.receipt_id}, obtained from {receipt.obtained_from}. {note}".strip()
        row = keep_evidence(
            job=situation.job, case=situation.case, summary=said, source=receipt.obtained_from, actor=actor, now=now,
            kind=EvidenceKind.RECEIPT, detail=_as_text(receipt), proves="attests applied",
            taken_at=receipt.obtained_at,
        )  # fmt: skip
        close_case(
            job=situation.job, case=situation.case, resolution="applied, by receipt", reason=said, actor=actor, now=now
        )  # fmt: skip
        settling.settle_confirmed(
            job=situation.job, operation=operation, kind="receipt", summary=f"{actor.name}: {said}",
            receipt_id=receipt.receipt_id.strip(), actor=actor, now=now, detail=row.detail,
        )  # fmt: skip
        return worked(
            case_id, situation.job, f"{operation.label} is confirmed by receipt {receipt.receipt_id}."
        )


def _compare(situation: Situation, operation: Operation, receipt: Receipt) -> None:
    doubt = situation.doubt
    assert doubt is not None
    _compare_receipt_id(operation, receipt)
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


def _compare_receipt_id(operation: Operation, receipt: Receipt) -> None:
    number = receipt.receipt_id.strip()
    if not number or len(number) > 200 or not number.isprintable():
        raise DoesNotMatch("receipt_id", "Enter the receipt's number, up to 200 printable characters.")
    others = Operation.objects.filter(receiver=operation.receiver_id, receipt_id=number).exclude(
        pk=operation.pk
    )
    other = others.order_by("pk").first()
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
        amount = Decimal(receipt.amount.strip())
    except InvalidOperation:
        raise DoesNotMatch("amount", "Enter the amount in figures, such as 4800.00.") from None
    if not amount.is_finite() or amount != doubt.amount:
        raise DoesNotMatch("amount", "The amount on the receipt is not the one that was approved.")


def _as_text(receipt: Receipt) -> str:
    lines = [
        f"receipt: {receipt.receipt_id.strip()}",
        f"record or payee: {receipt.record.strip()}",
        f"amount: {receipt.amount.strip()} {receipt.currency.strip()}".rstrip(),
        f"obtained from: {receipt.obtained_from.strip()}",
        f"obtained at: {receipt.obtained_at.isoformat()}",
    ]
    return "\n".join(lines)
