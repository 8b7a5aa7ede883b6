"""What the answers to the requests of a check say about a contract. Pure: the same answers always judge the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dispatch.classification import Outcome, Reading
from dispatch.contracts import Contract
from dispatch.sights import Found, Sight
from dispatch.wire import Exchange

_DONE = (Outcome.APPLIED, Outcome.CONFLICTED)
PRECONDITION_FAILED = 412


class Verdict(StrEnum):
    """How one answer stands to the contract."""

    KEPT = "as promised"
    DIFFERS = "differs"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check."""

    name: str
    promised: str
    seen: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered request, and what the contract makes of it."""

    seen: Exchange
    reading: Reading

    @property
    def said(self) -> str:
        receipt = f", receipt {self.reading.receipt_id}" if self.reading.receipt_id else ""
        return f"{self.reading.fault}{receipt}"

    def marked(self, contract: Contract) -> bool:
        """Whether it bears the contract's mark of a stored answer."""
        name = contract.replay_header.lower()
        return bool(name) and name in {k.lower() for k in self.seen.headers}


def first_send(answer: Answer) -> Finding:
    """A fresh key: applied or accepted, and everything repeated as it was sent."""
    good = answer.reading.outcome in (Outcome.APPLIED, Outcome.PENDING)
    return _finding("First send", "applied or accepted", answer.said, good)


def repeat(contract: Contract, first: Answer, second: Answer, effects: int | None) -> Finding:
    """The same key and bytes again. `effects`: how many a look-up then counted, where it counts."""
    promised = "one effect" if contract.deduplicates else "a second effect"
    number = effects if effects is not None else _effects_told(contract, first, second)
    if number is None and second.reading.outcome in (*_DONE, Outcome.PENDING, Outcome.IN_PROGRESS):
        return Finding("Same key, same bytes", promised, f"{second.said}: nobody can tell", Verdict.UNCHECKED)
    if number is None:
        return Finding("Same key, same bytes", promised, second.said, Verdict.DIFFERS)
    seen = f"{'one effect' if number == 1 else f'{number} effects'}: {second.said}"
    return _finding("Same key, same bytes", promised, seen, (number == 1) == contract.deduplicates)


def marker(contract: Contract, first: Answer, second: Answer) -> Finding:
    """How a stored answer is marked: on the repeat, and not on the first."""
    name = contract.replay_header
    if name:
        seen = "on the first answer too" if first.marked(contract) else "on the repeat"
        if not second.marked(contract):
            seen = "not on the repeat"
        return _finding("Mark of a repeat", name, seen, seen == "on the repeat")
    strange = sorted(
        k for k in second.seen.headers.keys() - first.seen.headers.keys() if "replay" in k or "idempot" in k
    )
    return _finding("Mark of a repeat", "none", ", ".join(strange) or "none", not strange)


def other_bytes(contract: Contract, first: Answer, other: Answer, effects: int | None) -> Finding:
    """Another body under a key that was used."""
    named = bool(contract.mismatch_signals)
    promised = "refused as a mismatch" if named else "nothing, but no second effect"
    outcome = other.reading.outcome
    if outcome is Outcome.KEY_MISMATCH:
        return Finding("Same key, other bytes", promised, other.said, Verdict.KEPT)
    if outcome not in _DONE or named:
        why = "" if outcome in _DONE else ", which the contract does not name as a mismatch"
        return Finding("Same key, other bytes", promised, f"{other.said}{why}", Verdict.DIFFERS)
    number = effects if effects is not None else _by_receipt(first, other)
    if number is None:
        return Finding("Same key, other bytes", promised, f"{other.said}: nobody can tell", Verdict.UNCHECKED)
    return _finding("Same key, other bytes", promised, other.said, number == 1)


def together(contract: Contract, answers: Sequence[Answer], effects: int | None) -> Finding:
    """The same key and bytes twice at the same moment."""
    name, promised = "Same key at once", "one effect"
    said = "; ".join(a.said for a in answers)
    strange = [a for a in answers if not _is_named(contract, a)]
    done = [a for a in answers if a.reading.outcome in _DONE]
    receipts = {a.reading.receipt_id for a in done}
    if strange:
        words = f"{strange[0].said}, which the contract does not name"
        return Finding(name, promised, words, Verdict.DIFFERS)
    number = effects if effects is not None else (len(receipts) if done and "" not in receipts else None)
    if number is None:
        return Finding(name, promised, f"{said}: nobody can tell", Verdict.UNCHECKED)
    return _finding(name, promised, said, number == 1)


def found(contract: Contract, sight: Sight, *, pending: bool) -> Finding:
    """A look-up of what was just applied; `pending`: it was only accepted."""
    assert contract.lookup is not None
    promised = "found, as it was sent"
    if sight.found is Found.ABSENT and (pending or not contract.lookup.authoritative):
        return Finding("Look-up of what is there", promised, sight.summary, Verdict.UNCHECKED)
    return _finding("Look-up of what is there", promised, sight.summary, sight.found is Found.APPLIED)


def absent(sight: Sight) -> Finding:
    """A look-up of what was never sent."""
    named = sight.found is Found.ABSENT
    seen = sight.summary if named else f"{sight.summary}, which the contract does not name as absent"
    return _finding("Look-up of what is not there", "nothing there", seen, named)


def kept_errors(contract: Contract, refused: Answer, again: Answer, good: Answer) -> Finding:
    """A refused body twice, then a good one, under one key."""
    promised = "errors are kept" if contract.caches_errors == "all" else "errors are not kept"
    if refused.reading.outcome is not Outcome.REFUSED:
        return Finding("Errors under a key", promised, f"not refused: {refused.said}", Verdict.UNCHECKED)
    if good.reading.outcome in _DONE and not again.marked(contract):
        return _finding(
            "Errors under a key", promised, "errors are not kept", contract.caches_errors != "all"
        )
    same = good.seen.status == refused.seen.status or good.reading.outcome is Outcome.KEY_MISMATCH
    if not (same or again.marked(contract)):
        return Finding("Errors under a key", promised, good.said, Verdict.UNCHECKED)
    return _finding("Errors under a key", promised, f"kept: {good.said}", contract.caches_errors == "all")


def unchecked(name: str, promised: str, why: str) -> Finding:
    """What could not be asked, and why."""
    return Finding(name, promised, why, Verdict.UNCHECKED)


def _effects_told(contract: Contract, first: Answer, second: Answer) -> int | None:
    refused_as_there = second.seen.status == PRECONDITION_FAILED and second.reading.outcome is Outcome.REFUSED
    if second.reading.replayed or refused_as_there or second.marked(contract):
        return 1
    return _by_receipt(first, second)


def _by_receipt(first: Answer, second: Answer) -> int | None:
    if first.reading.outcome not in _DONE or second.reading.outcome not in _DONE:
        return None
    one, two = first.reading.receipt_id, second.reading.receipt_id
    return None if not (one and two) else 1 if one == two else 2


def _is_named(contract: Contract, answer: Answer) -> bool:
    conditional = any(a.precondition == "if_none_match" for a in contract.actions.values())
    if answer.seen.status == PRECONDITION_FAILED and conditional:
        return True
    return answer.reading.outcome in (*_DONE, Outcome.PENDING, Outcome.IN_PROGRESS)


def _finding(name: str, promised: str, seen: str, good: bool) -> Finding:
    return Finding(name, promised, seen, Verdict.KEPT if good else Verdict.DIFFERS)
