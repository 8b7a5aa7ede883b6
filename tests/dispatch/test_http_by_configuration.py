"""What a contract alone can say of HTTP: where each value goes, how a body is written, and who it is from."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from pydantic import ValidationError

from access.tenancy import reading
from approvals.rendering import CannotRender, FrozenRequest
from dispatch import tokens
from dispatch.classification import Outcome, Reading
from dispatch.connectors.calling import read_through, send_through
from dispatch.connectors.http import HttpConnector
from dispatch.connectors.seam import Sending
from dispatch.contracts import Action, Contract, KeyLocation, Meaning
from dispatch.explaining import explain
from dispatch.models import Submission
from dispatch.requests import Place
from dispatch.wire import Exchange, Request
from tests.dispatch.faults import FaultServer, answers, read_all, silence
from tests.dispatch.world import QUICK, RECEIPT, Dispatching, a_keyed_contract, as_json, as_owner
from workflows.authoring import OperationDraft

NOW = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
HTTP = HttpConnector()
CHARGE: dict[str, Any] = {
    "method": "POST",
    "path": "/v1/accounts/{account}/charges",
    "query": {"expand": "{body.expand}"},
    "headers": {
        "Stripe-Version": "2026-01-28",
        "X-Reference": "{record}",
        "Accept": "application/vnd.it+json",
    },
    "body_as": "form",
    "body": {
        "amount": "{amount_minor}",
        "currency": "{currency}",
        "metadata.operation": "{operation_key}",
        "description": "Order {record} of {body.customer.name}",
        "items": "{body.items}",
        "capture": True,
    },
    "success": {"200": Meaning.APPLIED, "201": Meaning.APPLIED},
    "echo_path": ".",
    "echo_fields": ("amount", "currency", "metadata[operation]"),
}


def a_contract_of(action: dict[str, Any] | None = None, **changes: Any) -> Contract:
    return Contract(
        title="Payments", actions={"charge": Action(**{**CHARGE, **(action or {})})}, timeouts=QUICK,
        **{"key_location": KeyLocation.HEADER, "key_name": "Idempotency-Key", **changes},
    )  # fmt: skip


def a_draft(**changes: Any) -> OperationDraft:
    body = {"customer": {"name": "Fennmark & Söhne"}, "items": [{"sku": "A"}, {"sku": "B"}], "expand": "fee"}
    return OperationDraft(**{
        "receiver": "pay", "action": "charge", "record": "V/1", "title": "Charge", "body": body,
        "amount": "12.50", "currency": "EUR", **changes,
    })  # fmt: skip


def rendered(contract: Contract, url: str = "https://pay.example/api", **draft: Any) -> FrozenRequest:
    return HTTP.render(a_draft(**draft), contract, Place("pay", url, "acct 7"), "k" * 16)


def sent(contract: Contract, frozen: FrozenRequest, url: str) -> tuple[Exchange, Reading]:
    """The frozen request through the connector, as dispatch sends it."""
    credentials = HTTP.credentials("env:COUNTERFOIL_RECEIVER_PAY", contract)
    request = Request(
        frozen.method,
        frozen.target,
        dict(frozen.headers),
        frozen.body,
        credentials.headers,
        credentials.security,
    )
    what = Sending(
        request,
        contract,
        contract.actions["charge"],
        frozen.operation_key,
        frozen.record,
        url,
        credentials=credentials,
    )
    seen = send_through(HTTP, what, lambda: None)
    return seen, read_through(HTTP, seen, what, NOW)


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_PAY", "the client's secret")
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_SIGN", "the signing secret")
    tokens._held.clear()
    yield
    tokens._held.clear()


def test_every_value_goes_where_the_contract_says_and_that_is_what_is_frozen_and_sent() -> None:
    contract = a_contract_of()
    with FaultServer(answers(200)) as server:
        frozen = rendered(contract, server.url)
        sent(contract, frozen, server.url)
        url = server.url
    (received,) = server.received
    assert frozen.target == f"{url}/v1/accounts/acct%207/charges?expand=fee"
    assert frozen.headers == {
        "Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": "k" * 16,
        "Stripe-Version": "2026-01-28", "X-Reference": "V/1", "Accept": "application/vnd.it+json",
    }  # fmt: skip
    assert frozen.body.decode() == (
        "amount=1250&currency=EUR&metadata%5Boperation%5D=kkkkkkkkkkkkkkkk"
        "&description=Order+V%2F1+of+Fennmark+%26+S%C3%B6hne&items%5B0%5D%5Bsku%5D=A&items%5B1%5D%5Bsku%5D=B&capture=true"
    )
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/accounts/acct%207/charges?expand=fee HTTP/1.1\r\n")
    assert body == frozen.body


def test_a_mapped_json_body_keeps_numbers_and_nests_by_place() -> None:
    mapping = {
        "money.value": "{amount}",
        "money.minor": "{amount_minor}",
        "who": "{body.customer}",
        "kind": 7,
    }
    contract = a_contract_of({"body_as": "json", "body": mapping, "echo_path": ""})
    assert json.loads(rendered(contract, amount="1250", currency="JPY").body) == {
        "money": {"value": "1250", "minor": 1250}, "who": {"name": "Fennmark & Söhne"}, "kind": 7,
    }  # fmt: skip
    nothing = rendered(a_contract_of({"method": "DELETE", "body_as": "none", "body": {}, "echo_path": ""}))
    assert (nothing.body, "Content-Type" in nothing.headers) == (b"", False)


@pytest.mark.parametrize(
    ("action", "draft", "why"),
    [
        ({}, {"amount": None, "currency": None}, "{amount_minor}, and the draft names none"),
        ({"headers": {"X-Who": "{body.customer}"}}, {}, "it is neither a text nor a number"),
        ({"path": "/{body.gone}"}, {}, "{body.gone}, and the draft names none"),
        ({"path": "/{body.up}"}, {"body": {"up": ".."}}, "cannot be a part of an address"),
    ],
)
def test_a_draft_that_lacks_what_the_contract_sends_is_not_frozen(
    action: dict[str, Any], draft: dict[str, Any], why: str
) -> None:
    with pytest.raises(CannotRender) as refused:
        rendered(a_contract_of({"query": {}, **action}), **draft)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("action", "changes", "why"),
    [
        ({"body": {"at": "{now}"}}, {}, "{now} is no value of an operation"),
        ({"headers": {"Content-Length": "3"}}, {}, "the client's own"),
        ({"headers": {"Authorization": "x"}}, {}, "the client's own"),
        ({"headers": {"Signature-Input": "x"}}, {}, "the client's own"),
        ({"headers": {"idempotency-key": "mine"}}, {}, "is not written by an action"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, {}, "stands there twice"),
        ({"headers": {"X A": "1"}}, {}, "no header's name"),
        ({"body": {"a": "1", "a.b": "2"}}, {}, "cannot be a value and hold others"),
        ({"body_as": "none"}, {}, "there is none to map"),
        ({"method": "SEND"}, {}, "POST, PUT, PATCH or DELETE"),
        ({}, {"signing": {"secret_reference": "env:DATABASE_URL"}}, "never written here"),
        ({}, {"signing": {"secret_reference": "env:COUNTERFOIL_RECEIVER_A", "signs": "{secret}"}}, "{secret} cannot"),
        ({}, {"tls": {"certificate": "/etc/ssl/private/key.pem"}}, "never written here"),
        ({}, {"oauth": {"token_url": "file:///etc/passwd", "client_id": "c"}}, "begins with http"),
    ],
)  # fmt: skip
def test_a_contract_that_cannot_be_sent_as_it_says_is_not_written(
    action: dict[str, Any], changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        a_contract_of(action, **changes)
    assert why in str(refused.value)


def test_nothing_that_changes_from_one_render_to_the_next_can_be_in_a_template() -> None:
    contract = a_contract_of()
    assert rendered(contract) == rendered(contract)


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({}, Outcome.APPLIED),
        ({"amount": 1251}, Outcome.CONFLICTED),
        ({"metadata": {"operation": "another"}}, Outcome.CONFLICTED),
        ({"currency": None}, Outcome.CONFLICTED),
    ],
)
def test_201_with_another_amount_is_a_conflict_in_a_form_too(
    changed: dict[str, Any], outcome: Outcome
) -> None:
    contract = a_contract_of()
    told = {"id": "ch_1", "amount": 1250, "currency": "EUR", "metadata": {"operation": "k" * 16}, **changed}
    with FaultServer(answers(201, as_json(told))) as server:
        assert sent(contract, rendered(contract, server.url), server.url)[1].outcome is outcome


def test_what_signs_a_request_covers_its_bytes_and_is_neither_frozen_nor_kept() -> None:
    signing = {
        "secret_reference": "env:COUNTERFOIL_RECEIVER_SIGN", "signs": "{timestamp}.{method}.{path}.{body}",
        "value": "t={timestamp},v1={signature}",
    }  # fmt: skip
    contract = a_contract_of(signing=signing)
    with FaultServer(answers(200)) as server:
        frozen = rendered(contract, server.url)
        seen, _ = sent(contract, frozen, server.url)
    head, _, body = server.received[0].partition(b"\r\n\r\n")  # once the server has ended, it is there
    assert "X-Signature" not in frozen.headers
    line = next(line for line in head.split(b"\r\n") if line.startswith(b"X-Signature: "))
    stamp, _, given = line.decode().removeprefix("X-Signature: t=").partition(",v1=")
    signed = f"{stamp}.POST./v1/accounts/acct%207/charges?expand=fee.".encode() + body
    assert given == hmac.new(b"the signing secret", signed, hashlib.sha256).hexdigest()
    assert seen.written is not None
    assert given not in seen.written.head
    (term,) = [t for t in explain(contract) if t.name == "Signs requests"]
    assert "no approver sees it" in term.sentence


# -- OAuth -----------------------------------------------------------------------------------------------------------
def gives(token: str, **more: Any) -> Callable[[Any], bytes]:
    return answers(200, as_json({"access_token": token, "token_type": "bearer", "expires_in": 3600, **more}))


def with_tokens(url: str, **changes: Any) -> Contract:
    oauth = {"token_url": f"{url}/token", "client_id": "counter foil", "scope": "write", **changes}
    return a_keyed_contract(oauth=oauth, retry_after_max=0)


def test_of_many_that_need_a_token_at_once_one_asks_and_all_are_told_the_same() -> None:
    """An issuer that hangs would otherwise hold one slot after another for its whole time-out."""
    for does, outcomes in ((silence, {"NoToken"}), (gives("one-for-all-1"), {""})):
        with FaultServer(*[does] * 6) as issuer, FaultServer(*[answers(200)] * 6) as server:
            contract = a_contract_of(oauth={"token_url": f"{issuer.url}/token", "client_id": "c"})
            frozen, url = rendered(contract, server.url), server.url
            with ThreadPoolExecutor(6) as threads:
                found = [f.result() for f in [threads.submit(sent, contract, frozen, url) for _ in range(6)]]
            assert {seen.exception for seen, _ in found} == outcomes
            assert len(issuer.received) == 1


def bearer_of(request: bytes) -> str:
    lines = [line for line in request.split(b"\r\n") if line.startswith(b"Authorization: ")]
    return lines[0].decode().partition(": ")[2] if lines else ""


@pytest.mark.django_db(transaction=True)
def test_a_token_is_asked_for_once_kept_in_memory_only_and_anew_after_a_401_under_the_same_key() -> None:
    with (
        FaultServer(gives("first-token-1"), gives("second-token-2")) as issuer,
        FaultServer(
            answers(200, as_json(RECEIPT)), answers(401), answers(200, as_json({**RECEIPT, "record": "V-2"}))
        ) as server,
    ):
        d = Dispatching.make(server.url, with_tokens(issuer.url))
        _name_its_secret(d)
        d.run(d.ready("V-1"))
        second = d.ready("V-2")
        d.run(second)
        assert d.job_state(second) == "CONFIRMED"
        refused, applied = d.submissions(second)
        assert (refused.outcome, refused.fault) == (
            "not applied",
            "answered 401: the token is asked for anew",
        )
        assert [bearer_of(r) for r in server.received] == [
            "Bearer first-token-1", "Bearer first-token-1", "Bearer second-token-2",
        ]  # fmt: skip
        assert len({_key_of(r) for r in server.received[1:]}) == 1
        assert len(issuer.received) == 2
        assert (
            b"Authorization: Basic Y291bnRlciUyMGZvaWw6dGhlJTIwY2xpZW50JTI3cyUyMHNlY3JldA=="
            in issuer.received[0]
        )
        assert issuer.received[0].endswith(b"grant_type=client_credentials&scope=write")
        with reading(d.tenant_id):
            kept = str(list(Submission.objects.values()))
        assert "first-token" not in kept
        assert "second-token" not in kept
        assert applied.sent_differs == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("does", "step", "fault"),
    [
        (answers(500), "send", "no token to send with: "),
        (answers(200, b"<title>Sign in</title>"), "send", "no token to send with: "),
        (answers(302, Location="http://169.254.169.254/latest/"), "send", "no token to send with: "),
        (answers(401, b'{"error": "invalid_client"}'), "blocked", "no token is given to us: "),
        (answers(200, b'{"access_token": "a\\r\\nb"}'), "send", "no token to send with: "),
    ],
)
def test_a_token_endpoint_that_fails_is_a_send_that_did_not_begin(does: Any, step: str, fault: str) -> None:
    with FaultServer(does) as issuer, FaultServer() as server:
        d = Dispatching.make(server.url, with_tokens(issuer.url))
        _name_its_secret(d)
        job = d.ready("V-1")
        d.step(d.operation(job))
        (submission,) = d.submissions(job)
        assert (submission.outcome, submission.may_have_been_sent_at) == ("not sent", None)
        assert submission.fault.startswith(fault)
        assert d.operation(job).next_step == step
        assert (len(issuer.received), server.received) == (1, [])


@pytest.mark.django_db(transaction=True)
def test_a_token_that_is_refused_at_once_waits_for_a_person() -> None:
    """It was fetched for this very send: another one would be refused too."""
    with FaultServer(gives("fresh-token-1")) as issuer, FaultServer(answers(401)) as server:
        d = Dispatching.make(server.url, with_tokens(issuer.url, client_auth="body"))
        _name_its_secret(d)
        job = d.ready("V-1")
        d.step(d.operation(job))
        assert d.operation(job).next_step == "blocked"
        assert b"client_id=counter+foil&client_secret=the+client%27s+secret" in issuer.received[0]


def _name_its_secret(d: Dispatching) -> None:
    name = "secret_reference = 'env:COUNTERFOIL_RECEIVER_PAY' WHERE tenant_id = %s"
    as_owner("dispatch_receiver", name, [d.tenant_id])


def _key_of(request: bytes) -> bytes:
    return next(line for line in request.split(b"\r\n") if line.lower().startswith(b"idempotency-key"))


# -- certificates ----------------------------------------------------------------------------------------------------
def test_a_client_certificate_opens_what_is_closed_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver's authority is a private one, and it lets nobody in whom that authority does not know."""
    authority, client = trustme.CA(), tmp_path / "client.pem"
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    authority.issue_cert("counterfoil.example").private_key_and_cert_chain_pem.write_to_path(str(client))
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_CLIENT_CERTIFICATE", str(client))
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_AUTHORITY", str(tmp_path / "authority.pem"))
    guarded = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(guarded)
    authority.configure_trust(guarded)
    guarded.verify_mode = ssl.CERT_REQUIRED
    believes = {"authorities": "env:COUNTERFOIL_RECEIVER_AUTHORITY"}
    own = {**believes, "certificate": "env:COUNTERFOIL_RECEIVER_CLIENT_CERTIFICATE"}
    told = as_json({"id": "1", "amount": 1250, "currency": "EUR", "metadata": {"operation": "k" * 16}})
    found = []
    with FaultServer(answers(200, told), read_all, read_all, tls=guarded) as server:
        for tls in (own, believes, None):
            contract = a_contract_of(tls=tls)
            found.append(sent(contract, rendered(contract, server.url), server.url)[1])
    assert [r.outcome for r in found] == [Outcome.APPLIED, Outcome.NOT_APPLIED, Outcome.NOT_SENT]
    assert "certificate" in found[1].fault
    assert all(r.blocked for r in found[1:])
    (tmp_path / "client.pem").write_text("no certificate any more")
    contract = a_contract_of(tls=own)
    with FaultServer(tls=guarded) as server:
        seen, reading = sent(contract, rendered(contract, server.url), server.url)
        assert server.received == []
    assert (seen.exception, reading.outcome, reading.blocked) == (
        "CertificateUnusable",
        Outcome.OUR_FAULT,
        True,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"auth_header": "Content-Type"},
        {"auth_header": "Host"},
        {"auth_header": "idempotency-key"},
        {"auth_header": "X Secret"},
        {"signing": {"secret_reference": "env:COUNTERFOIL_RECEIVER_S", "header": "Accept"}},
        {"key_name": "Authorization", "auth_header": "X-Secret"},
        {"key_name": "Content-Length"},
    ],
)
def test_what_is_made_when_it_is_sent_takes_the_place_of_nothing_that_was_approved(
    changes: dict[str, Any],
) -> None:
    (fault,) = HTTP.problems(a_keyed_contract(**changes))
    assert "cannot be the header" in fault
    signed = {"secret_reference": "env:COUNTERFOIL_RECEIVER_S", "header": "Authorization"}
    assert list(HTTP.problems(a_keyed_contract(signing=signed))) == []


