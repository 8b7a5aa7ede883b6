"""Mail as an effect: frozen to the byte, one recipient, and what each phase of the conversation means when it fails."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from approvals.rendering import CannotRender
from dispatch.actions.receivers import BadContract
from dispatch.classification import Outcome, Reading
from dispatch.connectors.calling import read_through, send_through
from dispatch.connectors.seam import Sending
from dispatch.connectors.smtp import SmtpConnector
from dispatch.contracts import Action, Contract, KeyLocation
from dispatch.requests import Place
from dispatch.wire import Exchange, NotBegun, Request
from tests.dispatch.faults import FaultServer
from tests.dispatch.mail_server import mail_server, reset
from tests.dispatch.world import QUICK, Dispatching, as_owner
from tests.outbox.receiving import Mailbox
from workflows.authoring import OperationDraft

O = Outcome  # noqa: E741 - a table reads better with one letter
NOW = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
SMTP = SmtpConnector()
TEXT = "Dear Søren,\n.hidden dot\n..two\nyour limit is 4,800.00 €\n"
BODY = {"from": "billing@acme.example", "to": "soren@fennmark.example", "subject": "Your limit", "text": TEXT}
KEY = "k" * 32
FROZEN = (
    "From: billing@acme.example\nTo: soren@fennmark.example\nSubject: Your limit\n"
    f"Message-ID: <{KEY}@acme.example>\n"
    'Content-Type: text/plain; charset="utf-8"\nContent-Transfer-Encoding: 8bit\nMIME-Version: 1.0\n\n'
    "Dear Søren,\n.hidden dot\n..two\nyour limit is 4,800.00 €\n"
).encode()


def a_contract(**changes: Any) -> Contract:
    action = Action(method="SEND", path="/", receipt_required=False)
    return Contract(**{
        "title": "Mail", "connector": "smtp", "actions": {"mail": action}, "timeouts": QUICK, "in_flight_max": 0, **changes
    })  # fmt: skip


def a_draft(**body: Any) -> OperationDraft:
    return OperationDraft(
        receiver="post", action="mail", record="V-1", title="Tell Fennmark", body={**BODY, **body}
    )


def sending(url: str, contract: Contract | None = None, account: str = "") -> Sending:
    contract = contract or a_contract()
    frozen = SMTP.render(a_draft(), contract, Place("post", url), KEY)
    credentials = SMTP.credentials("env:COUNTERFOIL_RECEIVER_MAIL" if account else "", contract)
    request = Request(frozen.method, frozen.target, dict(frozen.headers), frozen.body)
    return Sending(request, contract, contract.actions["mail"], KEY, "V-1", url, account, credentials)


def send(what: Sending) -> tuple[Exchange, Reading, list[str]]:
    asked: list[str] = []
    seen = send_through(SMTP, what, lambda: asked.append("mark"))
    return seen, read_through(SMTP, seen, what, NOW), asked


def test_a_mail_is_the_same_bytes_however_often_it_is_rendered_and_its_text_can_be_read() -> None:
    place = Place("post", "smtp://mail.example")
    one, other = (SMTP.render(a_draft(), a_contract(), place, KEY) for _ in range(2))
    assert one == other
    assert one.body == FROZEN
    assert (one.method, one.target) == ("SEND", "smtp://mail.example/")
    assert one.headers == {"Mail-From": "billing@acme.example", "Rcpt-To": "soren@fennmark.example"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"to": "a@b.example, c@d.example"}, "one address"),
        ({"to": "a@b.example\r\nRcpt-To: c@d.example"}, "characters that a mail cannot hold"),
        ({"to": ""}, "needs its to"),
        ({"subject": "Hello\r\nBcc: eve@evil.example"}, "characters that a mail cannot hold"),
        ({"text": "a\x00b"}, "characters that a mail cannot hold"),
        ({"text": "x" * 999}, "a line of more than 998 bytes"),
        ({"cc": "other@b.example"}, "A mail has no cc"),
    ],
)
def test_what_is_no_mail_to_one_person_is_not_frozen(body: dict[str, str], why: str) -> None:
    with pytest.raises(CannotRender) as refused:
        SMTP.render(a_draft(**body), a_contract(), Place("post", "smtp://mail.example"), KEY)
    assert why in str(refused.value)


def test_line_ends_of_every_kind_become_the_one_that_ends_no_mail_early() -> None:
    """A lone CR or LF before a dot is where servers have disagreed on what is one mail and what are two."""
    smuggled = {"text": "a\n.\nMAIL FROM:<x@y>\r.\r\nb\r.\rc"}
    body = SMTP.render(a_draft(**smuggled), a_contract(), Place("post", "smtp://mail.example"), KEY).body
    assert b"\r" not in body
    with FaultServer(mail_server()) as server:
        url = f"smtp+clear://{server.url.removeprefix('http://')}"
        what = sending(url)
        request = Request("SEND", what.request.url, what.request.headers, body)
        send_through(SMTP, Sending(request, what.contract, what.action, KEY, "V-1", url), lambda: None)
    came = server.received[0]
    assert came.count(b"\r\n.\r\n") == 1
    assert came.replace(b"\r\n", b"").count(b"\r") + came.replace(b"\r\n", b"").count(b"\n") == 0


Row = tuple[dict[str, Any], Outcome, bool, bool]
ROWS: dict[str, Row] = {
    # What happens, what it comes to, whether somebody has to change something, whether it was marked.
    "nobody greets": ({"greeting": reset}, O.NOT_SENT, False, False),
    "another greeting": ({"greeting": "554 go away"}, O.NOT_SENT, True, False),
    "too busy": ({"greeting": "421 later"}, O.NOT_SENT, False, False),
    "silence after hello": ({"hello": lambda _: None}, O.NOT_SENT, False, False),
    "the sender is refused": ({"sender": "550 not you"}, O.NOT_SENT, True, False),
    "the sender has to wait": ({"sender": "451 later"}, O.NOT_SENT, False, False),
    "the recipient is refused": ({"recipient": "550 no such person"}, O.REFUSED, False, False),
    "the recipient is greylisted": ({"recipient": "450 later"}, O.NOT_SENT, False, False),
    "no message is taken": ({"data": "554 no"}, O.REFUSED, False, False),
    "the end within the message": ({"content": reset}, O.NOT_APPLIED, False, True),
    "refused after the dot": ({"dot": "554 spam"}, O.REFUSED, False, True),
    "put off after the dot": ({"dot": "451 later"}, O.NOT_APPLIED, False, True),
    "silence after the dot": ({"dot": lambda _: None}, O.UNKNOWN, False, True),
    "the end after the dot": ({"dot": reset}, O.UNKNOWN, False, True),
    "rubbish after the dot": ({"dot": "what?"}, O.UNKNOWN, False, True),
    "a line without end after the dot": ({"dot": "250 " + "x" * 20_000}, O.UNKNOWN, False, True),
    "taken": ({}, O.APPLIED, False, True),
    "taken, and broken off before the farewell": ({"quit": reset}, O.APPLIED, False, True),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_what_goes_wrong_in_each_phase_comes_to_what_the_table_says(row: Row) -> None:
    says, outcome, blocked, marked = row
    with FaultServer(mail_server(**says)) as server:
        what = sending(f"smtp+clear://{server.url.removeprefix('http://')}")
        if "content" in says:
            request = Request("SEND", what.request.url, what.request.headers, FROZEN + b"x\n" * 4_000_000)
            what = Sending(request, what.contract, what.action, KEY, "V-1", what.base_url)
        seen, reading, asked = send(what)
    assert (reading.outcome, reading.blocked) == (outcome, blocked), reading.fault
    assert (seen.marked, asked) == (marked, ["mark"] if marked else [])
    assert len(server.received) == 1


def test_a_mark_that_is_refused_lets_nothing_of_the_message_out() -> None:
    def refuse() -> None:
        raise NotBegun("a cancel was asked for")

    with FaultServer(mail_server()) as server:
        what = sending(f"smtp+clear://{server.url.removeprefix('http://')}")
        seen = send_through(SMTP, what, refuse)
        received = server.received[0]  # before its end, which would cut off who is still reading
    assert (seen.marked, read_through(SMTP, seen, what, NOW).outcome) == (False, O.NOT_SENT)
    assert b"Dear" not in received
    assert received.endswith(b"data\r\n")


@pytest.mark.parametrize(
    ("url", "outcome", "blocked"),
    [
        ("smtp://no-such-host.invalid", O.NOT_SENT, False),
        ("smtp+clear://127.0.0.1:1", O.NOT_SENT, False),
        ("smtp+clear://mail.example", O.OUR_FAULT, True),
    ],
)
def test_what_fails_before_a_conversation_is_never_marked(
    url: str, outcome: Outcome, blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def moved(host: str, *rest: Any, **more: Any) -> Any:
        return [(2, 1, 6, "", ("10.0.0.5", 25))] if host == "mail.example" else real(host, *rest, **more)

    what = sending(url)
    monkeypatch.setattr(socket, "getaddrinfo", moved)
    _, reading, asked = send(what)
    assert (reading.outcome, reading.blocked, asked) == (outcome, blocked, [])


def test_text_beyond_ascii_is_not_rewritten_for_a_server_that_cannot_take_it() -> None:
    with FaultServer(mail_server(extensions=())) as server:
        _, reading, asked = send(sending(f"smtp+clear://{server.url.removeprefix('http://')}"))
    assert (reading.outcome, reading.blocked, asked) == (O.NOT_SENT, True, [])
    assert "8BITMIME" in reading.fault


def test_no_password_and_no_mail_leaves_where_tls_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_MAIL", "correct horse battery")
    with FaultServer(mail_server(), mail_server()) as server:
        where = server.url.removeprefix("http://")
        found = [send(sending(f"{scheme}://{where}", account="desk")) for scheme in ("smtp", "smtp+clear")]
    assert b"mail FROM" not in b"".join(server.received)
    assert b"auth" not in b"".join(server.received).lower()
    assert [(r.outcome, r.blocked) for _, r, _ in found] == [(O.NOT_SENT, True)] * 2


@pytest.mark.django_db(transaction=True)
def test_an_approved_mail_arrives_once_as_it_was_approved_and_a_second_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real mail server, with STARTTLS and a password. The second time it takes the mail and its answer is lost."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_MAIL", "correct horse battery")
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_MAIL_CA", str(tmp_path / "ca.pem"))
    box = Mailbox(tls=tls, user="desk", password="correct horse battery").open()
    try:
        contract = a_contract(tls={"authorities": "env:COUNTERFOIL_RECEIVER_MAIL_CA"})
        d = Dispatching.make(f"smtp://localhost:{box.port}", contract)
        named = "secret_reference = 'env:COUNTERFOIL_RECEIVER_MAIL', account = 'desk' WHERE tenant_id = %s"
        as_owner("dispatch_receiver", named, [d.tenant_id])
        job = d.ready("V-1", action="mail", body=BODY)
        d.run(job)
        (sent,) = d.submissions(job)
        assert (d.job_state(job), sent.outcome, sent.receipt_id) == ("CONFIRMED", "applied", "Taken")
        assert (sent.sent_differs, sent.sent_digest) == ("", d.operation(job).proposed.body_digest)
        assert "correct horse" not in sent.sent_head
        (letter,) = box.letters
        assert letter["Message-ID"] == f"<{d.operation(job).operation_key}@acme.example>"
        assert letter.get_payload(decode=True).decode().replace("\r\n", "\n") == TEXT  # type: ignore[union-attr]
        assert box.encrypted == [True]
    finally:
        box.close()
    with FaultServer(mail_server(dot=reset)) as server:
        d = Dispatching.make(f"smtp+clear://{server.url.removeprefix('http://')}", a_contract())
        job = d.ready("V-2", action="mail", body=BODY)
        d.run(job)
        assert d.job_state(job) == "NEEDS_RECONCILIATION"
        (sent,) = d.submissions(job)
        assert (sent.outcome, d.operation(job).next_step) == ("unknown", "")
        assert (sent.sent_digest, len(server.received)) == (d.operation(job).proposed.body_digest, 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"key_location": KeyLocation.BODY, "key_name": "key"}, "takes no key and cannot be asked"),
        ({"actions": {"mail": Action(method="POST", path="/")}}, "sent by the method SEND"),
        ({"actions": {"mail": Action(method="SEND", path="/", headers={"X-A": "1"})}}, "the body alone is mapped"),
    ],
)  # fmt: skip
def test_a_contract_that_promises_more_than_mail_can_is_not_written(
    changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadContract, match=why):
        Dispatching.make("smtp://mail.example", a_contract(**changes))
