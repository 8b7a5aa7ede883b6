"""Record enrichment: a list of vendors, each completed by a model and two APIs; one approval, then one write a vendor.

Every question is a work item of its own. What one API refuses for a while is asked again when it says so, and nothing
that was answered before, by it or by the others, is asked twice.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from examples.bureau_client import find_company, rating_of
from examples.model_client import ask
from workflows.authoring import (
    Ctx,
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

MODEL = "atlas-small"
COLUMNS = ("vendor_id", "name", "city", "industry", "rating")
MOST_RECORDS = 500
LONGEST_VALUE = 200
TOLD_PROBLEMS = 10
VENDOR = re.compile(r"V-[0-9]{5}")
PATIENT = Retry(attempts=6, first_wait=1, longest_wait=60, longest_retry_after=900)
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]
Country = Annotated[str, StringConstraints(pattern=r"^([A-Z]{2})?$")]


class VendorList(BaseModel):
    """What a submitter hands in."""

    model_config = ConfigDict(extra="forbid")

    reference: Annotated[str, StringConstraints(pattern=r"^[A-Z0-9][A-Z0-9-]{2,39}$")] = Field(
        title="Reference", description="Your own number, such as ENR-2026-03. One job is made for each."
    )
    records: Annotated[str, StringConstraints(min_length=1, max_length=200_000)] = Field(
        title="Vendors",
        description=f"As CSV with the columns {', '.join(COLUMNS)}; at most {MOST_RECORDS} vendors. What is not known stays empty.",
        json_schema_extra={"widget": "file"},
    )
    erp: Literal["keyed", "lookup", "neither"] = Field(
        default="keyed",
        title="Receiver",
        description="Astrel ERP with operation keys (keyed), with a look-up only (lookup), or with neither.",
    )


class Vendor(BaseModel):
    """One line of the list: the vendor's record as it is."""

    vendor_id: str
    name: str
    city: str = ""
    industry: str = ""
    rating: str = ""


class Vendors(BaseModel):
    """The list taken apart."""

    vendors: list[Vendor]


class EntryAnswer(BaseModel):
    """What the model answers about an entry that a clerk typed."""

    name: Name
    country: Country
    industry: Name


class Entry(BaseModel):
    """A vendor with what the model reads in its line."""

    vendor_id: str
    vendor: Vendor
    name: Name
    country: Country
    industry: Name


class Registered(BaseModel):
    """A vendor with what the register knows of it; `number` is empty where it knows nothing."""

    vendor_id: str
    vendor: Vendor
    name: str
    industry: str
    number: str = ""


class Enriched(Registered):
    """A vendor with everything that was found out."""

    rating: str = ""
    rated_on: str = ""


record_enrichment = Workflow(
    "record-enrichment",
    revision="1",
    input=VendorList,
    title="Record enrichment",
    describe=lambda upload: f"Enrich the vendors of {upload.reference}",
    reference_of=lambda upload: str(upload.reference),
    settings={"model": MODEL, "prompt": 1},
)


@record_enrichment.validate
def validate(ctx: Ctx, upload: VendorList) -> None:
    """Every line is a vendor, and every vendor has one line."""
    problems = [Problem("records", why) for why in _problems(upload.records)]
    if problems:
        raise Invalid(*problems[:TOLD_PROBLEMS])


@record_enrichment.step(title="Read list")
def read_list(ctx: Ctx, upload: VendorList) -> Vendors:
    """The list's lines, in their order."""
    return Vendors(vendors=list(_vendors(upload.records)))


@record_enrichment.step(
    each=read_list.vendors, key="vendor_id", limit="model", retry=PATIENT, title="Read entry"
)
def read_entry(ctx: Ctx, vendor: Vendor) -> Entry:
    """The model's reading of a name and a city as a clerk typed them."""
    prompt = f"Give the company's plain name, its country and its industry.\n<<<\n{vendor.name}\n{vendor.city}\n>>>"
    answer = ask(ctx, task=f"read-vendor {vendor.vendor_id}", prompt=prompt, schema=EntryAnswer, model=MODEL)
    return Entry(vendor_id=vendor.vendor_id, vendor=vendor, **answer.model_dump())


@record_enrichment.step(each=read_entry, limit="company-register", retry=PATIENT, title="Look up in register")
def look_up(ctx: Ctx, entry: Entry) -> Registered:
    """The register's name and number of the company."""
    company = find_company(ctx, country=entry.country, name=entry.name) if entry.country else None
    return Registered(
        vendor_id=entry.vendor_id,
        vendor=entry.vendor,
        name=company.legal_name if company else entry.name,
        industry=entry.industry,
        number=company.number if company else "",
    )


