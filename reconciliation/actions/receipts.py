"""Confirming an unknown outcome with a receipt that a person holds in their hands.

They enter what the receipt says without being shown what it should say; it counts where that is what was approved, and
above a limit of the policy once a second person agrees.
"""

from __future__ import annotations

from datetime import datetime

from reconciliation.actions import carrying_out, seconding
from reconciliation.actions.carrying_out import Deed
from reconciliation.actions.comparing import Receipt, compare
from reconciliation.actions.outcomes import begin
from reconciliation.actions.working import Worked, operator, worked, working
from reconciliation.casework import keep_evidence
from reconciliation.kinds import VerbName
from reconciliation.models import EvidenceKind
from reconciliation.papers import Paper
from reconciliation.verbs import needs_second
from web.redaction import hide


def confirm_with_receipt(
    *,
    tenant_id: int,
    case_id: int,
    person_id: int,
    version: int,
    receipt: Receipt,
    now: datetime,
    note: str = "",
    paper: Paper | None = None,
) -> Worked:
    """Settle an unknown operation as applied, by a receipt that agrees with what was approved; above a limit of the
    policy, ask a second person to.

    `record` is the record or the payee; `paper` the receipt itself, which may stand in for its number. Locks job →
    operations → case. Raises NoSuchCase, NotPermitted, StaleCase, NotAllowedNow, DoesNotMatch (with the field),
    EvidenceMissing, SameVerbAsked, and dispatch's NotInDoubt and StillSending.
    """
    with working(tenant_id, case_id, person_id, VerbName.CONFIRM_WITH_RECEIPT.value):
        situation, operation = begin(case_id, version, person_id, VerbName.CONFIRM_WITH_RECEIPT)
        actor = operator(person_id)
        receipt = receipt.without_secrets()
        compare(situation, operation, receipt, has_file=paper is not None)
        said = hide(f"{receipt.title}, obtained from {receipt.obtained_from}. {note}".strip())
        details = {**receipt.details, "file": "" if paper is None else paper.digest}
        deed = Deed(VerbName.CONFIRM_WITH_RECEIPT, said, details, actor, None, now)
        request = None
        if needs_second(VerbName.CONFIRM_WITH_RECEIPT, situation):
            request = seconding.ask_for_second(situation, deed)
        keep_evidence(
            job=situation.job, case=situation.case, summary=said, source=receipt.obtained_from, actor=actor, now=now,
            kind=EvidenceKind.RECEIPT, detail=receipt.as_text(), proves="attests applied",
            taken_at=receipt.obtained_at, paper=paper,
        )  # fmt: skip
        if request is not None:
            return worked(case_id, situation.job, "Asked for. A second person has to agree.", request.pk)
        return worked(case_id, situation.job, carrying_out.carry_out(situation, operation, deed))
