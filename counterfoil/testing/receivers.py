"""Receivers that do as they are told: each send has a fate, and what they really did can be looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from approvals.rendering import FrozenRequest
from counterfoil.testing.memory import KitFailure, Unscripted
from dispatch.authoring import stand_in
from dispatch.bodies import CONTENT_TYPES
from dispatch.connectors.registry import connector
from dispatch.contracts import Action, Contract, Lookup, Meaning
from dispatch.forms import values
from dispatch.requests import local_path
from dispatch.wire import Exchange
from workflows.authoring import Ctx


class Fate(StrEnum):
    """What becomes of one send."""

    OK = "ok"  # applied, and answered with a receipt
    REFUSE = "refuse"  # a definite no (422); nothing is applied
    TIMEOUT_BUT_DONE = "timeout but done"  # applied, and the answer is lost
    NEVER_ANSWERS = "never answers"  # not applied, and nothing is heard
    NO_CONNECTION = "no connection"  # no byte leaves
    BUSY = "busy"  # 429: not applied, for a reason that can pass
    BROKEN = "broken"  # 500: not applied, but nobody can know that
    DUPLICATE = "duplicate"  # applied twice, and the answer is lost
    DIFFERS = "differs"  # applied, but the answer tells another value than was approved
    LATER = "later"  # accepted (202), and applied at once; only a look-up tells


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that the receiver really did. `body` is what it was sent."""

    receipt: str
    record: str
    body: dict[str, Any]
    key: str


FateOf = Callable[[FrozenRequest], Fate | str]


@dataclass
class Receiver:
    """A scripted receiver under a contract.

        Receiver("ledger", contract, fates=["timeout but done"])
        Receiver("ledger", contract, fates=lambda request: "refuse" if request.record == "R-9" else "ok")

    `fates`: of each send in order, those after them are "ok"; or a function of the request. `records`: what a GET of a
    path below its address finds, for `read_record` and `find_record`; anything else is 404. `effects` is what it really
    did, `requests` everything that reached it. Under a contract that deduplicates it does, and it answers look-ups.
    """

    name: str
    contract: Contract
    fates: Sequence[Fate | str] | FateOf = ()
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    base_url: str = ""
    effects: list[Effect] = field(default_factory=list)
    requests: list[FrozenRequest] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    lookups: int = 0

    def __post_init__(self) -> None:
        # Which hosts may be sent to is an installation's matter; what is sent is the same wherever it stands.
        host = re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-")
        scheme = connector(self.contract.connector).schemes[-1]
        self.base_url = f"{scheme}://{host}.test{urlsplit(self.base_url).path.rstrip('/')}"
        self._left = [] if callable(self.fates) else [Fate(f) for f in self.fates]

    @classmethod
    def from_terms(cls, file: str | Path, name: str, **more: Any) -> Receiver:
        """The receiver of this name in a file of terms (`counterfoil.toml`), as an installation would write it."""
        from dispatch.terms import read_terms

        terms = read_terms(Path(file))
        if name not in terms.receivers:
            known = ", ".join(sorted(terms.receivers)) or "none"
            raise KitFailure(f"{file} names no receiver {name}; it names {known}.")
        found = terms.receivers[name]
        return cls(name, found.contract, base_url=found.base_url, **more)

    def send(self, request: FrozenRequest) -> Exchange:
        """What a sender sees of one send."""
        fate = self._fate(request)
        if fate is Fate.NO_CONNECTION:
            return Exchange(marked=False, exception="ConnectError", message="scripted")
        self.requests.append(request)
        if (replayed := self._replayed(request)) is not None:
            return replayed
        if fate in (Fate.NEVER_ANSWERS, Fate.REFUSE, Fate.BUSY, Fate.BROKEN):
            return _not_applied(fate)
        effect = self._apply(request)
        if fate is Fate.DUPLICATE:
            self._apply(request)
        if fate in (Fate.TIMEOUT_BUT_DONE, Fate.DUPLICATE):
            return Exchange(marked=True, exception="ReadTimeout", message="scripted")
        return self._answer(request, effect, fate)

    def look_up(self, *, key: str, record: str) -> Exchange:
        """What a look-up of an operation is answered."""
        lookup = self.contract.lookup
        assert lookup is not None, "only a contract with a look-up is asked"
        self.lookups += 1
        found = [e for e in self.effects if (e.key == key if lookup.by_key else e.record == record)]
        if not found:
            return _absent(lookup)
        content = self._content(self._action_of(found[0]), found[0])
        if lookup.count_path:
            _put(content, lookup.count_path, len(found))
        return _json(lookup.found[0], content)

    def read(self, path: str) -> Exchange:
        """What a GET of a path below the address is answered."""
        self.reads.append(path)
        found = self.records.get(path.lstrip("/"), self.records.get("/" + path.lstrip("/")))
        return _json(404, {}) if found is None else _json(200, dict(found))

    def _fate(self, request: FrozenRequest) -> Fate:
        if callable(self.fates):
            return Fate(self.fates(request))
        return self._left.pop(0) if self._left else Fate.OK

    def _replayed(self, request: FrozenRequest) -> Exchange | None:
        """The first answer again, under a contract that recognises the key; a mismatch for other bytes."""
        if not self.contract.deduplicates:
            return None
        known = next((e for e in self.effects if e.key == request.operation_key), None)
        if known is None:
            return None
        if known.body != sent_values(request):
            signal = next(iter(self.contract.mismatch_signals), None)
            return _json(422, {}) if signal is None else _signalled(signal.status, signal.path, signal.equals)
        answer = self._answer(request, known, Fate.OK)
        replay = {self.contract.replay_header: "true"} if self.contract.replay_header else {}
        return Exchange(marked=True, status=answer.status, headers=replay, body=answer.body)

    def _apply(self, request: FrozenRequest) -> Effect:
        effect = Effect(
            f"{self.name}-{len(self.effects) + 1}",
            request.record,
            sent_values(request),
            request.operation_key,
        )
        self.effects.append(effect)
        return effect

    def _answer(self, request: FrozenRequest, effect: Effect, fate: Fate) -> Exchange:
        action = self._action(request)
        if fate is Fate.LATER:
            pending = next((s for s, m in action.success.items() if m is Meaning.PENDING), "202")
            return _json(int(pending), {})
        applied = next((s for s, m in action.success.items() if m is Meaning.APPLIED), None)
        if applied is None:
            raise KitFailure(
                f"The contract of {self.name} has no status that means applied; use the fate later."
            )
        content = self._content(action, effect)
        if fate is Fate.DIFFERS:
            _make_different(action, content)
        return _json(int(applied), content)

    def _content(self, action: Action, effect: Effect) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for path, value in (
            (action.echo_path, dict(effect.body)),
            (action.receipt_path, effect.receipt),
            (action.record_path, effect.record),
        ):
            if path:
                _put(content, path, value)
        return content

    def _action(self, request: FrozenRequest) -> Action:
        action = self.contract.action_of(request.method, local_path(self.base_url, request.target))
        assert action is not None, "a frozen request is one of its contract's actions"
        return action

    def _action_of(self, effect: Effect) -> Action:
        return self._action(next(r for r in self.requests if r.operation_key == effect.key))