@record_enrichment.step(each=look_up, limit="credit-ratings", retry=PATIENT, title="Ask for rating")
def rate(ctx: Ctx, found: Registered) -> Enriched:
    """The credit rating of a company that is registered."""
    if not found.number:
        return Enriched(**found.model_dump())
    rated = rating_of(ctx, number=found.number)
    return Enriched(**found.model_dump(), rating=rated.rating, rated_on=rated.as_of)


@record_enrichment.propose(approval="vendor-enrichment", title="Propose writes")
def propose(ctx: Ctx, upload: VendorList, enriched: list[Enriched]) -> ProposalDraft:
    """One write for each vendor that changes. None waits for another."""
    registered = [one for one in enriched if one.number]
    operations = [operation for one in registered if (operation := _operation(upload, one)) is not None]
    if not operations:
        raise Permanent(f"No vendor of {upload.reference} would change.")
    return ProposalDraft(
        title=f"Enrich {_several(len(operations), 'vendor record')}",
        summary=_summary(enriched, operations),
        model_route=MODEL,
        recipient="Astrel ERP",
        sources=tuple(_sources(upload, registered)),
        operations=tuple(operations),
    )


def _operation(upload: VendorList, one: Enriched) -> OperationDraft | None:
    changes = tuple(_changes(upload, one))
    if not changes:
        return None
    return OperationDraft(
        receiver=f"astrel-erp-{upload.erp}",
        action="update-vendor",
        record=one.vendor_id,
        title=f"Enrich {one.vendor_id}, {one.name}",
        changes=changes,
        body={c.field: c.proposed for c in changes},
        independent=True,
    )


def _changes(upload: VendorList, one: Enriched) -> Iterator[FieldChange]:
    vendor, register = one.vendor, "Company register"
    for field, label, current, proposed, source in (
        ("name", "Name", vendor.name, one.name, register),
        ("register_number", "Register number", "", one.number, register),
        ("industry", "Industry", vendor.industry, one.industry, f"Model {MODEL}"),
        ("credit_rating", "Credit rating", vendor.rating, one.rating, "Credit ratings"),
    ):
        if proposed != current:
            yield FieldChange(
                field=field,
                label=label,
                current=current or None,
                proposed=proposed,
                source=source,
                by_model=field == "industry",
            )


def _sources(upload: VendorList, registered: Sequence[Enriched]) -> Iterator[SourceRecord]:
    digest = hashlib.sha256(upload.records.encode()).hexdigest()
    yield SourceRecord(name=f"Vendor list {upload.reference}", version=digest[:12])
    yield SourceRecord(name="Credit ratings", version=max(one.rated_on for one in registered))


def _summary(enriched: Sequence[Enriched], operations: Sequence[OperationDraft]) -> str:
    fields = Counter(change.label for operation in operations for change in operation.changes)
    told = f"Of {_several(len(enriched), 'vendor')}, {len(operations)} change: " + ", ".join(
        f"{label.lower()} of {count}" for label, count in fields.most_common()
    )
    unknown = [one.vendor_id for one in enriched if not one.number]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        told += f". Not in the register, so left as they are: {', '.join(unknown[:5])}{more}"
    return f"{told}."


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# --- the list ---------------------------------------------------------------------------------------------------------


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """The rows that hold something, each with its line's number, the header first. Raises csv.Error."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    return [(reader.line_num, [value.strip() for value in row]) for row in reader if row]


def _vendors(text: str) -> Iterator[Vendor]:
    for _, row in _lines(text)[1:]:
        yield Vendor(**dict(zip(COLUMNS, row, strict=True)))


def _problems(text: str) -> Iterator[str]:
    """What is wrong with a list, each as a sentence that names the line."""
    try:
        header, *rows = _lines(text) or [(0, [])]
    except csv.Error as broken:
        yield f"is not CSV that can be read: {broken}"
        return
    if header[1] != list(COLUMNS):
        yield f"the first line has to be: {','.join(COLUMNS)}"
    elif not 1 <= len(rows) <= MOST_RECORDS:
        yield f"has {len(rows)} vendors; a set has 1 to {MOST_RECORDS} of them, so divide a longer list"
    else:
        yield from _problems_of(rows)


def _problems_of(rows: Sequence[tuple[int, list[str]]]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for line, row in rows:
        if len(row) != len(COLUMNS):
            yield f"line {line} has {len(row)} columns instead of {len(COLUMNS)}"
            continue
        vendor_id, name = row[0], row[1]
        if not VENDOR.fullmatch(vendor_id):
            yield f"line {line}: {vendor_id[:40] or 'nothing'} is not a vendor's number: write V- and five digits"
        elif (first := seen.setdefault(vendor_id, line)) != line:
            yield f"line {line}: {vendor_id} stands on line {first} already"
        if not name:
            yield f"line {line}: the name is missing"
        if max(map(len, row)) > LONGEST_VALUE:
            yield f"line {line}: a value is longer than {LONGEST_VALUE} characters"
