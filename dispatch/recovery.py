"""What may be done by itself about an operation whose outcome is unknown. Pure: facts and contract in, a step out.

First one look where the receiver can be asked; then the same key and bytes while the receiver is known to recognise
them, once or twice; then the rest of the looks, of which the last is the one that can prove absence. After that only
a person or new evidence moves it: time never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dispatch.contracts import Contract, Lookup
from dispatch.states import NextStep

IN_PROGRESS_LIMIT = FUTILE_LIMIT = 8
"""How often in a row "still working on it", or a send that did not leave, is followed by another try."""

LONGEST_POLL = 3600.0
"""Seconds between two look-ups at what a receiver has accepted, unless its own schedule waits longer."""

A_MOMENT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rows say about an unknown operation. Look-ups count since its last send, `resubmissions` since the first;
    `in_progress` and `futile` (sends that definitely did nothing) count the last ones in a row."""

    now: datetime
    since: datetime
    quiet_at: datetime
    lookups: int = 0
    last_lookup_at: datetime | None = None
    resubmissions: int = 0
    in_progress: int = 0
    futile: int = 0
    safe_until: datetime | None = None
    confirm_by: datetime | None = None
    """Until when a receiver that has accepted it may still confirm it; None where nothing was accepted so."""

    slow: bool = False
    no_more_sends: bool = False
    stored_error: bool = False
    """Whether the last send was answered 500, which some receivers keep and repeat for ever."""

    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """The next step, when it is due, and why."""

    kind: NextStep
    at: datetime | None = None
    why: str = ""


def decide(facts: Facts, contract: Contract) -> Step:
    """The one next step. NONE means that no safe automatic step is left."""
    lookup = contract.lookup
    if lookup is not None and facts.confirm_by is not None:
        return _poll(facts, facts.confirm_by, lookup)
    if lookup is not None and facts.lookups == 0:
        return Step(NextStep.LOOK_UP, _at(facts, lookup.wait(0)), "asks the receiver first")
    if (at := _resubmission(facts, contract)) is not None:
        return Step(NextStep.RESUBMIT, at, "the receiver recognises the same key and bytes")
    if lookup is not None and facts.lookups < len(lookup.schedule):
        return Step(NextStep.LOOK_UP, _at(facts, lookup.wait(facts.lookups)), "asks the receiver again")
    counts_from = contract.absence_counts_from(facts.quiet_at)
    if counts_from is not None and (facts.last_lookup_at is None or facts.last_lookup_at < counts_from):
        return Step(NextStep.LOOK_UP, max(facts.now, counts_from), "from then on, finding nothing proves it")
    return Step(NextStep.NONE, why=_why_none(facts, contract))


def _poll(facts: Facts, until: datetime, lookup: Lookup) -> Step:
    """What was accepted is asked about on the schedule, then at growing intervals, and once more when the time is up."""
    last = facts.last_lookup_at
    if last is not None and last >= until:
        return Step(NextStep.NONE, why="it was accepted, but never confirmed")
    more = facts.lookups - len(lookup.schedule)
    if more < 0 or last is None:
        at = facts.since + timedelta(seconds=lookup.wait(min(facts.lookups, len(lookup.schedule) - 1)))
    else:
        wait = max(lookup.schedule[-1], 1.0)
        at = last + timedelta(seconds=min(wait * 2.0 ** min(more, 30), max(wait, LONGEST_POLL)))
    return Step(NextStep.LOOK_UP, max(facts.now, min(at, until)), "asks the receiver whether it is done")


def _at(facts: Facts, seconds: float) -> datetime:
    return max(facts.now, facts.since + timedelta(seconds=seconds))


def _resubmission(facts: Facts, contract: Contract) -> datetime | None:
    if facts.no_more_sends or facts.safe_until is None or not contract.has_window:
        return None
    if facts.stored_error and contract.caches_errors == "all":
        return None
    if facts.in_progress > IN_PROGRESS_LIMIT or facts.futile > FUTILE_LIMIT:
        return None
    in_a_row = facts.in_progress + facts.futile
    if not in_a_row and facts.resubmissions >= contract.automatic_resubmissions:
        return None
    wait = timedelta(seconds=contract.in_flight_max) if facts.slow else A_MOMENT * 2 ** min(in_a_row, 7)
    if facts.retry_after is not None:
        wait = max(wait, timedelta(seconds=facts.retry_after))
    at = max(facts.now, facts.since + wait)
    return at if at < facts.safe_until else None


def _why_none(facts: Facts, contract: Contract) -> str:
    if contract.lookup is None and not contract.deduplicates:
        return "the receiver offers neither key nor lookup"
    if facts.no_more_sends:
        return "nothing more may be sent, and the look-ups have ended"
    if facts.stored_error and contract.caches_errors == "all":
        return "the receiver keeps its error and would only repeat it"
    if contract.has_window and (facts.safe_until is None or facts.safe_until <= facts.now):
        return "the time in which the same key is safe has passed"
    return "the look-ups have ended and nothing more is sent by itself"


def in_a_row(outcomes: Sequence[str | None], *wanted: str) -> int:
    """How many of the last outcomes, without a gap, are among `wanted`."""
    count = 0
    for outcome in reversed(outcomes):
        if outcome not in wanted:
            break
        count += 1
    return count


def backoff(failures: int, *, share: float, asked: float | None = None) -> timedelta:
    """The wait before a send that definitely did nothing is tried again; `share` in [0, 1) spreads it.

    `asked`: seconds that the receiver asked for. They are waited, and a moment at least; after a while as long as without
    it, or a receiver that says "now" for ever would be sent to without a pause.
    """
    longest = min(2.0 ** min(failures, 10), 120.0)
    own = timedelta(seconds=longest * (0.5 + share / 2))
    if asked is None:
        return own
    return max(timedelta(seconds=asked), A_MOMENT if failures <= FUTILE_LIMIT else own)
