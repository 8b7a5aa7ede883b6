"""Workflows of what only some need: parts that are enough, waits, compensation, a deadline, a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from workflows.authoring import (
    Ctx,
    Event,
    FileDigest,
    Needs,
    OperationDraft,
    Permanent,
    ProposalDraft,
    Question,
    Retry,
    Retryable,
    Sleep,
    Woken,
    Workflow,
)


class Parcel(BaseModel):
    """What to do in each part: ok, stop, later or never."""

    reference: str
    parts: list[str] = ["ok"]
    sleep_minutes: int = 60
    fails: bool = False


class Part(BaseModel):
    text: str


class Parts(BaseModel):
    parts: list[Part]


class Packed(BaseModel):
    text: str


class Slot(BaseModel):
    """What a person chooses."""

    day: str


class Shipment(BaseModel):
    """What the carrier tells."""

    tracking: str


class Booked(BaseModel):
    room: str


def _propose(ctx: Ctx, parcel: Parcel) -> ProposalDraft:
    if parcel.fails:
        raise Permanent("nothing to propose")
    operation = OperationDraft(
        receiver="ledger", action="put", record=parcel.reference, title="Write it", body={"done": "yes"}
    )
    return ProposalDraft(title="Write it", operations=(operation,))


parcels = Workflow("test-parcels", revision="1", input=Parcel, deadline=timedelta(hours=2))


@parcels.step()
def unpack(ctx: Ctx, parcel: Parcel) -> Parts:
    return Parts(parts=[Part(text=text) for text in parcel.parts])


@parcels.step(
    each=unpack.parts,
    needs=Needs(share=0.5, patience=30),
    skippable=True,
    retry=Retry(attempts=3, first_wait=0.01, longest_wait=0.02),
)
def pack(ctx: Ctx, part: Part) -> Packed:
    if part.text == "stop":
        raise Permanent("broken glass")
    if part.text == "later" and ctx.attempt == 1:
        raise Retryable("no box", retry_after=0.05)
    if part.text == "much later":
        raise Retryable("no box", retry_after=3600)
    return Packed(text=part.text)


@parcels.propose(approval="parcels")
def propose_parcel(ctx: Ctx, parcel: Parcel, packed: list[Packed]) -> ProposalDraft:
    return _propose(ctx, parcel)


strict = Workflow("test-strict", revision="1", input=Parcel)


@strict.step()
def unpack_all(ctx: Ctx, parcel: Parcel) -> Parts:
    return Parts(parts=[Part(text=text) for text in parcel.parts])


@strict.step(each=unpack_all.parts, skippable=True)
def pack_all(ctx: Ctx, part: Part) -> Packed:
    if part.text == "stop":
        raise Permanent("broken glass")
    return Packed(text=part.text)


@strict.propose(approval="parcels")
def propose_strict(ctx: Ctx, parcel: Parcel, packed: list[Packed]) -> ProposalDraft:
    if not packed:
        raise Permanent("nothing is packed")
    return _propose(ctx, parcel)


waits = Workflow("test-waits", revision="1", input=Parcel)


@waits.step()
def rest(ctx: Ctx, parcel: Parcel) -> Sleep | Woken:
    if not parcel.sleep_minutes:
        return Woken(at=datetime(2026, 1, 1, tzinfo=UTC))
    return Sleep(timedelta(minutes=parcel.sleep_minutes))


@waits.step()
def choose(ctx: Ctx, parcel: Parcel, woken: Woken) -> Question[Slot]:
    return Question(f"When may {parcel.reference} come?", role="submitter", within=timedelta(days=2))


@waits.step()
def ship(ctx: Ctx, parcel: Parcel, slot: Slot) -> Event[Shipment]:
    return Event(key=f"shipment {parcel.reference}", within=timedelta(days=3))


@waits.propose(approval="parcels")
def propose_shipment(ctx: Ctx, parcel: Parcel, shipment: Shipment) -> ProposalDraft:
    return _propose(ctx, parcel)


rooms = Workflow("test-rooms", revision="1", input=Parcel)
BOOKED: dict[str, str] = {}
"""What the steps below made outside, by the request key that they made it with."""
BROKEN: list[str] = []
"""How often undoing still fails."""


@rooms.step()
def book_hall(ctx: Ctx, parcel: Parcel) -> Booked:
    BOOKED[ctx.request_key] = "hall"
    return Booked(room="hall")


@rooms.step()
def list_rooms(ctx: Ctx, parcel: Parcel) -> Parts:
    return Parts(parts=[Part(text=text) for text in parcel.parts])


@rooms.step(each=list_rooms.parts)
def book_room(ctx: Ctx, part: Part) -> Packed:
    BOOKED[ctx.request_key] = part.text
    return Packed(text=part.text)


@rooms.propose(approval="parcels")
def propose_rooms(ctx: Ctx, parcel: Parcel) -> ProposalDraft:
    return _propose(ctx, parcel)


@rooms.compensate(book_hall)
def leave_hall(ctx: Ctx, booked: Booked) -> None:
    if BROKEN:
        BROKEN.pop()
        raise Retryable("the door is locked")
    del BOOKED[ctx.undoes]


@rooms.compensate(book_room)
def leave_room(ctx: Ctx, booked: Packed) -> None:
    del BOOKED[ctx.undoes]


class Letter(BaseModel):
    reference: str
    letter: FileDigest


class Read(BaseModel):
    words: int


letters = Workflow("test-letters", revision="1", input=Letter)


@letters.step()
def read_letter(ctx: Ctx, letter: Letter) -> Read:
    return Read(words=len(ctx.read_file(letter.letter).content.split()))


@letters.propose(approval="parcels")
def propose_letter(ctx: Ctx, letter: Letter, read: Read) -> ProposalDraft:
    operation = OperationDraft(
        receiver="ledger",
        action="put",
        record=letter.reference,
        title="Write it",
        body={"words": str(read.words)},
    )
    return ProposalDraft(title="Write it", operations=(operation,))
