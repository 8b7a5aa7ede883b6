"""Vendor onboarding: prepares a change of a vendor's record, waits for a manager, sends it to the ERP.

The receiver's contract is chosen by the submission, so that the same change can be tried against a receiver with
operation keys, with a look-up only, and with neither.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dispatch.authoring import find_record, read_record
from examples.model_client import ask
from workflows.authoring import (
    Amount,
    Ctx,
    Currency,
    FieldChange,
    Invalid,
    OperationDraft,
    Permanent,
    Problem,
    ProposalDraft,
    Retry,
    SourceRecord,
    Workflow,
)
from workflows.authoring.values import check_decimals

VENDOR = re.compile(r"V-[0-9]{5}")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
MODEL = "atlas-large"
Line = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]


class VendorChange(BaseModel):
    """What a submitter asks for."""

    model_config = ConfigDict(extra="forbid")

    reference: Annotated[str, StringConstraints(pattern=r"^[A-Z0-9][A-Z0-9-]{2,39}$")] = Field(
        title="Reference",
        description="Your own number for this request, such as VC-2026-0412. One job is made for each.",
    )
    vendor_id: Annotated[str, StringConstraints(min_length=1, max_length=40)] = Field(
        title="Vendor", description="The vendor's number at Astrel ERP, such as V-30417."
    )
    request: Annotated[str, StringConstraints(min_length=1, max_length=4000)] = Field(
        title="Request",
        description="What the vendor asks for, in their words.",
        json_schema_extra={"widget": "textarea"},
    )
    requested_limit: Amount = Field(title="New credit limit", description="With a point, such as 48200.00.")
    currency: Currency = Field(title="Currency", description="Three letters, such as EUR.")
    contact: Line = Field(title="Contact", description="E-mail address of the person at the vendor.")
    erp: Literal["keyed", "lookup", "neither", "later"] = Field(
        default="keyed",
        title="Receiver",
        description="Astrel ERP with operation keys (keyed), with a look-up only (lookup), with neither, or one that confirms later.",
    )


class VendorRecord(BaseModel):
    """The vendor's record as the ERP had it when it was read."""

    vendor_id: str
    version: int
    suspended: bool
    name: str
    credit_limit: Amount
    currency: str
    payment_terms: str


class Assessment(BaseModel):
    """What the model says about the request. Only its payment terms go into the proposal, marked as its own."""

    credit_limit: Amount
    payment_terms: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=4000)]


vendor_onboarding = Workflow(
    "vendor-onboarding",
    revision="2",
    input=VendorChange,
    title="Vendor onboarding",
    describe=lambda change: f"Update vendor record {change.vendor_id}",
    reference_of=lambda change: str(change.reference),
    settings={"model": MODEL, "prompt": 1},
)


@vendor_onboarding.validate
def validate(ctx: Ctx, change: VendorChange) -> None:
    """What the shape of the submission cannot say."""
    problems = []
    if not VENDOR.fullmatch(change.vendor_id):
        problems.append(Problem("vendor_id", "is not a vendor's number: write V- and five digits"))
    if not EMAIL.fullmatch(change.contact):
        problems.append(Problem("contact", "is not an e-mail address"))
    if change.requested_limit <= 0:
        problems.append(Problem("requested_limit", "has to be above zero"))
    else:
        try:
            check_decimals(change.requested_limit, change.currency)
        except ValueError as wrong:
            problems.append(Problem("requested_limit", str(wrong)))
    if problems:
        raise Invalid(*problems)


@vendor_onboarding.step(title="Read current record")
def read_current(ctx: Ctx, change: VendorChange) -> VendorRecord:
    """The record as it is, so that the proposal can show what changes."""
    return _record(change.vendor_id, _read(ctx, change.erp, change.vendor_id))


@vendor_onboarding.step(retry=Retry(attempts=3), title="Assess request")
def assess(ctx: Ctx, change: VendorChange, current: VendorRecord) -> Assessment:
    """The model's reading of the request."""
    prompt = (
        f"Reference {change.reference}. Vendor {current.vendor_id}, {current.name}: credit limit"
        f" {current.credit_limit:f} {current.currency}, payment terms {current.payment_terms}.\n"
        f"A new credit limit of {change.requested_limit:f} {change.currency} is asked for.\n<<<\n{change.request}\n>>>"
    )
    return ask(ctx, task="vendor-change", prompt=prompt, schema=Assessment, model=MODEL)


