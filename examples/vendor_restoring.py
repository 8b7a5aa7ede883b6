"""Putting a vendor's record back: what takes back a change that the vendor onboarding has made.

An operator compensates the applied operation; the record gets the values that stood there before, after an approval of
its own. A field that somebody has changed since is left to them: then there is nothing to approve.
"""

from __future__ import annotations

from examples.vendor_onboarding import read_vendor
from workflows.authoring import (
    Applied,
    Ctx,
    FieldChange,
    OperationDraft,
    Permanent,
    ProposalDraft,
    SourceRecord,
    Workflow,
)

vendor_restoring = Workflow(
    "vendor-restoring",
    revision="1",
    input=Applied,
    compensates=("vendor-onboarding",),
    title="Restore vendor record",
    describe=lambda applied: f"Restore {applied.record}",
)


@vendor_restoring.propose(approval="vendor-records", title="Propose to restore")
def propose(ctx: Ctx, applied: Applied) -> ProposalDraft:
    """One call that writes back what stood there before."""
    record = read_vendor(ctx, applied.receiver, applied.record)
    standing = record.get("fields") or {}
    moved = [c.label for c in applied.changes if str(standing.get(c.field)) != c.proposed]
    if moved:
        raise Permanent(f"{', '.join(moved)} of {applied.record} was changed since by somebody else.")
    changes = tuple(
        FieldChange(
            field=c.field,
            label=c.label,
            current=c.proposed,
            proposed=c.current or "",
            source=f"{applied.operation} of {applied.job}",
        )
        for c in applied.changes
    )
    operation = OperationDraft(
        receiver=applied.receiver,
        action=applied.action,
        record=applied.record,
        title=f"Restore {applied.record}",
        changes=changes,
        body={c.field: c.proposed for c in changes},
        amount=applied.amount,
        currency=applied.currency,
    )
    return ProposalDraft(
        title=f"Restore vendor record {applied.record}",
        summary=f"Takes back {applied.operation} of {applied.job}: {applied.reason}",
        amount=applied.amount,
        currency=applied.currency,
        amount_label="Credit limit that is taken back",
        sources=(
            SourceRecord(name=applied.record, version=str(record.get("version", ""))),
            SourceRecord(name=f"Receipt of {applied.operation}", version=applied.receipt_id),
        ),
        operations=(operation,),
    )
