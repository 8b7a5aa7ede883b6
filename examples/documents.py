"""Document intake: a PDF or Word document becomes a record at the ERP, with an index of its own to search in.

Read → index opened → passages → embedded, batch by batch → summary → summary indexed → fields → one record proposed. The
index is the workflow's own: when the job ends without its record, what was put there is taken out again, last first.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from examples import document_index as index
from examples.chunking import passages
from examples.document_index import Entry
from examples.model_client import ask, embed
from examples.text_extraction import Text, Unreadable, extract
from workflows.authoring import (
    Accepts,
    Amount,
    Ctx,
    Currency,
    FieldChange,
    FileDigest,
    Invalid,
    OperationDraft,
    Permanent,
    Problem,
    ProposalDraft,
    Retry,
    SourceRecord,
    Workflow,
)

MODEL, SMALL_MODEL, EMBEDDING = "atlas-large", "atlas-small", "atlas-embed"
DIMENSIONS = 64
BATCH = 2
"""Passages that are embedded in one call."""

SUMMARISED = 6000
"""Characters of the beginning that a summary is made of."""

QUESTIONS = (
    "supplier and subject of the agreement",
    "date on which it was signed",
    "total amount and currency",
)
FOUND = 2
"""Passages that are looked up for each question."""

_MODELS = Retry(attempts=3, first_wait=0.5, longest_wait=30)


class DocumentUpload(BaseModel):
    """What a submitter hands in."""

    model_config = ConfigDict(extra="forbid")

    reference: Annotated[str, StringConstraints(pattern=r"^[A-Z0-9][A-Z0-9-]{2,39}$")] = Field(
        title="Reference", description="Your own number, such as DOC-2026-0301. The record gets it, too."
    )
    document: Annotated[FileDigest, Accepts("pdf", "docx")] = Field(
        title="Document", description="A PDF with text in it, or a Word document."
    )
    erp: Literal["keyed", "lookup", "neither"] = Field(
        default="keyed",
        title="Receiver",
        description="Astrel ERP with operation keys (keyed), with a look-up only (lookup), or with neither.",
    )


class Document(BaseModel):
    """The text, and where it comes from."""

    name: str
    pages: int
    text: str


class Collection(BaseModel):
    """The index of this document."""

    collection: str


class Passage(BaseModel):
    id: str
    text: str


class Batch(BaseModel):
    """Passages that are embedded together."""

    number: int
    passages: list[Passage]


class Passages(BaseModel):
    batches: list[Batch]


class Embedded(BaseModel):
    """What one batch has put into the index."""

    ids: list[str]


class Summary(BaseModel):
    """What the model says that the document says."""

    summary: Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class Indexed(BaseModel):
    """The summary in the index."""

    id: str


class FoundFields(BaseModel):
    """What the model found; nothing where the document does not say it."""

    supplier: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None
    subject: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None
    signed_on: date | None
    total: Amount | None
    currency: Currency | None


class Fields(BaseModel):
    """All that a record needs."""

    supplier: str
    subject: str
    signed_on: date
    total: Amount
    currency: Currency


documents = Workflow(
    "document-intake",
    revision="1",
    input=DocumentUpload,
    title="Document intake",
    describe=lambda upload: f"Take in {upload.reference}",
    reference_of=lambda upload: str(upload.reference),
    settings={"models": [MODEL, SMALL_MODEL, EMBEDDING], "dimensions": DIMENSIONS, "prompts": 1},
)


@documents.validate
def validate(ctx: Ctx, upload: DocumentUpload) -> None:
    """A document that cannot be read ends here, with a sentence for whoever sent it."""
    try:
        _text_of(ctx, upload)
    except Unreadable as unreadable:
        raise Invalid(Problem("document", str(unreadable))) from unreadable


@documents.step(title="Extract text")
def read(ctx: Ctx, upload: DocumentUpload) -> Document:
    """The document's text, read in a process with limits."""
    text = _text_of(ctx, upload)
    return Document(name=ctx.read_file(upload.document).name, pages=text.pages, text=text.text)


@documents.step(title="Open an index")
def open_index(ctx: Ctx, document: Document) -> Collection:
    """A collection of this job's own."""
    name = f"document-{ctx.job_id}"
    index.open_collection(name, dimensions=DIMENSIONS, key=ctx.request_key)
    return Collection(collection=name)


@documents.step(title="Cut into passages")
def cut(ctx: Ctx, document: Document) -> Passages:
    """Passages in batches. Their ids say where they stand."""
    found = [Passage(id=f"p{n:04d}", text=text) for n, text in enumerate(passages(document.text), 1)]
    groups = [found[at : at + BATCH] for at in range(0, len(found), BATCH)]
    return Passages(batches=[Batch(number=n, passages=group) for n, group in enumerate(groups, 1)])


