"""Connectors out of packages of the user's own: how they are found, and what they can do wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from access.tenancy import reading
from approvals.rendering import CannotRender
from dispatch.actions.receivers import BadContract
from dispatch.classification import Outcome
from dispatch.connectors import registry
from dispatch.connectors.calling import read_through, send_through
from dispatch.connectors.registry import NoSuchConnector, connector, connectors
from dispatch.connectors.seam import Sending
from dispatch.rendering import render_operation
from dispatch.wire import NotBegun, Request
from tests.approvals.world import operation
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.own_connectors import HERE, installed
from tests.dispatch.world import BODY, RECEIPT, Dispatching, a_contract, as_json
from workflows.authoring import OperationDraft

NOW = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
OK = answers(200, as_json(RECEIPT))


@pytest.fixture(autouse=True)
def _packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    own = {
        "plain": "Plain", "forgetful": "Forgetful", "breaks": "Breaks", "breaks-before": "BreaksBefore",
        "sends-and-breaks": "SendsAndBreaks", "cannot-sign": "CannotSign",
    }  # fmt: skip
    names = {name: f"{HERE}:{target}" for name, target in own.items()}
    with installed(tmp_path, monkeypatch, http=f"{HERE}:Plain", gone="no_such_module:It", **names):
        yield


@contextmanager
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process into which the package was not deployed."""
    with monkeypatch.context() as patched:
        patched.setattr(registry, "ENTRY_POINT_GROUP", "nobody.connectors")
        registry.connectors.cache_clear()
        yield
    registry.connectors.cache_clear()


def test_a_package_brings_connectors_and_takes_none_away() -> None:
    """One cannot be loaded, one bears the name of one that ships: the others are there."""
    assert sorted(connectors()) == [
        "breaks", "breaks-before", "cannot-sign", "forgetful", "http", "plain", "sends-and-breaks", "smtp",
    ]  # fmt: skip
    assert type(connectors()["http"]).__name__ == "HttpConnector"
    with pytest.raises(NoSuchConnector, match='There is no connector "gone" here'):
        connector("gone")


def sending(name: str, url: str) -> Sending:
    contract = a_contract(connector=name)
    request = Request("PUT", f"{url}/vendors/V-1", {"Content-Type": "application/json"}, as_json(BODY))
    return Sending(request, contract, contract.actions["update"], "key", "V-1", url)


def test_a_connector_that_does_not_say_that_it_asks_is_marked_before_it_is_called() -> None:
    asked: list[int] = []

    def refuse() -> None:
        raise NotBegun("the receiver is paused")

    with FaultServer(fin) as server:
        one, what = connector("plain"), sending("plain", server.url)
        refused = send_through(one, what, refuse)
        seen = send_through(one, what, lambda: asked.append(len(server.received)))
        assert len(server.received) == 1, "where the mark is refused it is not called"
    assert (refused.marked, read_through(one, refused, what, NOW).outcome) == (False, Outcome.NOT_SENT)
    assert asked == [0], "and where it is made, that is before anything is opened"
    assert (seen.marked, read_through(one, seen, what, NOW).outcome) == (True, Outcome.UNKNOWN)


def test_one_that_forgets_to_ask_is_marked_late_and_from_then_on_first() -> None:
    asked: list[int] = []
    with FaultServer(OK, OK, OK) as server:
        one, what = connector("forgetful"), sending("forgetful", server.url)
        for _ in range(2):
            seen = send_through(one, what, lambda: asked.append(len(server.received)))
            assert (seen.marked, read_through(one, seen, what, NOW).outcome) == (True, Outcome.APPLIED)
    assert asked == [1, 1], "after its first send, and before its second"


def test_what_was_sent_without_asking_and_cannot_be_marked_any_more_is_doubt() -> None:
    def refuse() -> None:
        raise NotBegun("the job is held")

    with FaultServer(OK) as server:
        one, what = connector("forgetful"), sending("forgetful", server.url)
        seen = send_through(one, what, refuse)
        reading = read_through(one, seen, what, NOW)
    assert (seen.marked, reading.outcome) == (False, Outcome.UNKNOWN)
    assert reading.fault == "its connector sent without asking first; what left is not known"


@pytest.mark.django_db(transaction=True)
def test_what_a_connector_raises_is_doubt_unless_it_says_that_nothing_left() -> None:
    """Broken after the mark, or without ever having asked: a person's question, and never sent again. Where it says so
    itself, or could not sign: tried again with the same key, and stopped after a while."""
    with FaultServer(OK) as server:
        d = Dispatching.make(server.url, a_contract(connector="breaks"))
        job = d.ready("V-1")
        d.run(job)
        (sent,) = d.submissions(job)
        assert (sent.outcome, sent.fault) == ("unknown", "ZeroDivisionError: with password=[hidden] in it")
        assert sent.may_have_been_sent_at is not None
        assert d.job_state(job) == "NEEDS_RECONCILIATION"

        for number, name in enumerate(("breaks-before", "cannot-sign"), 2):
            d = Dispatching.make(server.url, a_contract(connector=name))
            job = d.ready(f"V-{number}")
            d.run(job, steps=20)
            kept = [(s.outcome, s.may_have_been_sent_at) for s in d.submissions(job)]
            assert set(kept) == {("not sent", None)}
            assert len(kept) > 1
            assert len(server.received) == 1


@pytest.mark.django_db(transaction=True)
def test_one_that_sends_without_asking_and_breaks_has_perhaps_sent_and_is_not_called_again() -> None:
    with FaultServer(OK, OK, OK) as server:
        d = Dispatching.make(server.url, a_contract(connector="sends-and-breaks"))
        job = d.ready("V-1")
        d.run(job, steps=20)
        (sent,) = d.submissions(job)
        assert (sent.outcome, sent.fault) == ("unknown", "TimeoutError: no answer in time")
        assert sent.may_have_been_sent_at is not None
        assert (d.job_state(job), len(server.received)) == ("NEEDS_RECONCILIATION", 1)

        asked: list[int] = []
        one, what = connector("sends-and-breaks"), sending("sends-and-breaks", server.url)
        seen = send_through(one, what, lambda: asked.append(len(server.received)))
        assert (seen.marked, asked) == (True, [1]), "from then on it is marked before it is called"
        assert read_through(one, seen, what, NOW).outcome is Outcome.UNKNOWN


@pytest.mark.django_db(transaction=True)
def test_a_contract_names_a_connector_that_is_here_and_waits_for_one_that_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FaultServer(OK) as server:
        with pytest.raises(BadContract, match='There is no connector "gone" here'):
            Dispatching.make(server.url, a_contract(connector="gone"))
        d = Dispatching.make(server.url, a_contract(connector="plain"))
        job = d.ready("V-1")
        with _nothing_installed(monkeypatch):
            d.step(d.operation(job))
            assert (d.operation(job).next_step, d.submissions(job)) == ("blocked", [])
            assert "send.blocked" in d.events(job)
            with (
                pytest.raises(CannotRender, match='There is no connector "plain" here'),
                reading(d.tenant_id),
            ):
                render_operation(
                    OperationDraft(**operation(action="update", record="V-2", body=BODY)), None, NOW
                )
        assert server.received == []