@vendor_onboarding.propose(approval="vendor-records", title="Propose change")
def propose(ctx: Ctx, change: VendorChange, current: VendorRecord, assessment: Assessment) -> ProposalDraft:
    """One call that writes the fields that change."""
    if current.suspended:
        raise Permanent(f"{current.vendor_id} ({current.name}) is suspended at the receiver.")
    if change.currency != current.currency:
        raise Permanent(
            f"{current.vendor_id} is kept in {current.currency}; a limit in {change.currency} cannot be compared."
        )
    changes = tuple(_changes(change, current, assessment))
    if not changes:
        raise Permanent(f"{current.vendor_id} already has this limit and these terms.")
    operation = OperationDraft(
        receiver=f"astrel-erp-{change.erp}",
        action="update-vendor",
        record=current.vendor_id,
        title=f"Update {current.vendor_id}, {current.name}",
        changes=changes,
        body={c.field: c.proposed for c in changes},
        amount=change.requested_limit,
        currency=change.currency,
    )
    return ProposalDraft(
        title=f"Update vendor record {current.vendor_id}, {current.name}",
        summary=_summary(change, current, assessment),
        model_text=assessment.reason,
        model_route=MODEL,
        amount=change.requested_limit,
        currency=change.currency,
        amount_label="New credit limit",
        recipient=current.name,
        sources=(SourceRecord(name=current.vendor_id, version=str(current.version)),),
        operations=(operation,),
    )


@vendor_onboarding.source_version
def source_version(ctx: Ctx, source: SourceRecord, draft: ProposalDraft) -> str | None:
    """Just before the send: the version that the ERP has of the record now; None where it has no such record any more."""
    erp = draft.operations[0].receiver.removeprefix("astrel-erp-")
    found = find_record(ctx, receiver=f"astrel-erp-{erp}", path=f"{erp}/vendors/{source.name}")
    return None if found is None else str(_record(source.name, found).version)


@vendor_onboarding.recheck
def recheck(ctx: Ctx, draft: ProposalDraft) -> list[str]:
    """Just before the send: has a vendor been suspended since the approval?"""
    objections = []
    for operation in draft.operations:
        erp = operation.receiver.removeprefix("astrel-erp-")
        if _record(operation.record, _read(ctx, erp, operation.record)).suspended:
            objections.append(f"{operation.record} was suspended at the receiver meanwhile.")
    return objections


def read_vendor(ctx: Ctx, receiver: str, vendor_id: str) -> dict[str, Any]:
    """A vendor's record as the ERP behind a receiver has it now."""
    return _read(ctx, receiver.removeprefix("astrel-erp-"), vendor_id)


def _read(ctx: Ctx, erp: str, vendor_id: str) -> dict[str, Any]:
    return read_record(ctx, receiver=f"astrel-erp-{erp}", path=f"{erp}/vendors/{vendor_id}")


def _record(vendor_id: str, content: dict[str, Any]) -> VendorRecord:
    fields = content.get("fields") or {}
    return VendorRecord(
        vendor_id=vendor_id,
        version=content.get("version", 0),
        suspended=content.get("suspended", False),
        name=fields.get("name") or vendor_id,
        credit_limit=fields.get("credit_limit") or Decimal(0),
        currency=fields.get("currency") or "",
        payment_terms=fields.get("payment_terms") or "",
    )


def _changes(change: VendorChange, current: VendorRecord, assessment: Assessment) -> list[FieldChange]:
    version = str(current.version)
    changes = []
    if change.requested_limit != current.credit_limit:
        changes.append(
            FieldChange(
                field="credit_limit",
                label="Credit limit",
                current=f"{current.credit_limit:.2f}",
                proposed=f"{change.requested_limit:.2f}",
                source=f"Request {change.reference}",
                source_version=version,
            )
        )
    if assessment.payment_terms != current.payment_terms:
        changes.append(
            FieldChange(
                field="payment_terms",
                label="Payment terms",
                current=current.payment_terms,
                proposed=assessment.payment_terms,
                source=f"Model {MODEL}",
                source_version=version,
                by_model=True,
            )
        )
    return changes


def _summary(change: VendorChange, current: VendorRecord, assessment: Assessment) -> str:
    difference = change.requested_limit - current.credit_limit
    moves = "rises" if difference >= 0 else "falls"
    told = (
        f"It is {current.credit_limit:,.2f} {current.currency} now, so exposure {moves} by"
        f" {abs(difference):,.2f} {change.currency}."
    )
    if assessment.credit_limit != change.requested_limit:
        told += f" The model suggests {assessment.credit_limit:,.2f}; the request is what is proposed."
    return told
