"""The one suite, against real receivers: those that ship with us, and those that others wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterfoil.testing.conformance import (
    CHECKS,
    Check,
    Sent,
    Subject,
    a_draft_is_the_same_bytes_however_often_it_is_rendered,
    conforms,
    name_of,
    nothing_leaves_where_the_mark_is_refused,
    the_mark_is_made_once_and_before_anything_is_done,
    the_same_again_is_what_the_contract_says,
    what_is_frozen_holds_the_key_and_no_secret,
)
from dispatch.classification import Outcome
from dispatch.connectors import calling
from dispatch.connectors.smtp import SmtpConnector
from dispatch.contracts import Contract, Timeouts
from dispatch.presets import SIMULATED
from dispatch.terms import read_terms
from examples.connectors.amazon import DynamoDB, Queue
from examples.simulators.client import ErpControl, start_erp
from tests.dispatch.own_connectors import Forgetful, Plain, Volatile
from tests.dispatch.third_parties import Amazon, Stripe, localstripe, moto
from tests.outbox.receiving import Mailbox
from workflows.authoring import OperationDraft

TERMS = read_terms(Path(__file__).parents[2] / "examples" / "connectors" / "receivers.toml").receivers
BRIEF = Timeouts(connect=0.5, read=0.5, write=0.5)
BUSY = Timeouts(connect=2, read=5, write=2)
"""Of a receiver that answers slowly beside other tests: a time-out there is not what is asked about."""

Make = Callable[[], Subject]


def draft(action: str, **values: Any) -> Callable[[str], OperationDraft]:
    """A draft of one action for a record; `values`: of its body, each with the record in it."""

    def of(record: str) -> OperationDraft:
        body = {name: value.replace("RECORD", record) for name, value in values.items()}
        return OperationDraft(receiver="receiver", action=action, record=record, title="Conforms", body=body)

    return of


def said(contract: Contract, timeouts: Timeouts = BUSY) -> Contract:
    return contract.model_copy(update={"timeouts": timeouts})


@pytest.fixture(scope="module")
def erp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ErpControl]:
    with start_erp(database=tmp_path_factory.mktemp("erp") / "erp.sqlite3") as running:
        yield ErpControl(running.base_url)


@pytest.fixture(scope="module")
def stripe() -> Iterator[Stripe]:
    with localstripe() as running:
        yield running


@pytest.fixture(scope="module")
def amazon() -> Iterator[Amazon]:
    with moto() as running:
        yield running


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_STRIPE", "sk_test_counterfoil")
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_AMAZON", "AKIAEXAMPLE:a secret key of forty characters")


def at_the_erp(erp: ErpControl, preset: str, **more: Any) -> Subject:
    return Subject(
        said(SIMULATED[preset].contract), erp.base_url, draft("write-record", note="as approved"),
        lambda record: len(erp.effects(record=record)), draft("write-record", note="something else"), **more,
    )  # fmt: skip


def by_mail(box: Mailbox) -> Subject:
    action = {"mail": {"method": "SEND", "path": "/", "receipt_required": False}}
    contract = Contract.model_validate({"title": "Mail", "connector": "smtp", "actions": action})
    values = {
        "from": "desk@acme.example",
        "to": "post@b.example",
        "subject": "About RECORD",
        "text": "Hello.\n.\n",
    }
    return Subject(
        said(contract), f"smtp+clear://127.0.0.1:{box.port}", draft("mail", **values),
        lambda record: sum(letter["Subject"] == f"About {record}" for letter in box.letters), own=SmtpConnector(),
    )  # fmt: skip


def at_stripe(stripe: Stripe, name: str) -> Subject:
    kind: dict[str, Any] = {
        "stripe-products": (
            stripe.products,
            {"description": "as approved"},
            {"description": "something else"},
        ),
        "stripe-customers": (stripe.customers, {"email": "a@b.example"}, {"email": "c@d.example"}),
    }
    effects, body, other = kind[name]
    return Subject(
        said(TERMS[name].contract), stripe.url, draft("create", **body), effects, draft("create", **other),
        secret_reference=TERMS[name].secret_reference, secret="sk_test_counterfoil",
    )  # fmt: skip


def at_dynamodb(amazon: Amazon) -> Subject:
    return Subject(
        said(TERMS["dynamodb"].contract), amazon.url, draft("put", note="as approved"), amazon.items,
        draft("put", note="something else"), account=amazon.table, own=DynamoDB(),
        secret_reference=TERMS["dynamodb"].secret_reference, secret="a secret key of forty characters",
    )  # fmt: skip


def in_a_queue(amazon: Amazon) -> Subject:
    queue = amazon.queue()
    return Subject(
        said(TERMS["sqs-fifo"].contract), amazon.url, draft("send", note="as approved"),
        lambda _: amazon.messages(queue), draft("send", note="something else"), account=queue, own=Queue(),
        secret_reference=TERMS["sqs-fifo"].secret_reference, secret="a secret key of forty characters",
    )  # fmt: skip


def test_http_by_configuration_conforms(erp: ErpControl) -> None:
    conforms(lambda: quick(at_the_erp(erp, "keyed")))


@pytest.mark.long
@pytest.mark.parametrize("preset", ["keyed", "lookup", "neither"])
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_http_by_configuration_conforms_under_each_contract(
    erp: ErpControl, preset: str, check: Check
) -> None:
    check(at_the_erp(erp, preset))


def test_mail_conforms() -> None:
    box = Mailbox().open()
    try:
        conforms(lambda: quick(by_mail(box)))
    finally:
        box.close()


def test_a_class_of_ones_own_that_knows_no_barrier_conforms(erp: ErpControl) -> None:
    conforms(lambda: quick(at_the_erp(erp, "keyed", own=Plain())))


def test_what_others_wrote_does_once_what_it_is_asked_once_and_twice(stripe: Stripe, amazon: Amazon) -> None:
    """The short form of the suite below: one send with its mark, and the same again."""
    for subject in (
        at_stripe(stripe, "stripe-products"),
        at_stripe(stripe, "stripe-customers"),
        at_dynamodb(amazon),
        in_a_queue(amazon),
    ):
        frozen = subject.frozen()
        sends: list[Sent] = [subject.send(frozen) for _ in range(2)]
        assert sends[0].outcome is Outcome.APPLIED, sends[0].reading
        assert subject.here() == (1 if subject.contract.deduplicates else 2), subject.contract.title


@pytest.mark.long
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("name", ["stripe-products", "stripe-customers"])
def test_localstripe_keeps_what_its_contracts_say(stripe: Stripe, name: str, check: Check) -> None:
    check(at_stripe(stripe, name))


@pytest.mark.long
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("make", [at_dynamodb, in_a_queue])
def test_amazons_services_keep_what_their_contracts_say(
    amazon: Amazon, make: Callable[[Amazon], Subject], check: Check
) -> None:
    check(make(amazon))


@pytest.mark.long
def test_a_queue_takes_the_same_id_for_another_message_once_it_has_forgotten_it() -> None:
    """Its five minutes made two seconds: what the window of the contract is there for."""
    with moto(remembers=2) as amazon:
        it = in_a_queue(amazon)
        frozen = it.frozen()
        for _ in range(2):
            it.send(frozen)
        assert it.here() == 1
        until = time.monotonic() + 60
        while it.here() == 1 and time.monotonic() < until:
            it.send(frozen)
        assert it.here() == 2
    sent_at = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
    assert it.contract.resubmit_safe_until(sent_at) == sent_at + timedelta(minutes=4), (
        "a minute before the five"
    )


def test_another_item_under_our_key_is_no_proof_of_ours(amazon: Amazon) -> None:
    it = at_dynamodb(amazon)
    frozen = it.frozen()
    it.send(it.frozen(draft("put", note="somebody else's")(it.record), frozen.operation_key))
    sent = it.send(frozen)
    assert (sent.outcome, sent.reading.blocked, it.here()) == (Outcome.KEY_MISMATCH, True, 1)


def test_the_suite_finds_a_connector_that_forgets_the_mark_and_a_contract_that_promises_too_much(
    erp: ErpControl, stripe: Stripe
) -> None:
    """What passes everything shows nothing: each of these breaks one promise, and is named by it."""
    told = {"deduplicates": True, "retention": 86_400}
    customers = at_stripe(stripe, "stripe-customers")
    broken = {
        nothing_leaves_where_the_mark_is_refused: at_the_erp(erp, "keyed", own=Forgetful()),
        the_mark_is_made_once_and_before_anything_is_done: at_the_erp(erp, "neither", own=Forgetful()),
        the_same_again_is_what_the_contract_says: replace(
            customers, contract=customers.contract.model_copy(update=told)
        ),
        what_is_frozen_holds_the_key_and_no_secret: replace(at_the_erp(erp, "keyed"), secret="as approved"),
        a_draft_is_the_same_bytes_however_often_it_is_rendered: at_the_erp(erp, "keyed", own=Volatile()),
    }
    for check, subject in broken.items():
        calling._forgetful.clear()
        with pytest.raises(AssertionError):
            check(subject)
    calling._forgetful.clear()


def quick(subject: Subject) -> Subject:
    return replace(subject, contract=said(subject.contract, BRIEF))
