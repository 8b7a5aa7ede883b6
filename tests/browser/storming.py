"""A workflow of many small writes at once, and a receiver of its own that is looked up but once by itself."""

from __future__ import annotations

from django.utils import timezone
from pydantic import BaseModel, Field

from access.models import Tenant
from access.roles import WORKER
from access.tenancy import acting
from approvals.policies import write_policy
from approvals.ruleset import RuleSet
from dispatch.actions.receivers import keep_contract, keep_receiver
from dispatch.contracts import Lookup
from dispatch.presets import KEYED
from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Workflow

RECEIVER, TITLE = "test-storm", "Tern Payments"


class Batch(BaseModel):
    """So many entries."""

    reference: str
    size: int = Field(ge=1, le=50)


storm = Workflow(
    "test-storm",
    revision="1",
    input=Batch,
    title="Batch of entries",
    describe=lambda b: f"Enter {b.reference}",
)


@storm.propose(approval="test-storm")
def enter(ctx: Ctx, batch: Batch) -> ProposalDraft:
    operations = tuple(
        OperationDraft(
            receiver=RECEIVER,
            action="write-record",
            record=f"{batch.reference}-{number}",
            title=f"Enter {batch.reference}-{number}",
            body={"entry": str(number)},
            independent=True,
        )
        for number in range(1, batch.size + 1)
    )
    return ProposalDraft(title=f"Enter {batch.reference}", operations=operations)


def prepare(slug: str, erp_url: str) -> None:
    """The receiver with its contract, and a policy that waives the approval of these entries."""
    tenant, now = Tenant.objects.get(slug=slug), timezone.now()
    write_policy(
        tenant_id=tenant.pk,
        name="test-storm",
        rules=RuleSet(waives_approval=True),
        created_by=WORKER,
        now=now,
    )
    assert KEYED.contract.lookup is not None
    once = Lookup.model_validate({**KEYED.contract.lookup.model_dump(), "schedule": (0.1,)})
    contract = KEYED.contract.model_copy(update={"lookup": once, "automatic_resubmissions": 0})
    with acting(tenant.pk):
        receiver = keep_receiver(
            tenant_id=tenant.pk, name=RECEIVER, title=TITLE, base_url=erp_url, account="", secret_reference="",
            actor=WORKER,
        )  # fmt: skip
        terms = contract.model_dump(mode="json")
        keep_contract(
            receiver_id=receiver.receiver_id, terms=terms, source="the tests", actor=WORKER, now=now
        )
