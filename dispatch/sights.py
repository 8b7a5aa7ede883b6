"""What an answer to a look-up says. Pure: the same answer under the same contract always reads the same."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from dispatch.answers import Heard, heard
from dispatch.callback_terms import Stage
from dispatch.comparison import Unreadable, differences, read_json, receipt_of
from dispatch.contracts import Action, Contract, Lookup
from dispatch.item_terms import told_of
from dispatch.paths import at_path, word_at
from dispatch.wire import Exchange, Request


class Found(StrEnum):
    """What a look-up saw."""

    APPLIED = "applied"  # there, as approved
    DIFFERS = "differs"  # there, but not as approved
    DUPLICATE = "duplicate"  # there more than once
    ABSENT = "absent"  # not there
    FAILED = "failed"  # the receiver has it, and says that it was not done
    PENDING = "pending"  # the receiver has it, and is not done yet
    UNCLEAR = "unclear"  # the answer says neither


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look-up came to. `heard`: what was asked and answered; empty where a connector does not say."""

    found: Found
    summary: str
    receipt_id: str = ""
    detail: str = ""
    heard: Heard | None = field(default=None, repr=False)

    def of(self, request: Request, seen: Exchange) -> Sight:
        """The same with the question and the answer that it was read from."""
        return replace(self, heard=heard(request, seen))


def read_sight(
    seen: Exchange, contract: Contract, action: Action | None, *, sent: bytes, record: str
) -> Sight:
    """What an answer to a look-up says. An error, a page or a refusal is never "not there"."""
    assert contract.lookup is not None
    if seen.status is None:
        return Sight(Found.UNCLEAR, f"no answer ({seen.exception})")
    try:
        content = {} if seen.body_problem else read_json(seen.body)
    except Unreadable as unreadable:
        return Sight(Found.UNCLEAR, f"answered {seen.status}, but {unreadable}")
    if any(s.matches(seen.status, content) for s in contract.lookup.absent):
        return Sight(Found.ABSENT, f"answered {seen.status}: nothing there")
    if seen.status not in contract.lookup.found or not content or action is None:
        return Sight(Found.UNCLEAR, f"answered {seen.status}")
    receipt, count = receipt_of(action, content), _count(contract.lookup, content)
    if count is None:
        return Sight(Found.UNCLEAR, f"answered {seen.status}, but does not say how many there are")
    if count == 0:
        return Sight(Found.ABSENT, f"answered {seen.status}: nothing there")
    if contract.lookup.progress is not None:
        stage = contract.lookup.progress.stage_of(content)
        if stage is not Stage.APPLIED:
            word = word_at(content, contract.lookup.progress.path)[:100]
            said = f'it says "{word}"' if word else "it does not say how far it is"
            return Sight(Found(stage.value), f"answered {seen.status}: {said}", receipt)
    if action.items is not None and at_path(content, action.items.path) is not None:
        items = told_of(action.items, sent=sent, content=content)
        if items.is_mixed:
            detail = json.dumps([asdict(d) for d in items.refused])
            return Sight(Found.DIFFERS, f"there, but only in part: {items.summary}", receipt, detail)
        if items.stage is not Stage.APPLIED:
            return Sight(Found(items.stage.value), f"answered {seen.status}: {items.summary}", receipt)
    if count > 1:
        return Sight(Found.DUPLICATE, f"the receiver holds {count} effects under this key", receipt)
    differs = differences(action, sent=sent, record=record, content=content, fields=action.echo_fields)
    if differs:
        names = ", ".join(d.field for d in differs)
        return Sight(
            Found.DIFFERS,
            f"there, but it differs: {names}",
            receipt,
            json.dumps([asdict(d) for d in differs]),
        )
    compared = action.record_path or action.echo_path or action.items is not None
    if action.receipt_required and not (receipt or compared):
        # A page that says "found: nothing" looks just like this.
        return Sight(
            Found.UNCLEAR, f"answered {seen.status} without a receipt, and nothing in it can be compared"
        )
    return Sight(Found.APPLIED, "there, as approved", receipt)


def _count(lookup: Lookup, content: dict[str, Any]) -> int | None:
    """How many effects an answer counts; None where its place for that holds no number and no list."""
    if not lookup.count_path:
        return 1
    told, word = at_path(content, lookup.count_path), word_at(content, lookup.count_path)
    if isinstance(told, list):
        return len(told)
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None
