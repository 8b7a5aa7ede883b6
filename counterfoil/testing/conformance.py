"""One suite that every connector passes, those that ship and those of the user's packages, against a receiver that really runs.

    @pytest.mark.parametrize("check", CHECKS, ids=name_of)
    def test_ledger(check: Check, ledger: Subject) -> None:
        check(ledger)

Each check renders, sends and asks as dispatch does, and then asks the receiver itself, by the subject's own means, how
many effects there are. What a contract does not promise is not asked for; what it promises has to be so.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Barrier as Gate

from approvals.rendering import CannotRender, FrozenRequest
from counterfoil.testing.sockets import deaf, nobody, rubbish
from dispatch.classification import DEFINITELY_NOTHING, Outcome, Reading
from dispatch.connectors.calling import look_through, read_through, send_through
from dispatch.connectors.registry import connector
from dispatch.connectors.seam import Connector, Sending
from dispatch.contracts import Contract, KeyLocation
from dispatch.requests import Place, local_path, same_place
from dispatch.sent import Approved, Verdict, compare
from dispatch.sights import Found
from dispatch.wire import Exchange, NotBegun, Request
from workflows.authoring import OperationDraft

NOTHING = (*DEFINITELY_NOTHING, Outcome.REFUSED)
DONE = (Outcome.APPLIED, Outcome.PENDING)


@dataclass(frozen=True)
class Subject:
    """A receiver with its contract. `draft_of`: a draft that it takes, for a record of this name; `other_of`: other bytes for
    the same record; `effects`: how many effects it holds for a record, asked of itself. `secret`: what may be frozen nowhere.
    """

    contract: Contract
    base_url: str
    draft_of: Callable[[str], OperationDraft]
    effects: Callable[[str], int]
    other_of: Callable[[str], OperationDraft] | None = None
    account: str = ""
    secret_reference: str = ""
    secret: str = ""
    own: Connector | None = None
    """The connector itself, where it is not installed under its name."""

    record: str = field(default_factory=lambda: f"R-{secrets.token_hex(6)}")

    @property
    def connector(self) -> Connector:
        return self.own or connector(self.contract.connector)

    @property
    def place(self) -> Place:
        return Place("receiver", self.base_url, self.account)

    def at(self, base_url: str) -> Subject:
        """The same receiver, said to be elsewhere."""
        return replace(self, base_url=base_url)

    def frozen(self, draft: OperationDraft | None = None, key: str | None = None) -> FrozenRequest:
        return self.connector.render(
            draft or self.draft_of(self.record), self.contract, self.place, key or self.contract.new_key()
        )

    def sending(self, frozen: FrozenRequest) -> Sending:
        credentials = self.connector.credentials(self.secret_reference, self.contract)
        request = Request(
            frozen.method, frozen.target, dict(frozen.headers), frozen.body, credentials.headers, credentials.security
        )  # fmt: skip
        action = self.contract.action_of(frozen.method, local_path(self.base_url, frozen.target))
        return Sending(
            request, self.contract, action, frozen.operation_key, frozen.record, self.base_url, self.account, credentials
        )  # fmt: skip

    def send(self, frozen: FrozenRequest, barrier: Callable[[], None] = lambda: None) -> Sent:
        sending = self.sending(frozen)
        seen = send_through(self.connector, sending, barrier)
        return Sent(seen, read_through(self.connector, seen, sending, datetime.now(UTC)))

    def here(self) -> int:
        return self.effects(self.record)


@dataclass(frozen=True)
class Sent:
    """What one send came to."""

    seen: Exchange
    reading: Reading

    @property
    def outcome(self) -> Outcome:
        return self.reading.outcome


Check = Callable[[Subject], None]


def name_of(check: Check) -> str:
    return check.__name__


def the_contract_is_one_that_the_connector_can_keep(it: Subject) -> None:
    assert list(it.connector.problems(it.contract)) == []
    assert it.connector.schemes


def a_draft_is_the_same_bytes_however_often_it_is_rendered(it: Subject) -> None:
    key = it.contract.new_key()
    first, second = it.frozen(key=key), it.frozen(key=key)
    assert first == second
    assert first.operation_key == key, "a key that was made before is kept"
    assert it.contract.takes_key(
        it.connector.render(it.draft_of("R"), it.contract, it.place, None).operation_key
    )


def what_is_frozen_holds_the_key_and_no_secret(it: Subject) -> None:
    frozen = it.frozen()
    text = f"{frozen.target} {dict(frozen.headers)} {frozen.body.decode('utf-8', 'replace')}"
    if it.contract.key_location is not KeyLocation.NONE:
        assert frozen.operation_key in text
    assert not (it.secret and it.secret in text)
    assert same_place(it.base_url, frozen.target)
    assert it.sending(frozen).action is not None, "the contract names the action that the request is one of"


def nothing_leaves_where_the_mark_is_refused(it: Subject) -> None:
    def refuse() -> None:
        raise NotBegun("the receiver is paused")

    sent = it.send(it.frozen(), refuse)
    assert (sent.seen.marked, sent.outcome, it.here()) == (False, Outcome.NOT_SENT, 0)


def the_mark_is_made_once_and_before_anything_is_done(it: Subject) -> None:
    at_the_mark: list[int] = []
    frozen = it.frozen()
    sent = it.send(frozen, lambda: at_the_mark.append(it.here()))
    assert (at_the_mark, it.here()) == ([0], 1)
    assert (sent.seen.marked, sent.outcome in DONE) == (True, True), sent.reading
    if sent.seen.written is not None:
        approved = Approved(frozen.method, frozen.target, frozen.headers, frozen.body)
        assert compare(approved, sent.seen.written).verdict is Verdict.EQUAL


def the_same_again_is_what_the_contract_says(it: Subject) -> None:
    """One effect under a key that is recognised. Where none is, no answer may claim that it was."""
    frozen = it.frozen()
    it.send(frozen)
    again = it.send(frozen)
    if it.contract.deduplicates:
        assert it.here() == 1
        assert again.outcome in (*DONE, Outcome.UNKNOWN, Outcome.IN_PROGRESS), again.reading
    else:
        assert not again.reading.replayed or it.here() == 1
        assert again.outcome not in DONE or it.here() == 2, (
            "then it deduplicates, and the contract does not say so"
        )


def other_bytes_under_a_used_key_are_no_second_effect(it: Subject) -> None:
    if not it.contract.deduplicates or it.other_of is None:
        return
    first = it.frozen()
    it.send(first)
    other = it.send(it.frozen(it.other_of(it.record), first.operation_key))
    assert it.here() == 1
    if it.contract.mismatch_signals:
        assert other.outcome is Outcome.KEY_MISMATCH, other.reading


def two_at_once_under_one_key_are_one_effect(it: Subject) -> None:
    if not it.contract.deduplicates:
        return
    frozen, gate = it.frozen(), Gate(2)
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(it.send, frozen, lambda: _meet(gate)) for _ in range(2)]
        outcomes = [w.result().outcome for w in waiting]
    assert it.here() == 1
    assert any(o in DONE for o in outcomes), outcomes


def a_look_up_finds_what_is_there_and_not_what_is_not(it: Subject) -> None:
    lookup = it.contract.lookup
    if lookup is None:
        return
    frozen = it.frozen()
    absent = look_through(it.connector, it.sending(frozen))
    assert absent.found is Found.ABSENT, absent
    it.send(frozen)
    if not lookup.lag:
        found = look_through(it.connector, it.sending(frozen))
        assert found.found is Found.APPLIED, found
    assert it.here() == 1, "a look-up changes nothing"


def nobody_there_is_a_send_that_did_not_begin(it: Subject) -> None:
    with nobody() as where:
        sent = it.at(_moved(it.base_url, where)).send(it.at(_moved(it.base_url, where)).frozen())
    if it.connector.calls_barrier:
        assert (sent.seen.marked, sent.outcome) == (False, Outcome.NOT_SENT), sent.reading
    else:
        assert (sent.seen.marked, sent.outcome) == (True, Outcome.UNKNOWN), sent.reading


def silence_is_doubt_once_it_is_marked_and_has_an_end(it: Subject) -> None:
    began = time.monotonic()
    with deaf() as where:
        elsewhere = it.at(_moved(it.base_url, where))
        sent = elsewhere.send(elsewhere.frozen())
    expected = Outcome.UNKNOWN if sent.seen.marked else Outcome.NOT_SENT
    assert sent.outcome is expected, sent.reading
    assert time.monotonic() - began < 2 * it.contract.timeouts.longest.total_seconds() + 2


def rubbish_is_no_success(it: Subject) -> None:
    with rubbish() as where:
        elsewhere = it.at(_moved(it.base_url, where))
        sent = elsewhere.send(elsewhere.frozen())
    assert sent.outcome is Outcome.UNKNOWN or (sent.outcome in NOTHING and not sent.seen.marked), sent.reading


def an_address_inside_is_refused(it: Subject) -> None:
    inside = it.at(_moved(it.base_url, "169.254.169.254:80"))
    try:
        frozen = inside.frozen()
    except CannotRender:
        return
    sent = inside.send(frozen)
    assert (sent.seen.marked, sent.outcome) == (False, Outcome.OUR_FAULT), sent.reading


CHECKS: tuple[Check, ...] = (
    the_contract_is_one_that_the_connector_can_keep,
    a_draft_is_the_same_bytes_however_often_it_is_rendered,
    what_is_frozen_holds_the_key_and_no_secret,
    nothing_leaves_where_the_mark_is_refused,
    the_mark_is_made_once_and_before_anything_is_done,
    the_same_again_is_what_the_contract_says,
    other_bytes_under_a_used_key_are_no_second_effect,
    two_at_once_under_one_key_are_one_effect,
    a_look_up_finds_what_is_there_and_not_what_is_not,
    nobody_there_is_a_send_that_did_not_begin,
    silence_is_doubt_once_it_is_marked_and_has_an_end,
    rubbish_is_no_success,
    an_address_inside_is_refused,
)
"""The suite. Each takes a subject of its own: `replace(subject, record=…)`, or a fixture that makes a new one."""


def conforms(make: Callable[[], Subject]) -> None:
    """Every check, each on a new subject. Raises AssertionError with the name of the first that does not hold."""
    for check in CHECKS:
        try:
            check(make())
        except AssertionError as failed:
            raise AssertionError(f"{name_of(check)}: {failed}") from failed


def _meet(gate: Gate) -> None:
    gate.wait(timeout=10)


def _moved(base_url: str, where: str) -> str:
    scheme, _, rest = base_url.partition("://")
    return f"{scheme}://{where}{rest[len(rest.partition('/')[0]) :]}"
