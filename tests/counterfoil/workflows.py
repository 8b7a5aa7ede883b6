"""The workflows that the kit's tests and the conformance tests run, the same through both."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from dispatch.authoring import find_record
from workflows.authoring import (
    Amount,
    Ctx,
    FieldChange,
    Invalid,
    OperationDraft,
    Permanent,
    Problem,
    ProposalDraft,
    Retry,
    Retryable,
    SourceRecord,
    Workflow,
)

RECEIVER = "ledger"


class Sheet(BaseModel):
    """Lines to be sorted; a line may say what becomes of it."""

    model_config = ConfigDict(extra="forbid")

    reference: str
    lines: list[str]
    records: list[str] = ["A-1"]
    independent: bool = False
    amount: Amount | None = None
    odd_limit: str = ""
    """Sent as `credit_limit`: the receiver refuses what is no amount."""


class Line(BaseModel):
    """One line, named by its number."""

    number: int
    text: str


class Lines(BaseModel):
    lines: list[Line]


class Kind(BaseModel):
    """What the model says."""

    kind: Literal["travel", "office"]


class Sorted(BaseModel):
    text: str
    kind: str
    attempt: int


class Loud(BaseModel):
    text: str


class Count(BaseModel):
    travel: int
    office: int


sheets = Workflow(
    "test-sheets",
    revision="1",
    input=Sheet,
    title="Sheets",
    describe=lambda sheet: f"Sheet {sheet.reference}",
    reference_of=lambda sheet: str(sheet.reference),
)


@sheets.validate
def validate(ctx: Ctx, sheet: Sheet) -> None:
    if not sheet.lines:
        raise Invalid(Problem("lines", "give at least one line"))


@sheets.step()
def read(ctx: Ctx, sheet: Sheet) -> Lines:
    return Lines(lines=[Line(number=n, text=text) for n, text in enumerate(sheet.lines, start=1)])


@sheets.step(each=read.lines, key="number", retry=Retry(attempts=3, first_wait=0.01, longest_wait=0.02))
def sort(ctx: Ctx, line: Line, sheet: Sheet) -> Sorted:
    if line.text == "permanent":
        raise Permanent("this line cannot be sorted")
    if line.text == "never":
        raise Retryable("not today")
    if line.text == "later" and ctx.attempt == 1:
        raise Retryable("busy", retry_after=0.01)
    kind = ctx.ask(f"task: sort\n{line.text}", answer=Kind, model="atlas-small")
    return Sorted(text=line.text, kind=kind.kind, attempt=ctx.attempt)


@sheets.step(each=sort)
def shout(ctx: Ctx, line: Sorted) -> Loud:
    return Loud(text=line.text.upper())


@sheets.step()
def count(ctx: Ctx, lines: list[Sorted], loud: list[Loud]) -> Count:
    assert [line.text.upper() for line in lines] == [line.text for line in loud]
    kinds = [line.kind for line in lines]
    return Count(travel=kinds.count("travel"), office=kinds.count("office"))


@sheets.propose(approval="sheets")
def propose(ctx: Ctx, sheet: Sheet, counted: Count) -> ProposalDraft:
    body = {"travel": str(counted.travel), "office": str(counted.office)}
    if sheet.odd_limit:
        body["credit_limit"] = sheet.odd_limit
    operations = [
        OperationDraft(
            receiver=RECEIVER,
            action="put",
            record=record,
            title=f"Write {record}",
            changes=(FieldChange(field="travel", label="Travel", proposed=body["travel"]),),
            body=body,
            independent=sheet.independent,
        )
        for record in sheet.records
    ]
    return ProposalDraft(
        title=f"Sheet {sheet.reference}",
        amount=sheet.amount,
        currency="EUR" if sheet.amount is not None else None,
        sources=(SourceRecord(name="price list", version="1"),),
        operations=tuple(operations),
    )


@sheets.source_version
def source_version(ctx: Ctx, source: SourceRecord, draft: ProposalDraft) -> str | None:
    found = find_record(ctx, receiver=RECEIVER, path="keyed/records/prices")
    return None if found is None else str(found["version"])


@sheets.recheck
def recheck(ctx: Ctx, draft: ProposalDraft) -> list[str]:
    found = find_record(ctx, receiver=RECEIVER, path="keyed/records/blocked")
    return [f"{draft.title} is blocked."] if found is not None else []
