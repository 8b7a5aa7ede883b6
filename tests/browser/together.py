"""A workflow of small payments, whose policy allows bulk and asks for the password again above an amount."""

from __future__ import annotations

from decimal import Decimal

from django.utils import timezone
from pydantic import BaseModel

from access.models import Tenant
from access.roles import WORKER
from approvals.policies import read_rules, write_policy
from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Workflow

RULES = {
    "bulk": True,
    "reauthenticate": "above",
    "reauthenticate_above": {"amount": "1000.00", "currency": "EUR"},
}


class Payment(BaseModel):
    """One payment."""

    reference: str
    amount: str


together = Workflow(
    "test-together",
    revision="1",
    input=Payment,
    title="Small payments",
    describe=lambda p: f"Pay {p.reference}",
)


@together.propose(approval="test-together")
def pay(ctx: Ctx, payment: Payment) -> ProposalDraft:
    operation = OperationDraft(
        receiver="astrel-erp-keyed",
        action="write-record",
        record=payment.reference,
        title=f"Pay {payment.reference}",
        body={"reference": payment.reference, "total": payment.amount},
    )
    return ProposalDraft(
        title=f"Pay {payment.reference}",
        amount=Decimal(payment.amount),
        currency="EUR",
        amount_label="Payment",
        recipient=f"Recipient of {payment.reference}",
        operations=(operation,),
    )


def write_rules(slug: str) -> None:
    """The policy of these payments, in the organisation of this address."""
    write_policy(
        tenant_id=Tenant.objects.get(slug=slug).pk,
        name="test-together",
        rules=read_rules(RULES),
        created_by=WORKER,
        now=timezone.now(),
    )
