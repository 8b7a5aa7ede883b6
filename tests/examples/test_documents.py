"""The documents pipeline's own steps, against the real provider and index: what they make, and that it can be undone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples import documents
from examples.documents import Batch, Collection, Document, DocumentUpload, Fields, Passage, Summary
from examples.sample_documents import agreement, docx, pdf
from examples.simulators.client import IndexControl, ProviderControl, start_index, start_provider
from workflows.authoring import Ctx, File, FileKind, Invalid, Permanent
from workflows.file_kinds import kind_of

COLLECTION = Collection(collection="document-2")


@pytest.fixture(scope="module")
def simulators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProviderControl, IndexControl]]:
    folder: Path = tmp_path_factory.mktemp("simulators")
    with (
        start_provider(database=folder / "provider.sqlite3") as provider,
        start_index(database=folder / "index.sqlite3") as index,
    ):
        yield ProviderControl(provider.base_url), IndexControl(index.base_url)


@pytest.fixture
def index(simulators: tuple[ProviderControl, IndexControl], settings: Any) -> IndexControl:
    provider, index = simulators
    settings.COUNTERFOIL_PROVIDER_URL, settings.COUNTERFOIL_INDEX_URL = provider.base_url, index.base_url
    return index


def ctx(step: str, content: bytes = b"", **changes: Any) -> Ctx:
    kind = kind_of(content) or FileKind.TEXT
    made = Ctx(
        tenant_id=1, job_id=2, reference="DOC-1", item_key="1", attempt=1, request_key=f"key-{step}",
        reader=lambda digest: File("agreement.pdf", kind, content),
    )  # fmt: skip
    return replace(made, **changes)


def undoing(step: str) -> Ctx:
    return ctx(step, request_key=f"key-{step}-undo-1", undoes=f"key-{step}")


def upload(content: bytes = b"") -> DocumentUpload:
    return DocumentUpload(reference="DOC-1", document=hashlib.sha256(content).hexdigest())


def told(index: IndexControl) -> list[tuple[str, str, int]]:
    return [(c["kind"], c["group"], c["entries"]) for c in index.changes(collection=COLLECTION.collection)]


def batch(number: int, *texts: str) -> Batch:
    return Batch(number=number, passages=[Passage(id=f"p{number}{n}", text=t) for n, t in enumerate(texts)])


@pytest.fixture
def opened(index: IndexControl) -> Iterator[IndexControl]:
    documents.open_index(ctx("open"), Document(name="a", pages=1, text="a"))
    yield index
    documents.close_index(undoing("open"), COLLECTION)


@pytest.mark.parametrize("make", [pdf, docx])
def test_a_document_becomes_passages_with_names_of_their_own(make: Callable[[list[str]], bytes]) -> None:
    content = make(agreement())
    documents.validate(ctx("validate", content), upload(content))
    document = documents.read(ctx("read", content), upload(content))
    cut = documents.cut(ctx("cut"), document)
    ids = [p.id for b in cut.batches for p in b.passages]
    assert ids == [f"p{n:04d}" for n in range(1, len(ids) + 1)]
    assert [len(b.passages) for b in cut.batches[:-1]] == [documents.BATCH] * (len(cut.batches) - 1)
    assert "Fennmark Castings" in cut.batches[0].passages[0].text


def test_a_document_that_cannot_be_read_is_refused_at_its_field() -> None:
    content = pdf([])
    with pytest.raises(Invalid) as refused:
        documents.validate(ctx("validate", content), upload(content))
    assert [(p.field, p.message) for p in refused.value.problems] == [("document", "The PDF has no page.")]


def test_a_batch_that_is_embedded_twice_stands_once_and_says_what_it_used(opened: IndexControl) -> None:
    first = ctx("embed")
    assert documents.embed_batch(first, batch(1, "one text", "another text"), COLLECTION).ids == [
        "p10",
        "p11",
    ]
    documents.embed_batch(ctx("embed"), batch(1, "one text", "another text"), COLLECTION)
    assert [c["entries"] for c in opened.collections() if c["name"] == COLLECTION.collection] == [2]
    assert (first.usage.route, first.usage.tokens_in) == ("atlas-embed", 5)


def test_everything_that_was_put_in_is_taken_out_and_again_takes_out_nothing(index: IndexControl) -> None:
    before = len(told(index))
    documents.open_index(ctx("open"), Document(name="a", pages=1, text="a"))
    documents.embed_batch(ctx("embed-1"), batch(1, "one"), COLLECTION)
    documents.embed_batch(ctx("embed-2"), batch(2, "two", "three"), COLLECTION)
    indexed = documents.index_summary(ctx("summary"), Summary(summary="It is short."), COLLECTION)
    for _ in range(2):
        documents.take_out_summary(undoing("summary"), indexed)
        documents.take_out_batch(undoing("embed-2"), None)
        documents.take_out_batch(undoing("embed-1"), None)
        documents.close_index(undoing("open"), None)
    assert told(index)[before:] == [
        ("collection created", "", 0),
        ("entries stored", "key-embed-1", 1),
        ("entries stored", "key-embed-2", 2),
        ("entries stored", "key-summary", 1),
        ("group deleted", "key-summary", 1),
        ("group deleted", "key-embed-2", 2),
        ("group deleted", "key-embed-1", 1),
        ("collection deleted", "", 0),
    ]


def test_an_index_that_refuses_says_so_with_its_status(opened: IndexControl) -> None:
    opened.set_fault("status_403", method="DELETE", contains="/groups/")
    with pytest.raises(httpx.HTTPStatusError) as refused:
        documents.take_out_summary(undoing("summary"), None)
    assert refused.value.response.status_code == 403


def put_in(*texts: str) -> None:
    documents.embed_batch(ctx("embed"), batch(1, *texts), COLLECTION)


def test_fields_come_from_the_passages_that_are_nearest_to_what_is_asked(opened: IndexControl) -> None:
    put_in(
        "Supplier: Fennmark Castings\nSubject: Cold storage, the subject of the agreement",
        "Signed on: 2026-03-02, the date on which it was signed",
        "Total: 48,200.00 EUR is the total amount and currency",
        *(f"Clause {n} speaks of pallets, harbours and strikes." for n in range(20)),
    )
    fields = documents.extract_fields(ctx("fields"), upload(), COLLECTION)
    assert fields.model_dump(mode="json") == {
        "supplier": "Fennmark Castings",
        "subject": "Cold storage, the subject of the agreement",
        "signed_on": "2026-03-02",
        "total": "48200.00",
        "currency": "EUR",
    }


def test_what_a_document_does_not_say_stops_the_job_by_name(opened: IndexControl) -> None:
    put_in("Supplier: Fennmark Castings", "Subject: Cold storage", "Signed on: 2026-03-02")
    with pytest.raises(Permanent, match=r"^The document does not say its total, currency\.$"):
        documents.extract_fields(ctx("fields"), upload(), COLLECTION)


def test_the_record_names_the_document_that_it_was_made_of() -> None:
    given = upload(b"content")
    fields = Fields.model_validate(
        {
            "supplier": "S",
            "subject": "Cold storage",
            "signed_on": "2026-03-02",
            "total": "5.00",
            "currency": "EUR",
        }
    )
    draft = documents.propose(
        ctx("propose"), given, Document(name="a.pdf", pages=2, text="t"), Summary(summary="Short."), fields
    )
    (operation,) = draft.operations
    assert operation.body == {
        "supplier": "S",
        "subject": "Cold storage",
        "signed_on": "2026-03-02",
        "total_amount": "5.00",
        "currency": "EUR",
        "document_sha256": given.document,
    }
    assert {c.field for c in operation.changes if not c.by_model} == {"document_sha256"}
    assert (operation.record, draft.recipient, draft.summary) == ("DOC-1", "S", "From a.pdf, 2 pages.")
