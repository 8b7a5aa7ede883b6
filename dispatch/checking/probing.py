"""The requests of a check, in their order: each under a key of its own making, to one made-up record.

Nothing here knows rows. The caller has told what is sent, and is outside any transaction.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier as Gate
from typing import Any

from approvals.rendering import FrozenRequest
from dispatch.checking import judging
from dispatch.checking.judging import Answer, Finding
from dispatch.classification import Outcome
from dispatch.connectors.calling import look_through, read_through, send_through
from dispatch.connectors.registry import connector
from dispatch.connectors.seam import Credentials, Sending
from dispatch.contracts import Contract
from dispatch.requests import Place
from dispatch.sights import Found, Sight
from dispatch.wire import Barrier, Request
from workflows import clock
from workflows.authoring import OperationDraft

LONGEST_LAG = 60.0
"""Seconds: a look-up that is further behind is not waited for."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked and with what. `other`: another body for a used key; `refused`: one that it turns down, if known."""

    contract: Contract
    place: Place
    action: str
    record: str
    body: dict[str, Any]
    other: dict[str, Any]
    refused: dict[str, Any] | None = None
    record_version: str = ""
    credentials: Credentials = field(default_factory=Credentials, repr=False)


class Stopped(Exception):
    """A request did not leave, so that nothing can be said of its answer; the message says why."""


class Probe:
    """One check. Its three keys are made when it is; `sends` tells what it will send before it does. Raises CannotRender,
    NoSuchConnector."""

    def __init__(
        self, subject: Subject, barrier: Barrier, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._subject, self._barrier, self._pause = subject, barrier, pause
        self._contract = subject.contract
        self._connector = connector(subject.contract.connector)
        self._first = self._request(subject.body, None)
        self._other = self._request(subject.other, self._first.operation_key)
        self._together = self._request(subject.body, None)
        self._good = self._request(subject.body, None)
        bad = subject.refused
        self._bad = self._request(bad, self._good.operation_key) if bad is not None else None

    def sends(self) -> list[tuple[str, FrozenRequest]]:
        """Everything that changes something there, in its order, and why each is sent."""
        listed = [("a first send", self._first), ("the same again", self._first)]
        if not self._contract.deduplicates:
            return listed
        listed += [("other bytes under the same key", self._other)]
        listed += [("twice at the same moment", self._together)] * 2
        if self._bad is not None:
            listed += [("what it refuses, twice", self._bad)] * 2
            listed += [("then a good one under that key", self._good)]
        return listed

    def run(self) -> Iterator[Finding]:
        """Send, ask and judge, finding by finding; it ends with the first where that one was not applied. Raises Stopped."""
        contract = self._contract
        first = self._send(self._first)
        yield judging.first_send(first)
        if first.reading.outcome not in (Outcome.APPLIED, Outcome.CONFLICTED, Outcome.PENDING):
            return
        yield from self._look_ups(pending=first.reading.outcome is Outcome.PENDING)
        second = self._send(self._first)
        yield judging.repeat(contract, first, second, self._effects(self._first))
        if not contract.deduplicates:
            return
        yield judging.marker(contract, first, second)
        other = self._send(self._other)
        yield judging.other_bytes(contract, first, other, self._effects(self._first))
        yield judging.together(contract, self._send_twice(self._together), self._effects(self._together))
        yield self._errors()

    def _look_ups(self, *, pending: bool) -> Iterator[Finding]:
        lookup = self._contract.lookup
        if lookup is None:
            yield judging.unchecked("Look-ups", "none", "the contract names none")
            return
        if lookup.by_reference:
            yield judging.unchecked("Look-ups", "by the job's reference", "a check has no job")
            return
        if lookup.lag > LONGEST_LAG:
            yield judging.unchecked(
                "Look-up of what is there", "found, as it was sent", "it may be too far behind"
            )
        else:
            self._pause(lookup.lag)
            yield judging.found(self._contract, self._look(self._first), pending=pending)
        yield judging.absent(
            self._look(self._request(self._subject.body, None, f"{self._subject.record}-NONE"))
        )

    def _errors(self) -> Finding:
        if self._bad is None:
            promised = "errors are kept" if self._contract.caches_errors == "all" else "errors are not kept"
            return judging.unchecked("Errors under a key", promised, "no body is known that it refuses")
        refused, again = self._send(self._bad), self._send(self._bad)
        return judging.kept_errors(self._contract, refused, again, self._send(self._good))

    def _effects(self, request: FrozenRequest) -> int | None:
        """How many effects a look-up counts under a key; None where it does not count, or says nothing."""
        lookup = self._contract.lookup
        if lookup is None or not (lookup.by_key and lookup.count_path) or lookup.lag or lookup.by_reference:
            return None
        sight = self._look(request)
        if sight.found is Found.DUPLICATE:
            return 2
        return 1 if sight.found in (Found.APPLIED, Found.DIFFERS) else None

    def _send_twice(self, request: FrozenRequest) -> list[Answer]:
        gate = Gate(2)

        def one() -> Answer:
            gate.wait(timeout=10)
            return self._send(request)

        with ThreadPoolExecutor(max_workers=2) as threads:
            return [f.result() for f in [threads.submit(one) for _ in range(2)]]

    def _send(self, request: FrozenRequest) -> Answer:
        sending = self._sending(request)
        seen = send_through(self._connector, sending, self._barrier)
        reading = read_through(self._connector, seen, sending, clock.now())
        if not seen.marked:
            raise Stopped(reading.fault)
        return Answer(seen, reading)

    def _look(self, request: FrozenRequest) -> Sight:
        return look_through(self._connector, self._sending(request))

    def _sending(self, request: FrozenRequest) -> Sending:
        subject = self._subject
        asked = Request(
            request.method,
            request.target,
            dict(request.headers),
            request.body,
            subject.credentials.headers,
            subject.credentials.security,
        )
        return Sending(
            asked, subject.contract, subject.contract.actions[subject.action], request.operation_key, request.record,
            subject.place.base_url, subject.place.account, subject.credentials,
        )  # fmt: skip

    def _request(self, body: dict[str, Any], key: str | None, record: str = "") -> FrozenRequest:
        draft = OperationDraft(
            receiver=self._subject.place.name, action=self._subject.action, title="Check of the contract", body=body,
            record=record or self._subject.record, record_version=self._subject.record_version,
        )  # fmt: skip
        return self._connector.render(draft, self._contract, self._subject.place, key)


def made_up_record() -> str:
    """A record that nobody has."""
    return f"CF-CHECK-{secrets.token_hex(4).upper()}"
