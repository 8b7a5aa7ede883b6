"""Receivers that mean harm or know no better: what each does to memory, to time, to the network and to the job."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from access.tenancy import reading
from approvals.models import Proposal
from dispatch.classification import Outcome
from dispatch.connectors.calling import look_through, read_through, send_through
from dispatch.connectors.http import HttpConnector
from dispatch.connectors.seam import Sending
from dispatch.contracts import Contract, Timeouts
from dispatch.sights import Found
from dispatch.wire import Request
from tests.approvals.pages import as_person, at, text
from tests.dispatch.faults import Behaviour, FaultServer, answers, drips, fin, says
from tests.dispatch.mail_server import mail_server
from tests.dispatch.test_smtp import BODY as MAIL
from tests.dispatch.test_smtp import SMTP
from tests.dispatch.test_smtp import a_contract as a_mail_contract
from tests.dispatch.test_smtp import sending as mail_sending
from tests.dispatch.world import (
    BODY,
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
)

NOW = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
MB = 1_000_000
METADATA = "http://169.254.169.254/latest/meta-data/"
ENDLESS = drips(b"HTTP/1.1 200 OK\r\nContent-Length: 2147483648\r\n\r\n", b"x" * 65_536)


def a_sending(url: str, contract: Contract) -> Sending:
    request = Request("PUT", f"{url}/vendors/V-1", {"Content-Type": "application/json"}, as_json(BODY))
    return Sending(request, contract, contract.actions["update"], "key", "V-1", url)


def peak(does: Callable[[], Any]) -> int:
    """The most memory that Python held at a time while it ran, beyond what it held before."""
    tracemalloc.start()
    try:
        does()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_two_gigabytes_for_an_answer_cost_a_few_megabytes_and_no_time_wherever_they_come_from() -> None:
    """As the answer to a send, to a look-up, to the question for a token."""
    slow = Timeouts(connect=2, read=20, write=2)
    http, contract = HttpConnector(), a_lookup_contract(timeouts=slow)
    with FaultServer(ENDLESS, ENDLESS) as server:
        what, found = a_sending(server.url, contract), []
        grown = peak(lambda: found.append(send_through(http, what, lambda: None)))
        grown = max(grown, peak(lambda: found.append(look_through(http, what))))
    seen, sight = found
    assert (seen.status, len(seen.body), seen.body_problem) == (200, MB, "longer than 1000000 bytes")
    assert read_through(http, seen, what, NOW).outcome is Outcome.UNKNOWN
    assert sight.found is Found.UNCLEAR
    assert grown < 12 * MB


def test_a_mail_server_that_never_ends_its_reply_is_cut_off_small() -> None:
    def talks_on(connection: Any) -> None:
        for _ in range(10_000):
            connection.sendall(b"250-" + b"x" * 1000 + b"\r\n")

    with FaultServer(mail_server(dot=talks_on)) as server:
        what, found = mail_sending(f"smtp+clear://{server.url.removeprefix('http://')}"), []
        grown = peak(lambda: found.append(send_through(SMTP, what, lambda: None)))
    assert read_through(SMTP, found[0], what, NOW).outcome is Outcome.UNKNOWN
    assert grown < 2 * MB


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("busy", "last"),
    [
        (answers(409, as_json({"code": "key_in_progress"})), "in progress"),
        (answers(409, b"<h1>Conflict</h1>"), "unknown"),
    ],
)
def test_409_for_ever_ends_with_a_person_under_the_one_key(busy: Behaviour, last: str) -> None:
    """Whether the contract knows it as "still working on it" or not: it is waited for so many times and no more."""
    with FaultServer(fin, *[busy] * 40) as server:
        d = Dispatching.make(server.url, a_keyed_contract())
        job = d.ready()
        d.run(job, steps=40)
        outcomes = [s.outcome for s in d.submissions(job)]
        assert (d.job_state(job), d.operation(job).state) == ("NEEDS_RECONCILIATION", "UNKNOWN")
        assert outcomes[0] == "unknown"
        assert set(outcomes[1:]) == {last}
        assert len(outcomes) == len(server.received) < 12
        assert len(set(server.received)) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("does", "state"),
    [
        (says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 22\r\n\r\n<title>Sign in</title>"), "UNKNOWN"),
        (answers(201, as_json({**RECEIPT, "fields": {"limit": "9900.00"}})), "CONFLICTED"),
        (answers(307, Location=METADATA), "UNKNOWN"),
        (answers(301, Location="http://127.0.0.1:1/"), "UNKNOWN"),
    ],
    ids=["200 with a page", "201 with another amount", "a redirect to the metadata", "a redirect elsewhere"],
)  # fmt: skip
def test_what_is_no_plain_yes_is_a_persons_and_sent_once_where_nothing_is_promised(
    does: Behaviour, state: str
) -> None:
    with FaultServer(does, does) as server:
        d = Dispatching.make(server.url, a_contract())
        job = d.ready()
        d.run(job)
        assert (d.job_state(job), d.operation(job).state) == ("NEEDS_RECONCILIATION", state)
        assert len(server.received) == 1


def test_a_look_up_follows_nobody_to_the_metadata_either() -> None:
    with FaultServer(answers(302, Location=METADATA)) as server:
        sight = look_through(HttpConnector(), a_sending(server.url, a_lookup_contract()))
    assert (sight.found, len(server.received)) == (Found.UNCLEAR, 1)


@pytest.mark.django_db(transaction=True)
def test_a_private_address_is_refused_to_one_receiver_and_sent_to_by_another_that_may(settings: Any) -> None:
    """The installation lets one organisation's receiver in. The same address under another organisation is not frozen."""
    with FaultServer(answers(200, as_json(RECEIPT))) as server:
        allowed = Dispatching.make(server.url, a_contract())
        other = Dispatching.make(server.url, a_contract())
        settings.COUNTERFOIL_INTERNAL_RECEIVERS = [f"{allowed.world.tenant.slug}/erp=127.0.0.1"]
        job = allowed.ready()
        allowed.run(job)
        assert allowed.job_state(job) == "CONFIRMED"
        refused = other.ready()
        assert (other.job_state(refused), other.operations(refused)) == ("VALIDATED", [])
        assert len(server.received) == 1


@pytest.mark.django_db(transaction=True)
def test_a_private_address_that_is_allowed_no_longer_is_not_sent_to_although_it_was_approved(
    settings: Any,
) -> None:
    with FaultServer(answers(200, as_json(RECEIPT))) as server:
        d = Dispatching.make(server.url, a_contract())
        job = d.ready()
        settings.COUNTERFOIL_INTERNAL_RECEIVERS = []
        d.step(d.operation(job))
        (sent,) = d.submissions(job)
        assert (sent.outcome, sent.may_have_been_sent_at, server.received) == ("our fault", None, [])
        assert d.operation(job).next_step == "blocked"


@pytest.mark.django_db(transaction=True)
def test_whoever_approves_a_mail_reads_the_very_message_and_who_gets_it() -> None:
    d = Dispatching.make("smtp://mail.example", a_mail_contract())
    d.world.policy(quorum=1)
    job = d.ready("V-1", action="mail", body=MAIL)
    with reading(d.tenant_id):
        proposal = Proposal.objects.get(job=job)
    page = text(as_person(d.world.manager).get(at(d.world, "approval", proposal)))
    for shown in (
        "smtp://mail.example/",
        "Rcpt-To",
        "soren@fennmark.example",
        "Subject: Your limit",
        "Dear Søren,",
    ):
        assert shown in page
    assert "cannot be seen" not in page, "nobody is warned of what is in every mail"
    assert d.job_state(job) == "AWAITING_APPROVAL"
