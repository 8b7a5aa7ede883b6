"""A contract in words, for the people who have to decide what it allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dispatch.callback_terms import Callbacks
from dispatch.contracts import NO_RETENTION, PERMANENT, UNPUBLISHED, Contract, KeyLocation

SECOND_PERSON = "A second person may choose to send again."
ADDED = "It is made when a request is sent, so no approver sees it, and the frozen bytes do not hold it."
CARRIED = {
    "smtp": "A mail server takes it. Nobody says whether it arrives, and it cannot be asked.",
    "": "A connector of a package of your own carries its requests.",
}
REPLAYS = {
    "first": "A repeated key is answered as the first send was.",
    "latest": "A repeated key is answered with what is there by then; a difference may be a later change.",
    "rebuilt": "A repeated key is answered anew from what is there by then; a difference may be a later change.",
}
ERRORS = {
    "none": "An error is not kept: the same key is worked on again.",
    "all": "An error is kept too, and repeated: after a 500 nothing is sent again by itself.",
    "2xx only": "Only successes are kept: after an error the same key is worked on again.",
}


@dataclass(frozen=True, slots=True)
class Term:
    """One line of a contract: `value` is "yes", "no" or a figure; `sentence` says what follows from it."""

    name: str
    value: str
    sentence: str


def explain(contract: Contract) -> list[Term]:
    """The terms that matter when an outcome is unknown, in the order in which they help; silent ones are left out."""
    always = [*_carried(contract), _key(contract), _retention(contract)]
    more = [term for say in _MORE if (term := say(contract)) is not None]
    return [*always, *more, _lookup(contract), _absence(contract), _again(contract), *_beside(contract)]


def _carried(contract: Contract) -> list[Term]:
    """What carries the requests and what is added when they are sent; nothing where that is HTTP with one secret."""
    found = []
    if contract.connector != "http":
        found.append(Term("Carried by", contract.connector, CARRIED.get(contract.connector, CARRIED[""])))
    if contract.oauth is not None:
        sentence = f"As {contract.oauth.client_id}, by a token from {contract.oauth.token_url}. {ADDED}"
        found.append(Term("Signs in", "OAuth", sentence))
    if (signing := contract.signing) is not None:
        sentence = f"{signing.header} has an HMAC under {signing.secret_reference}. {ADDED}"
        found.append(Term("Signs requests", signing.algorithm, sentence))
    if contract.tls is not None and contract.tls.certificate:
        sentence = f"The certificate of {contract.tls.certificate} says who asks."
        found.append(Term("Client certificate", "yes", sentence))
    if contract.tls is not None and contract.tls.authorities:
        sentence = f"Believed are the authorities of {contract.tls.authorities} and no public one."
        found.append(Term("Whose certificates", "its own", sentence))
    return found


def _key(contract: Contract) -> Term:
    name = "Deduplicates by key"
    place = "The key in the address" if contract.key_location is KeyLocation.URI else contract.key_name
    if contract.deduplicates:
        sentence = (
            f"{place}: the same key and bytes are one effect. Keys are compared within one {contract.scope}."
        )
        return Term(name, "yes", sentence)
    if contract.key_location is not KeyLocation.NONE:
        return Term(name, "no", f"It stores {place}, but a second send is a second effect.")
    return Term(name, "no", "A second send is a second effect.")


def _retention(contract: Contract) -> Term:
    name = "Remembers keys for"
    if not contract.deduplicates or contract.retention == NO_RETENTION:
        return Term(name, "no", f"There is no time in which sending again is safe. {SECOND_PERSON}")
    if contract.retention == UNPUBLISHED:
        sentence = f"Nobody says for how long, so it counts as no time and nothing is sent again by itself. {SECOND_PERSON}"
        return Term(name, "unpublished", sentence)
    if contract.retention == PERMANENT:
        return Term(name, "always", "The same key never becomes a new request.")
    kept = span(float(contract.retention))
    margin = (
        f", and counts as passed {span(contract.retention_margin)} earlier"
        if contract.retention_margin
        else ""
    )
    sentence = f"Counted from the first send{margin}. After {kept} this receiver treats the key as new."
    return Term(name, kept, sentence)


def _replay(contract: Contract) -> Term | None:
    if not contract.deduplicates:
        return None
    marked = f" {contract.replay_header} marks such an answer." if contract.replay_header else ""
    return Term("Answers a repeat", contract.replay_kind, f"{REPLAYS[contract.replay_kind]}{marked}")


def _errors(contract: Contract) -> Term | None:
    if not contract.deduplicates or contract.caches_errors == "none":
        return None
    return Term("Keeps errors", contract.caches_errors, ERRORS[contract.caches_errors])


def _mismatch(contract: Contract) -> Term | None:
    if not contract.deduplicates or contract.mismatch_signals:
        return None
    sentence = (
        "Nothing here says how it answers other bytes under the same key, so that could not be told apart."
    )
    return Term("Tells other bytes", "no", sentence)


def _duplicate(contract: Contract) -> Term | None:
    if not contract.duplicate_signals:
        return None
    if contract.duplicate_is_proof:
        sentence = (
            "Its refusal of a duplicate names what is there: that proves that an earlier send was applied."
        )
        return Term("Refuses duplicates", "proof", sentence)
    sentence = "That it refuses a duplicate settles nothing by itself; what is there has to be looked at."
    return Term("Refuses duplicates", "yes", sentence)


def _by_item(contract: Contract) -> Term | None:
    actions = sorted(n for n, a in contract.actions.items() if a.items is not None)
    sentence = "All items done is done, none is a refusal, and some of each is a question for a person."
    return Term("Answers by item", ", ".join(actions), sentence) if actions else None


def _creates(contract: Contract) -> Term | None:
    sentence = "Refused where something is there already, which may be what was sent before."
    return _conditional(contract, "if_none_match", "Creates only once", sentence)


def _versions(contract: Contract) -> Term | None:
    sentence = (
        "Refused where the record has another version by now, which what was sent before may have made."
    )
    return _conditional(contract, "if_match", "Changes one version", sentence)


def _conditional(contract: Contract, precondition: str, name: str, sentence: str) -> Term | None:
    actions = sorted(n for n, a in contract.actions.items() if a.precondition == precondition)
    return Term(name, ", ".join(actions), sentence) if actions else None


_MORE: tuple[Callable[[Contract], Term | None], ...] = (
    _replay,
    _errors,
    _mismatch,
    _duplicate,
    _creates,
    _versions,
    _by_item,
)


def _lookup(contract: Contract) -> Term:
    lookup = contract.lookup
    if lookup is None:
        says = "a person or its statement" if contract.statement_feed else "a person or a statement"
        return Term("Lookup", "no", f"Nobody but {says} can say what became of a request.")
    by_other = "the job's reference" if lookup.by_reference else "the record, which others may change too"
    asked = "our key" if lookup.by_key else by_other
    late = f" It may be {span(lookup.lag)} behind, so it is not asked earlier." if lookup.lag else ""
    if lookup.secret_reference:
        late += f" Asked under {lookup.secret_reference}, which need not be able to send."
    if lookup.authoritative:
        reads = "What it finds is so." if lookup.lag else "It reads its own writes, so what it finds is so."
        return Term("Lookup", "yes", f"Asks for {asked}. {reads}{late}")
    sentence = f"Asks for {asked}. What it finds is evidence; that it finds nothing is none.{late}"
    return Term("Lookup", "yes", sentence)


def _absence(contract: Contract) -> Term:
    lookup = contract.lookup
    if lookup is None:
        return Term("Absence proves", "no", "There is nowhere to look.")
    if lookup.absence_is_proof_after is None:
        return Term("Absence proves", "no", "Whoever looks up and finds nothing has seen nothing.")
    wait = span(contract.in_flight_max + lookup.lag + lookup.absence_is_proof_after)
    sentence = f"Nothing found {wait} after the send could last begin: not applied."
    return Term("Absence proves", f"after {wait}", sentence)


def _again(contract: Contract) -> Term:
    count = contract.automatic_resubmissions
    if not count:
        return Term("Sent again by itself", "never", "Any doubt goes to a person.")
    return Term("Sent again by itself", f"up to {count} ×", "With the same key and the same bytes.")


def _beside(contract: Contract) -> list[Term]:
    """What helps a person and is done by nobody here."""
    found = []
    if contract.sandbox:
        found.append(
            Term("Sandbox", "yes", "What it does there is not real, so its contract may be checked.")
        )
    if contract.confirmation == "later":
        within = span(contract.confirmation_within)
        found.append(
            Term("Confirms", f"within {within}", "An accepted request is not done yet; later it is unknown.")
        )
    if contract.callbacks is not None:
        found.append(_callbacks(contract.callbacks))
    if contract.cancel_by_key:
        sentence = f"A person can have it cancel what it did under the key: {contract.cancel_by_key}. Nothing does so by itself."
        found.append(Term("Cancels by key", "yes", sentence))
    if contract.statement_feed:
        feed = contract.statement_feed
        sentence = (
            "What it did stands in its statement by then. That something is missing before proves nothing."
        )
        found.append(Term("Statement", f"{feed.kind}, after {span(feed.lag)}", sentence))
    return found


def _callbacks(callbacks: Callbacks) -> Term:
    how = (
        "as Standard Webhooks says" if callbacks.scheme == "standard-webhooks" else callbacks.signature_header
    )
    by = "our key" if callbacks.key_path else "its own id"
    progress = callbacks.progress
    says = f"Its {progress.path} tells how far it is: {_either(progress.applied)} is applied"
    if progress.failed:
        says += f", {_either(progress.failed)} is not done"
    checked = (
        "What it repeats is compared with what was approved."
        if callbacks.is_compared
        else "Nothing of it is compared with what was approved."
    )
    late = (
        ""
        if callbacks.timestamp_header or callbacks.scheme != "hmac"
        else " No time is signed, so an old one counts."
    )
    return Term("Calls back", "signed", f"Signed {how}, names {by}. {says}. {checked}{late}")


def _either(words: tuple[str, ...]) -> str:
    return " or ".join(f"“{word}”" for word in words)


def span(seconds: float) -> str:
    """A time as people say it."""
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0 and (size != 86_400 or seconds > 86_400):
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:g} s"