def test_two_actions_of_one_address_are_read_alike_or_not_at_all() -> None:
    """A service of one address, as GraphQL's: by the first action's terms the second's refusal would be a success."""
    refund = Action(method="POST", path="/graphql", receipt_required=False, errors_path="data.refund.errors")
    fulfil = Action(method="POST", path="/graphql", receipt_required=False, errors_path="data.fulfil.errors")
    both = a_keyed_contract(actions={"refund": refund, "fulfil": fulfil})
    (fault,) = HTTP.problems(both)
    assert fault.startswith("The actions refund and fulfil go to one address")
    what = Sending(
        Request("POST", "http://it.example/graphql", {}, b"{}"), both, both.action_of("POST", "/graphql"), "key",
        "R-1", "http://it.example",
    )  # fmt: skip
    refused = Exchange(marked=True, status=200, body=as_json({"data": {"fulfil": {"errors": ["no"]}}}))
    assert read_through(HTTP, refused, what, NOW).outcome is Outcome.UNKNOWN

    alike = a_keyed_contract(
        actions={"refund": refund, "again": refund.model_copy(update={"body_as": "form"})}
    )
    assert list(HTTP.problems(alike)) == []
    assert alike.action_of("POST", "/graphql") is not None
    one, every = (
        Action(method="PUT", path=p, echo_path=e) for p, e in (("/v/{record}", "v"), ("/v/all", ""))
    )
    nested = a_keyed_contract(actions={"one": one, "every": every})
    assert [nested.action_of("PUT", p) for p in ("/v/V-1", "/v/all", "/w/V-1")] == [one, every, None]
    assert list(HTTP.problems(nested)) == []
