"""The one place from which connectors are called to send, to read and to look: what they do wrong is held here.

A class of the user's own may raise anything, forget the barrier or never have heard of it. Whether the mark was made is
known here and not by what it says. One that sent without asking for it, or broke without having asked, may have sent: that
is marked late and is doubt, and from then on it is marked before it is called.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime

from access.secrets import SecretMissing
from dispatch.classification import DEFINITELY_NOTHING, Outcome, Reading
from dispatch.connectors.seam import Connector, Sending
from dispatch.sights import Found, Sight
from dispatch.texts import kept, shown
from dispatch.wire import Barrier, Exchange, NotBegun
from web.redaction import hide

log = logging.getLogger(__name__)
UNASKED = "Unasked"
"""The `exception` of an exchange whose connector sent without asking the barrier, and what it sent could not be marked."""

_UNASKED = Reading(Outcome.UNKNOWN, "its connector sent without asking first; what left is not known")
_forgetful: set[type] = set()
"""Connectors that were seen to send, or to break, without asking."""


def send_through(connector: Connector, sending: Sending, barrier: Barrier) -> Exchange:
    """Send once through a connector and say what was seen. Never raises for what a connector or a receiver can do."""
    gate = _Gate(barrier)
    if not connector.calls_barrier or type(connector) in _forgetful:
        try:
            gate()
        except NotBegun as refused:
            return _refused(refused)
    try:
        seen = connector.send(sending, gate.once)
    except NotBegun as refused:
        seen = _refused(refused)
    except Exception as failed:
        # Somebody else's code. Once it has asked, the mark says whether anything can have left; before, nobody knows.
        log.exception("The connector %s failed", type(connector).__name__)
        seen = Exchange(marked=not gate.refused, exception=type(failed).__name__, message=_told(failed))
    if not gate.passed and (seen.marked or seen.written is not None):
        return _marked_late(connector, seen, gate)
    return replace(seen, marked=gate.passed)


def read_through(connector: Connector, seen: Exchange, sending: Sending, now: datetime) -> Reading:
    """What an exchange means. A connector that cannot say leaves doubt once anything can have left."""
    if seen.exception == UNASKED:
        return _UNASKED
    try:
        reading = connector.read(seen, sending, now)
    except Exception as failed:  # as above
        log.exception("The connector %s could not read an answer", type(connector).__name__)
        nothing = not seen.marked and seen.status is None
        outcome = Outcome.NOT_SENT if nothing else Outcome.UNKNOWN
        return Reading(outcome, f"its connector could not read the answer: {_told(failed)}"[:300])
    if not seen.marked and reading.outcome not in (*DEFINITELY_NOTHING, Outcome.REFUSED):
        return _UNASKED  # whatever it reads there, nobody was asked before it came about
    return replace(reading, fault=shown(reading.fault), receipt_id=kept(reading.receipt_id)[:200])


def look_through(connector: Connector, sending: Sending) -> Sight:
    """Ask what became of an operation. What goes wrong is no sight of anything."""
    try:
        sight = connector.look_up(sending)
        return replace(sight, summary=shown(sight.summary), receipt_id=kept(sight.receipt_id)[:200])
    except SecretMissing as missing:
        return Sight(Found.UNCLEAR, str(missing))
    except Exception as failed:  # as above
        log.exception("The connector %s could not look", type(connector).__name__)
        return Sight(Found.UNCLEAR, f"no answer ({type(failed).__name__})")


def _marked_late(connector: Connector, seen: Exchange, gate: _Gate) -> Exchange:
    """It may have sent without asking. An answer is an answer once the mark is made; where it no longer can be, it is doubt."""
    log.error("The connector %s may have sent without asking the barrier", type(connector).__name__)
    if not _ships(
        type(connector)
    ):  # ours do ask: what one receiver makes of one must not be every other's doubt
        _forgetful.add(type(connector))
    try:
        gate()
    except NotBegun:
        return replace(seen, marked=False, exception=UNASKED)
    return replace(seen, marked=True)


def _ships(of: type) -> bool:
    return of.__module__.startswith("dispatch.connectors.")


class _Gate:
    """The barrier, asked once: for a connector that is marked before it is called it stands open."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier
        self.passed = False
        self.refused = False

    def __call__(self) -> None:
        self.refused = True
        self._barrier()
        self.refused, self.passed = False, True

    def once(self) -> None:
        if not self.passed:
            self()


def _refused(refused: NotBegun) -> Exchange:
    return Exchange(marked=False, exception="NotBegun", message=str(refused)[:300])


def _told(failed: Exception) -> str:
    return hide(" ".join(str(failed).split()))[:200]
