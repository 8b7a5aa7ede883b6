"""A contract in words, for the people who have to decide what it allows."""

from __future__ import annotations

from dataclasses import dataclass

from dispatch.contracts import NO_RETENTION, PERMANENT, UNPUBLISHED, Contract, KeyLocation


@dataclass(frozen=True, slots=True)
class Term:
    """One line of a contract: `value` is "yes", "no" or a figure; `sentence` says what follows from it."""

    name: str
    value: str
    sentence: str


def explain(contract: Contract) -> list[Term]:
    """The terms that matter when an outcome is unknown, in the order in which they help."""
    return [_key(contract), _retention(contract), _lookup(contract), _absence(contract), _again(contract)]


def _key(contract: Contract) -> Term:
    if contract.deduplicates:
        return Term(
            "Deduplicates by key", "yes", f"{contract.key_name}: the same key and bytes are one effect."
        )
    if contract.key_location is not KeyLocation.NONE:
        sentence = f"It stores {contract.key_name}, but a second send is a second effect."
        return Term("Deduplicates by key", "no", sentence)
    return Term("Deduplicates by key", "no", "A second send is a second effect.")


def _retention(contract: Contract) -> Term:
    if not contract.deduplicates or contract.retention == NO_RETENTION:
        return Term("Remembers keys for", "no", "There is no time in which sending again is safe.")
    if contract.retention == UNPUBLISHED:
        return Term("Remembers keys for", "unpublished", "Nothing is sent again by itself.")
    if contract.retention == PERMANENT:
        return Term("Remembers keys for", "always", "The same key never becomes a new request.")
    return Term(
        "Remembers keys for",
        _span(float(contract.retention)),
        f"Counted from the first send, less {_span(contract.retention_margin)}; after that the same key is a new request.",
    )


def _lookup(contract: Contract) -> Term:
    if contract.lookup is None:
        return Term("Lookup", "no", "Nobody but a person or a statement can say what became of a request.")
    if contract.lookup.authoritative:
        return Term("Lookup", "yes", "It reads its own writes, so what it finds is so.")
    return Term("Lookup", "yes", "What it finds is evidence; that it finds nothing is none.")


def _absence(contract: Contract) -> Term:
    lookup = contract.lookup
    if lookup is None or lookup.absence_is_proof_after is None:
        return Term("Absence proves", "no", 'A lookup that finds nothing does not mean "not applied".')
    wait = _span(contract.in_flight_max + lookup.absence_is_proof_after)
    return Term(
        "Absence proves",
        f"after {wait}",
        f"Nothing found {wait} after the send could last begin: not applied.",
    )


def _again(contract: Contract) -> Term:
    count = contract.automatic_resubmissions
    if not count:
        return Term("Sent again by itself", "never", "Any doubt goes to a person.")
    return Term("Sent again by itself", f"up to {count} ×", "With the same key and the same bytes.")


def _span(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0 and (size != 86_400 or seconds > 86_400):
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
