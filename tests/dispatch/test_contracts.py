"""What a contract says beyond key and lookup: what it allows, what it is refused for, and how it reads in words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from approvals.rendering import CannotRender, FrozenRequest
from dispatch.authentication import OAuth
from dispatch.classification import Outcome, Reading, read_exchange
from dispatch.contracts import Action, Contract, KeyLocation, Lookup, Signal, StatementFeed
from dispatch.explaining import explain
from dispatch.joining import joined
from dispatch.presets import PRESETS
from dispatch.recovery import Facts, decide
from dispatch.requests import Place, request_of
from dispatch.states import NextStep
from dispatch.wire import Exchange
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import (
    BODY,
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
    as_owner,
)
from workflows.authoring import OperationDraft

NOW = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
EXISTS = Signal(status=400, path="code", equals="duplicate")
CREATE = Action(method="PUT", path="/things/{operation_key}", precondition="if_none_match")


def said(contract: Contract) -> dict[str, tuple[str, str]]:
    return {t.name: (t.value, t.sentence) for t in explain(contract)}


def read(status: int, content: dict[str, Any], contract: Contract) -> Reading:
    action = next(iter(contract.actions.values()))
    seen = Exchange(marked=True, status=status, body=as_json(content))
    return read_exchange(seen, contract, action, sent=as_json(BODY), record="V-1", now=NOW)


def request(contract: Contract, action: str, **more: str) -> FrozenRequest:
    draft = OperationDraft(receiver="erp", action=action, record="V-1", title="T", body=BODY, **more)
    return request_of(draft, contract, Place("erp", "https://erp.example/api"), None)


def test_a_refused_duplicate_that_names_what_is_there_proves_the_earlier_send() -> None:
    promised = {"duplicate_signals": (EXISTS,), "duplicate_receipt_path": "existing.id"}
    proof = a_keyed_contract(**promised, duplicate_is_proof=True)
    told = {"code": "duplicate", "existing": {"id": "R-7"}}
    found = read(400, told, proof)
    assert (found.outcome, found.receipt_id, found.replayed) == (Outcome.APPLIED, "R-7", True)
    assert read(400, {"code": "duplicate"}, proof).outcome is Outcome.UNKNOWN
    assert read(400, told, a_keyed_contract(**promised)).outcome is Outcome.UNKNOWN
    assert read(400, told, a_keyed_contract()).outcome is Outcome.REFUSED
    assert said(proof)["Refuses duplicates"][0] == "proof"
    assert "settles nothing" in said(a_keyed_contract(**promised))["Refuses duplicates"][1]


def test_a_key_in_the_address_creates_once_and_what_is_there_already_is_in_doubt() -> None:
    contract = a_contract(
        actions={"create": CREATE}, key_location=KeyLocation.URI, deduplicates=True, retention="permanent"
    )
    frozen = request(contract, "create")
    assert frozen.target == f"https://erp.example/api/things/{frozen.operation_key}"
    assert frozen.headers["If-None-Match"] == "*"
    assert contract.action_of("PUT", f"/things/{frozen.operation_key}") == CREATE
    assert "If-None-Match" not in request(a_contract(), "update").headers
    assert said(contract)["Creates only once"][0] == "create"
    assert said(contract)["Deduplicates by key"][1].startswith("The key in the address: ")


def test_a_change_of_one_version_names_it_and_a_412_leaves_an_earlier_send_in_doubt() -> None:
    contract = a_contract(
        actions={"update": Action(method="PUT", path="/v/{record}", precondition="if_match")}
    )
    assert request(contract, "update", record_version="7").headers["If-Match"] == '"7"'
    assert request(contract, "update", record_version='W/"7"').headers["If-Match"] == 'W/"7"'
    for version, why in (("", "names none"), ("7\r\nX: 1", "cannot be sent as the version")):
        with pytest.raises(CannotRender, match=why):
            request(contract, "update", record_version=version)
    refused = read(412, {}, contract).outcome
    assert refused is Outcome.REFUSED
    assert joined([Outcome.UNKNOWN, refused]) == "UNKNOWN"
    assert said(contract)["Changes one version"][0] == "update"


def test_a_receiver_that_keeps_its_errors_is_not_sent_the_same_key_after_a_500() -> None:
    facts = Facts(now=NOW, since=NOW, quiet_at=NOW, safe_until=NOW + timedelta(hours=1), stored_error=True)
    assert decide(facts, a_keyed_contract()).kind is NextStep.RESUBMIT
    step = decide(facts, a_keyed_contract(caches_errors="all"))
    assert (step.kind, step.why) == (NextStep.NONE, "the receiver keeps its error and would only repeat it")


def test_a_lookup_is_not_asked_before_it_can_see_and_absence_waits_as_long() -> None:
    lookup = Lookup(
        path="/o/{operation_key}", authoritative=True, absence_is_proof_after=5, lag=120, schedule=(1, 300)
    )
    contract = a_lookup_contract(lookup=lookup, in_flight_max=10)
    step = decide(Facts(now=NOW, since=NOW, quiet_at=NOW), contract)
    assert (step.kind, step.at) == (NextStep.LOOK_UP, NOW + timedelta(seconds=120))
    assert lookup.wait(1) == 300
    assert contract.absence_counts_from(NOW) == NOW + timedelta(seconds=135)
    assert said(contract)["Absence proves"][0] == "after 135 s"
    assert "2 min behind" in said(contract)["Lookup"][1]


READ_APART = Lookup(path="/o/{operation_key}", secret_reference="env:COUNTERFOIL_RECEIVER_READS")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"duplicate_is_proof": True}, "recognised and names what is there"),
        ({"duplicate_is_proof": True, "duplicate_signals": (EXISTS,)}, "recognised and names what is there"),
        ({"actions": {"create": CREATE}}, "only there"),
        ({"key_location": "uri", "key_name": "", "deduplicates": False, "automatic_resubmissions": 0}, "only there"),
        ({"key_location": "uri", "actions": {"create": CREATE}}, "has no name"),
        ({"lookup": READ_APART, "oauth": OAuth(token_url="https://id.example/t", client_id="c")}, "one secret"),
    ],
)  # fmt: skip
def test_a_contract_that_promises_what_cannot_be_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        a_keyed_contract(**changes)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/a/{account}/{nonsense}/{operation_key}", "{nonsense} is nothing that a look-up can ask by"),
        ("/o/{Record}/{operation_key}", "{Record} is nothing"),
        ("/o/{body.id}/{operation_key}", "{body.id} is nothing"),
        ("/o/{operation_key}/{record", "half of a place"),
        ("/o/{account}", "names none of"),
    ],
)
def test_a_look_up_names_only_what_it_can_ask_by(path: str, why: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(why)):
        Lookup(path=path)


def test_a_look_up_that_was_kept_before_its_places_were_judged_is_still_read() -> None:
    terms = a_lookup_contract().model_dump(mode="json")
    terms["lookup"]["path"] = "/a/{nonsense}/{operation_key}"
    assert Contract.of(terms).lookup is not None
    with pytest.raises(ValidationError):
        Contract.model_validate(terms)


def test_a_look_up_by_the_reference_alone_says_how_what_it_finds_is_compared() -> None:
    lookup = Lookup(path="/o?reference={reference}", authoritative=True)
    assert (
        "Asks for the job's reference. It reads its own writes"
        in said(a_lookup_contract(lookup=lookup, automatic_resubmissions=0))["Lookup"][1]
    )
    blind = {"update": Action(method="PUT", path="/vendors/{record}")}
    with pytest.raises(ValidationError, match="may find another operation of the job"):
        a_lookup_contract(lookup=lookup, actions=blind, automatic_resubmissions=0)
    by_key_too = Lookup(path="/o/{operation_key}?reference={reference}")
    assert a_lookup_contract(lookup=by_key_too, actions=blind, automatic_resubmissions=0).lookup == by_key_too


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("reference", ["PO 77", ""])
def test_a_receiver_is_asked_by_the_reference_and_the_account_of_what_it_was_sent(reference: str) -> None:
    """A job without one cannot be asked about so: that is an observation, and settles nothing."""
    lookup = Lookup(path="/a/{account}/o?reference={reference}", authoritative=True, schedule=(0,))
    with FaultServer(fin, answers(200, as_json(RECEIPT))) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(lookup=lookup, automatic_resubmissions=0))
        as_owner("dispatch_receiver", "account = %s", ["10/2"])
        job = d.ready()
        as_owner("workflows_job", "reference = %s WHERE id = %s", [reference, job.pk])
        d.run(job)
        asked = [r.split()[1] for r in erp.received[1:]]
        seen = [(o.finding, o.summary) for o in d.observations(job) if o.kind == "lookup"]
    if reference:
        assert asked == [b"/a/10%2F2/o?reference=PO%2077"]
        assert (d.job_state(job), seen) == ("CONFIRMED", [("applied", "there, as approved")])
    else:
        assert asked == []
        assert (d.job_state(job), [finding for finding, _ in seen]) == ("NEEDS_RECONCILIATION", ["unclear"])
        assert seen[0][1].startswith("it could not be asked: ")


def test_a_receiver_may_take_longer_keys_than_are_made_here() -> None:
    contract = a_keyed_contract(key_max_len=255)
    assert contract.takes_key(contract.new_key())
    assert len(contract.new_key()) == 32
    with pytest.raises(ValidationError, match="255"):
        a_keyed_contract(key_max_len=256)
    assert {PRESETS[name].contract.key_max_len for name in ("stripe-v1", "stripe-v2")} == {255}
    assert PRESETS["xero"].contract.key_max_len == 128


def test_words_say_what_follows_for_whoever_decides() -> None:
    keyed = said(a_keyed_contract(scope="region"))
    assert keyed["Deduplicates by key"][1].endswith("Keys are compared within one region.")
    assert keyed["Remembers keys for"][1].endswith("After 24 h this receiver treats the key as new.")
    unpublished = said(a_keyed_contract(retention="unpublished", automatic_resubmissions=0))
    assert unpublished["Remembers keys for"][0] == "unpublished"
    assert unpublished["Remembers keys for"][1].endswith("A second person may choose to send again.")
    blind = a_lookup_contract(proves_after=None)
    assert said(blind)["Absence proves"] == ("no", "Whoever looks up and finds nothing has seen nothing.")
    silent = said(a_contract())
    assert list(silent) == [
        "Deduplicates by key", "Remembers keys for", "Lookup", "Absence proves", "Sent again by itself",
    ]  # fmt: skip
    beside = said(
        a_contract(cancel_by_key="POST /cancel", statement_feed=StatementFeed(kind="csv", lag=3600))
    )
    assert "POST /cancel" in beside["Cancels by key"][1]
    assert beside["Statement"][0] == "csv, after 1 h"
    assert "a person or its statement" in beside["Lookup"][1]


def test_a_contract_kept_before_these_fields_came_means_what_it_meant() -> None:
    kept = a_keyed_contract().model_dump(mode="json")
    for name in (
        "duplicate_signals", "duplicate_is_proof", "duplicate_receipt_path", "cancel_by_key", "statement_feed",
    ):  # fmt: skip
        del kept[name]
    del kept["actions"]["update"]["precondition"]
    assert Contract.model_validate(kept) == a_keyed_contract()


@pytest.mark.django_db(transaction=True)
def test_a_lost_answer_is_settled_by_the_duplicate_that_the_second_send_is_refused_as() -> None:
    contract = a_keyed_contract(
        duplicate_signals=(EXISTS,), duplicate_receipt_path="existing.id", duplicate_is_proof=True
    )
    refusal = as_json({"code": "duplicate", "existing": {"id": "R-7"}})
    with FaultServer(fin, answers(400, refusal)) as erp:
        d = Dispatching.make(erp.url, contract)
        job = d.ready()
        d.run(job)
        assert (d.job_state(job), d.operation(job).receipt_id, len(erp.received)) == ("CONFIRMED", "R-7", 2)


@pytest.mark.django_db(transaction=True)
def test_an_error_that_is_kept_under_the_key_goes_to_a_person_at_once() -> None:
    with FaultServer(answers(500), answers(500)) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract(caches_errors="all"))
        job = d.ready()
        d.run(job)
        assert (d.job_state(job), len(erp.received)) == ("NEEDS_RECONCILIATION", 1)
        assert d.operation(job).fate_note == "the receiver keeps its error and would only repeat it"