@documents.step(each=cut.batches, key="number", retry=_MODELS, title="Embed passages")
def embed_batch(ctx: Ctx, batch: Batch, collection: Collection) -> Embedded:
    """One call for the vectors, one for the index. Again, both give the same."""
    vectors = embed(ctx, [p.text for p in batch.passages], model=EMBEDDING, dimensions=DIMENSIONS)
    entries = [Entry(p.id, p.text, v) for p, v in zip(batch.passages, vectors, strict=True)]
    index.store(collection.collection, ctx.request_key, entries, key=ctx.request_key)
    return Embedded(ids=[e.id for e in entries])


@documents.step(retry=_MODELS, title="Summarise")
def summarise(ctx: Ctx, document: Document) -> Summary:
    """A summary of the beginning, for whoever approves."""
    prompt = f"Say in a few sentences what this document is about.\n<<<\n{document.text[:SUMMARISED]}\n>>>"
    return ask(ctx, task="summarise", prompt=prompt, schema=Summary, model=MODEL)


@documents.step(retry=_MODELS, title="Index the summary")
def index_summary(ctx: Ctx, summary: Summary, collection: Collection) -> Indexed:
    """The summary is found by search like any passage."""
    (vector,) = embed(ctx, [summary.summary], model=EMBEDDING, dimensions=DIMENSIONS)
    entry = Entry("summary", summary.summary, vector)
    index.store(collection.collection, ctx.request_key, [entry], key=ctx.request_key)
    return Indexed(id=entry.id)


@documents.step(retry=_MODELS, title="Extract fields")
def extract_fields(ctx: Ctx, upload: DocumentUpload, collection: Collection) -> Fields:
    """From the passages that are nearest to what is asked. What the document does not say is never made up."""
    vectors = embed(ctx, QUESTIONS, model=EMBEDDING, dimensions=DIMENSIONS)
    near = [
        text
        for vector in vectors
        for text in index.search(collection.collection, vector, limit=FOUND, key=ctx.request_key)
    ]
    content = "\n\n".join(dict.fromkeys(near))
    prompt = (
        f"Reference {upload.reference}. Give supplier, subject, signed_on, total and currency as the passages say them,"
        f" and null for what they do not say.\n<<<\n{content}\n>>>"
    )
    found = ask(ctx, task="extract-fields", prompt=prompt, schema=FoundFields, model=SMALL_MODEL)
    missing = [name for name, value in found if value is None]
    if missing:
        raise Permanent(f"The document does not say its {', '.join(m.replace('_', ' ') for m in missing)}.")
    return Fields.model_validate(found.model_dump())


@documents.propose(approval="document-records", title="Propose the record")
def propose(
    ctx: Ctx, upload: DocumentUpload, document: Document, summary: Summary, fields: Fields
) -> ProposalDraft:
    """One record at the ERP."""
    content = {
        "supplier": fields.supplier,
        "subject": fields.subject,
        "signed_on": fields.signed_on.isoformat(),
        "total_amount": f"{fields.total:f}",
        "currency": fields.currency,
        "document_sha256": upload.document,
    }
    operation = OperationDraft(
        receiver=f"astrel-erp-{upload.erp}",
        action="write-record",
        record=upload.reference,
        title=f"Write record {upload.reference}",
        changes=tuple(_change(name, value, upload) for name, value in content.items()),
        body=content,
        amount=fields.total,
        currency=fields.currency,
    )
    pages = f", {document.pages} pages" if document.pages else ""
    return ProposalDraft(
        title=f"Record {upload.reference}: {fields.subject}",
        summary=f"From {document.name}{pages}.",
        model_text=summary.summary,
        model_route=f"{MODEL}, {SMALL_MODEL}, {EMBEDDING}",
        amount=fields.total,
        currency=fields.currency,
        amount_label="Total of the agreement",
        recipient=fields.supplier,
        sources=(SourceRecord(name=document.name, version=upload.document[:16]),),
        operations=(operation,),
    )


# --- what is taken out again when the job ends without its record ---------------------------------------------------


@documents.compensate(index_summary)
def take_out_summary(ctx: Ctx, indexed: Indexed | None) -> None:
    """By the key that it was put in with, so that also what has no result is found."""
    index.delete_group(f"document-{ctx.job_id}", ctx.undoes, key=ctx.request_key)


@documents.compensate(embed_batch)
def take_out_batch(ctx: Ctx, embedded: Embedded | None) -> None:
    """Likewise, the last batch first."""
    index.delete_group(f"document-{ctx.job_id}", ctx.undoes, key=ctx.request_key)


@documents.compensate(open_index)
def close_index(ctx: Ctx, collection: Collection | None) -> None:
    """After everything that was in it."""
    index.delete_collection(f"document-{ctx.job_id}", key=ctx.request_key)


def _text_of(ctx: Ctx, upload: DocumentUpload) -> Text:
    return extract(ctx.read_file(upload.document))


def _change(name: str, value: str, upload: DocumentUpload) -> FieldChange:
    by_model = name != "document_sha256"
    return FieldChange(
        field=name,
        label="Document" if not by_model else name.replace("_", " ").capitalize(),
        proposed=value,
        source=f"Model {SMALL_MODEL}, from the document"
        if by_model
        else f"The submission {upload.reference}",
        by_model=by_model,
    )
