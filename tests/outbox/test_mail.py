"""E-mail through a real mail server: what arrives, and what its refusals mean."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import timedelta
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest
import trustme
from django.utils import timezone

from access.models import Membership, Person, Tenant
from access.roles import Role
from access.tenancy import acting
from config.mail import security
from outbox.dispatcher import mail
from outbox.dispatcher.outcomes import Delivered, Later, Never
from outbox.models import MessageKind
from outbox.writing import plain
from tests.outbox.conftest import Started
from tests.outbox.receiving import Mailbox
from tests.outbox.telling import make_due, messages, tell, until_settled, until_tried
from tests.support import make_person


@pytest.fixture
def operator(tenant: Tenant) -> Person:
    return addressed(make_person(tenant, Role.OPERATOR), "ada@example.test")


def addressed(person: Person, address: str) -> Person:
    Person.objects.filter(pk=person.pk).update(email=address)
    person.email = address
    return person


def letter(to: str = "ada@example.test") -> mail.Letter:
    return mail.Letter(to=to, subject="Told", text="Something.\n", message_id="<msg_1@example.test>")


def test_everybody_of_a_role_is_told_once_but_not_who_did_it(
    tenant: Tenant, operator: Person, mailbox: Mailbox, started: Started
) -> None:
    other = addressed(make_person(tenant, Role.OPERATOR, Role.ADMIN), "bea@example.test")
    addressed(make_person(tenant, Role.MANAGER), "cem@example.test")
    started()
    tell(tenant, roles=[Role.OPERATOR, Role.ADMIN], people=[operator.pk], but_not=[other.pk])
    (message,) = until_settled(tenant)
    assert (message.kind, message.person_id) == (MessageKind.EMAIL, operator.pk)
    (got,) = mailbox.letters
    assert mailbox.recipients == ["ada@example.test"]
    assert (got["To"], got["From"]) == ("ada@example.test", "counterfoil@example.test")
    assert got["Subject"] == f"[{tenant.slug}] RC-0001 was opened"
    assert got["Message-ID"] == f"<{message.webhook_id}@example.test>"
    assert got.get_content_type() == "text/plain"
    text = str(got.get_payload(decode=True), "utf-8").replace("\r\n", "\n")
    assert f"http://127.0.0.1:8000/t/{tenant.slug}/\n" in text
    assert "Nothing is decided by opening it" in text


def test_what_the_server_refuses_for_now_is_tried_again_and_what_it_refuses_for_good_is_not(
    tenant: Tenant, operator: Person, mailbox: Mailbox, started: Started
) -> None:
    addressed(make_person(tenant, Role.OPERATOR), "gone@example.test")
    mailbox.says = {
        "ada@example.test": ["451 4.3.0 Later", "250 OK"],
        "gone@example.test": ["550 5.1.1 No such"],
    }
    dispatcher = started()
    tell(tenant, roles=[Role.OPERATOR])
    until_tried(tenant, 2)
    make_due(tenant)
    dispatcher.wake()
    first, second = until_settled(tenant)
    assert (first.delivered_at is not None, first.attempts) == (True, 2)
    assert (second.given_up_at is not None, second.attempts) == (True, 1)
    assert second.last_error == "The mail server refused it: 550 5.1.1 No such"
    assert mailbox.asked.count("gone@example.test") == 1
    assert len({got["Message-ID"] for got in mailbox.letters}) == 1


@pytest.mark.parametrize(
    ("said", "kind"),
    [("554 5.7.1 It looks like spam", Never), ("452 4.3.1 Full", Later), ("250 Taken", Delivered)],
)
def test_what_is_said_of_the_text_counts_like_what_is_said_of_the_recipient(
    mailbox: Mailbox, said: str, kind: type
) -> None:
    mailbox.says_to_data = said
    assert isinstance(mail.send(letter()), kind)


def test_a_person_without_an_address_is_recorded_and_given_up(
    tenant: Tenant, mailbox: Mailbox, started: Started
) -> None:
    make_person(tenant, Role.OPERATOR)
    started()
    tell(tenant, roles=[Role.OPERATOR])
    (message,) = until_settled(tenant)
    assert message.last_error == "This person has no e-mail address."
    assert (message.given_up_at is not None, message.reported_at) == (True, None)
    assert mailbox.asked == []


def test_who_left_the_organisation_is_told_nothing_more(
    tenant: Tenant, operator: Person, mailbox: Mailbox, started: Started
) -> None:
    tell(tenant, people=[operator.pk])
    with acting(tenant.pk):
        Membership.objects.filter(person=operator).update(ended_at=timezone.now())
    started()
    (message,) = until_settled(tenant)
    assert message.last_error == "This person is no longer in the organisation."
    assert message.reported_at is not None
    assert mailbox.asked == []


@pytest.mark.parametrize(
    "address", ["ada@example.test\nBcc: eve@example.test", "ada", "@", "a b@example.test"]
)
def test_an_address_that_is_none_is_refused_before_the_server_is_asked(
    mailbox: Mailbox, address: str
) -> None:
    assert mail.send(letter(address)) == Never(
        "What is written down as this person's e-mail address is none."
    )
    assert mailbox.asked == []


def test_a_title_cannot_add_a_header_or_turn_the_line_around(
    tenant: Tenant, operator: Person, mailbox: Mailbox, started: Started
) -> None:
    from outbox.writing import Notice, write

    started()
    title = "Done\r\nBcc: eve@example.test\r\n\r\n<b>\u202egnp.exe</b> \N{EURO SIGN}\x00"
    with acting(tenant.pk):
        notice = Notice(event="case.opened", key="k", title=title, page="home")
        write(notice, people=[operator.pk], now=timezone.now())
    until_settled(tenant)
    (got,) = mailbox.letters
    assert str(make_header(decode_header(got["Subject"]))) == (
        f"[{tenant.slug}] Done Bcc: eve@example.test <b> gnp.exe</b> \N{EURO SIGN}"
    )
    assert got["Bcc"] is None
    assert mailbox.recipients == ["ada@example.test"]
    assert len(plain("x" * 1000)) == 200


def test_without_a_mail_server_no_e_mail_is_written(tenant: Tenant, operator: Person, settings: Any) -> None:
    settings.EMAIL_HOST = ""
    assert tell(tenant, roles=[Role.OPERATOR]) == 0
    assert messages(tenant) == []


def test_a_mail_server_that_is_away_is_waited_for(
    tenant: Tenant, operator: Person, mailbox: Mailbox, started: Started
) -> None:
    mailbox.close()
    started()
    tell(tenant, roles=[Role.OPERATOR])
    ((outcome, said),) = until_tried(tenant, 1)
    assert (outcome, said.split(":")[0]) == ("failed", "The mail server cannot be used")
    (message,) = messages(tenant)
    assert message.next_attempt_at is not None
    assert message.next_attempt_at - message.created_at < timedelta(minutes=1)


@pytest.fixture
def guarded(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    """A server that wants TLS and a password, with a certificate that this process trusts."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    (tmp_path / "password").write_text("open sesame\n")
    box = Mailbox(tls=context, user="counterfoil", password="open sesame").open()
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", box.port, True
    settings.EMAIL_HOST_USER = "counterfoil"
    settings.COUNTERFOIL_EMAIL_PASSWORD_FILE = str(tmp_path / "password")
    yield box
    box.close()


def test_the_password_goes_over_tls_and_is_read_anew_each_time(guarded: Mailbox, tmp_path: Path) -> None:
    assert mail.send(letter()) == Delivered("The mail server took it.")
    assert guarded.encrypted == [True]
    (tmp_path / "password").write_text("wrong")
    refused = mail.send(letter())
    assert isinstance(refused, Later)
    assert refused.said.startswith("The mail server said: 535")
    assert "wrong" not in refused.said


def test_a_certificate_that_is_not_trusted_is_not_spoken_to(
    guarded: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    refused = mail.send(letter())
    assert isinstance(refused, Later)
    assert "certificate" in refused.said.lower()
    assert guarded.letters == []


def test_the_ways_of_tls_have_their_usual_ports() -> None:
    assert security("starttls", "") == (True, False, 587)
    assert security("implicit", "") == (False, True, 465)
    assert security("none", "2525") == (False, False, 2525)
    with pytest.raises(ValueError, match="it is one of: none, starttls, implicit"):
        security("yes", "")
