"""What a callback says of an operation. Pure: the same bytes under the same terms always read the same."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from dispatch.callback_terms import Callbacks, Stage
from dispatch.comparison import Unreadable, differences, differing, read_json, receipt_of
from dispatch.paths import word_at

DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Told:
    """A callback as it was read: which operation it names, by our key or the receiver's own id, and its word for it."""

    content: dict[str, Any]
    key: str = ""
    receipt_id: str = ""
    word: str = ""
    stage: Stage = Stage.UNCLEAR
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What it comes to for the operation that it names. `detail`: what differs, as JSON."""

    name: str
    summary: str
    detail: str = ""

    @property
    def proves(self) -> bool:
        return self.name in (Stage.APPLIED, Stage.FAILED, DIFFERS)


def read_callback(body: bytes, terms: Callbacks) -> Told:
    """The parts that every callback has. What cannot be read is told so, and names no operation."""
    try:
        content = read_json(body)
    except Unreadable as unreadable:
        return Told({}, problem=str(unreadable).replace("the answer", "it"))
    return Told(
        content=content,
        key=word_at(content, terms.key_path)[:100],
        receipt_id=receipt_of(terms, content),
        word=word_at(content, terms.progress.path)[:100],
        stage=terms.progress.stage_of(content),
    )


def finding_of(told: Told, terms: Callbacks, *, sent: bytes, record: str) -> Finding:
    """What it says of the operation with these approved bytes. Only what says "applied" is compared with them."""
    said = f'it says "{told.word}"' if told.word else "it does not say how far it is"
    if told.stage is not Stage.APPLIED:
        unknown = ", which its contract does not name" if told.word and told.stage is Stage.UNCLEAR else ""
        return Finding(told.stage.value, f"{said}{unknown}")
    differs = [
        *differences(terms, sent=sent, record=record, content=told.content),
        *differing(terms.compared, sent=sent, content=told.content),
    ]
    if differs:
        names = ", ".join(d.field for d in differs)
        return Finding(
            DIFFERS, f"{said}, but differs: {names}"[:500], json.dumps([asdict(d) for d in differs])
        )
    return Finding(Stage.APPLIED.value, said)