@contextmanager
def answering(receivers: Mapping[str, Receiver]) -> Iterator[None]:
    """While it lasts, `read_record` and `find_record` ask these receivers."""

    def ask(_ctx: Ctx, name: str, path: str) -> Exchange:
        if name not in receivers:
            known = ", ".join(sorted(receivers)) or "none"
            raise Unscripted(f"A step reads from {name}, which the test does not give; it gives {known}.")
        return receivers[name].read(path)

    token = stand_in.set(ask)
    try:
        yield
    finally:
        stand_in.reset(token)


def _not_applied(fate: Fate) -> Exchange:
    if fate is Fate.NEVER_ANSWERS:
        return Exchange(marked=True, exception="ReadTimeout", message="scripted")
    return _json({Fate.REFUSE: 422, Fate.BUSY: 429, Fate.BROKEN: 500}[fate], {})


def _absent(lookup: Lookup) -> Exchange:
    signal = lookup.absent[0] if lookup.absent else None
    return _json(404, {}) if signal is None else _signalled(signal.status, signal.path, signal.equals)


def _signalled(status: int, path: str, equals: str) -> Exchange:
    content: dict[str, Any] = {}
    if path:
        _put(content, path, equals)
    return _json(status, content)


def _make_different(action: Action, content: dict[str, Any]) -> None:
    """Another value than was approved, in the first place where the contract has one compared."""
    if action.record_path:
        _put(content, action.record_path, "another record")
    elif action.echo_path == ".":
        kept = {action.receipt_path.partition(".")[0]}
        for name in content.keys() - kept:
            del content[name]
    elif action.echo_path:
        _put(content, action.echo_path, {})
    else:
        raise KitFailure("The contract compares nothing with the answer, so that none can differ.")


def _put(content: dict[str, Any], path: str, value: Any) -> None:
    if path == ".":  # the answer itself
        content.update(value)
        return
    *outer, last = path.split(".")
    for name in outer:
        content = content.setdefault(name, {})
    content[last] = value


def _json(status: int, content: Mapping[str, Any]) -> Exchange:
    return Exchange(
        marked=True,
        status=status,
        headers={"content-type": "application/json"},
        body=json.dumps(content).encode(),
    )


def sent_values(request: FrozenRequest) -> dict[str, Any]:
    """What was sent, as values: of JSON and of forms theirs, of anything else its text."""
    if request.body.startswith((b"{", b"[")) or not request.body:
        body: dict[str, Any] = json.loads(request.body) if request.body else {}
        return body
    form = request.headers.get("Content-Type") == CONTENT_TYPES["form"]
    return dict(values(request.body)) if form else {"text": request.body.decode("utf-8", "replace")}
