"""What broke elsewhere, tried here to the letter: the numbers of `tests/cases.md` stand at each."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connections
from django.test import Client
from django.utils import timezone

from access.roles import WORKER
from access.tenancy import acting, reading
from dispatch import lookups, sending, settling
from dispatch.actions.receivers import write_receiver
from dispatch.contracts import Action, Lookup, Signal, Timeouts
from dispatch.locks import lock_job_and_operation
from dispatch.looking import UNSEEN
from dispatch.marker import barrier
from dispatch.models import Operation, Receiver
from dispatch.opening import Opened, open_submission
from dispatch.wire import exchange
from reconciliation.models import Case
from tests.dispatch.faults import Behaviour, FaultServer, answers, fin, read_all, says, silence
from tests.dispatch.world import (
    RECEIPT,
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    as_json,
    as_owner,
    end_worker,
    make_worker,
    receipt,
)
from tests.reconciliation.pages import html_of
from tests.support import eventually
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, as_json(RECEIPT))
ABSENT = answers(404, as_json({}))
BUSY = answers(409, as_json({"code": "key_in_progress"}))
PATIENT = Timeouts(connect=5, read=20, write=5, send_window=60)


def methods(server: FaultServer) -> list[bytes]:
    return [request.split(b" ")[0] for request in server.received]


def outcome(d: Dispatching, job: Job) -> tuple[str, str, list[str]]:
    return d.job_state(job), d.operation(job).state, [s.outcome for s in d.submissions(job)]


def time_passes(interval: str) -> None:
    """All that was sent was sent that much earlier."""
    back = {
        "dispatch_submission": ("opened_at", "send_deadline_at", "may_have_been_sent_at", "closed_at"),
        "dispatch_operation": ("first_may_have_been_sent_at", "resubmit_safe_until"),
    }
    for table, columns in back.items():
        as_owner(table, ", ".join(f"{c} = {c} - interval '{interval}'" for c in columns), [])


# -- what an answer means --------------------------------------------------------------------------------------------
def test_ten_looks_without_a_clear_answer_end_and_neither_they_nor_time_make_it_failed() -> None:
    """G2. Nothing, nonsense and refusals ten times over; then three months. Only what is found at last settles it."""
    unclear = [
        ABSENT, answers(500), answers(200, b"<html>down"), says(b"garbage\r\n\r\n"), fin, answers(401), answers(503),
        answers(200, b'{"id": "R'), answers(302, Location="/elsewhere"), ABSENT,
    ]  # fmt: skip
    lookup = Lookup(path="/operations/{operation_key}", authoritative=True, schedule=(0,) * 10)
    with FaultServer(fin, *unclear, OK) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(proves_after=None, lookup=lookup))
        job = d.ready()
        d.run(job, steps=30)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"])
        assert methods(erp) == [b"PUT", *[b"GET"] * 10]
        assert [o.proves for o in d.observations(job)] == [False] * 10

        time_passes("90 days")
        for _ in range(3):
            d.step(d.operation(job))
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"])
        assert len(erp.received) == 11
        with reading(d.tenant_id):
            assert Case.objects.get(job=job).resolved_at is None

        lookups.look(
            tenant_id=d.tenant_id, operation_id=d.operation(job).pk, actor=WORKER, now=timezone.now()
        )
        assert d.job_state(job) == "CONFIRMED"


@pytest.mark.parametrize(
    "answer",
    [
        answers(502, b"<html><script>alert(1)</script></html>"),
        answers(500, as_json({"status": "ok"})),
        answers(503, b"no upstream"),
    ],
)
def test_the_api_says_that_an_error_leaves_it_unknown(client: Client, answer: Behaviour) -> None:
    """G3. Neither that it failed nor that all is well."""
    with FaultServer(answer) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.run(job)
    client.force_login(d.world.submitter)
    told = client.get(f"/api/v1/t/{d.world.tenant.slug}/jobs/{job.pk}").json()
    assert (told["state"], told["ended_at"]) == ("NEEDS_RECONCILIATION", None)
    assert told["waiting"].startswith("waits for an operator: RC-")
    assert [(one["record"], one["state"], one["receipt"]) for one in told["operations"]] == [
        ("V-1", "UNKNOWN", "")
    ]
    assert "alert" not in json.dumps(told)


@pytest.mark.parametrize(
    ("answer", "success", "state"),
    [
        (answers(202, Location="/queue/7"), {"200": "applied"}, "SUBMITTED"),
        (answers(201), {"201": "pending"}, "SUBMITTED"),
        (answers(204), {"204": "pending"}, "SUBMITTED"),
        (OK, {"200": "pending"}, "SUBMITTED"),
        (answers(204), {"200": "applied"}, "UNKNOWN"),
        (answers(201, as_json(RECEIPT)), {"200": "applied"}, "UNKNOWN"),
    ],
    ids=["202", "201 as pending", "204 as pending", "200 as pending", "204 not named", "201 not named"],
)
def test_a_success_means_what_the_contract_says_and_is_looked_up_and_never_sent_again(
    answer: Behaviour, success: dict[str, Any], state: str
) -> None:
    """G4, G6. None of these confirms by itself, and no place that an answer names is asked: the look-up is the contract's."""
    action = Action.model_validate(
        {**a_contract().actions["update"].model_dump(mode="json"), "success": success}
    )
    with FaultServer(answer, OK) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(actions={"update": action}))
        job = d.ready()
        d.step(d.operation(job))
        assert (d.job_state(job), d.operation(job).state) == ("SUBMITTED", state)
        d.run(job)
        assert d.job_state(job) == "CONFIRMED"
        assert [r.split(b" ")[:2] for r in erp.received] == [
            [b"PUT", b"/vendors/V-1"],
            [b"GET", f"/operations/{d.operation(job).operation_key}".encode()],
        ]


def test_not_found_while_it_may_still_arrive_proves_nothing_and_what_is_found_later_confirms() -> None:
    """G7. Sent, no answer; looked for at once and after two seconds: not there. After eight seconds it is."""
    lookup = Lookup(
        path="/operations/{operation_key}", authoritative=True, schedule=(0, 2, 8), absence_is_proof_after=30
    )
    with FaultServer(silence, ABSENT, ABSENT, OK) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(lookup=lookup))
        job = d.ready()
        for found in ("UNKNOWN", "UNKNOWN", "UNKNOWN", "CONFIRMED"):
            d.step(d.operation(job))
            assert d.operation(job).state == found
        assert methods(erp) == [b"PUT", b"GET", b"GET", b"GET"]
    assert [(o.finding, o.proves) for o in d.observations(job)] == [
        ("absent", False), ("absent", False), ("applied", True),
    ]  # fmt: skip
    assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["unknown"])


PAYMENT = {"amount": "10.00", "currency": "EUR", "payee": "Fennmark Castings"}


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        ({}, "CONFIRMED"),
        ({"amount": "9.00"}, "NEEDS_RECONCILIATION"),
        ({"currency": "USD"}, "NEEDS_RECONCILIATION"),
        ({"payee": "Fennmark Casting"}, "NEEDS_RECONCILIATION"),
    ],
    ids=["identical", "another amount", "another currency", "another payee"],
)
def test_409_for_a_key_that_is_known_is_ours_only_if_amount_currency_and_payee_are(
    stored: dict[str, str], state: str
) -> None:
    """G8."""
    contract = a_keyed_contract(
        duplicate_signals=(Signal(status=409, path="code", equals="key_known"),),
        lookup=Lookup(path="/operations/{operation_key}", authoritative=True, schedule=(0, 0)),
    )
    there = {"id": "R-1", "record": "V-1", "fields": {**PAYMENT, **stored}}
    with FaultServer(answers(409, as_json({"code": "key_known"})), answers(200, as_json(there))) as erp:
        d = Dispatching.make(erp.url, contract)
        job = d.ready(body=PAYMENT)
        d.run(job)
        assert methods(erp) == [b"PUT", b"GET"]
    assert d.job_state(job) == state
    differs = [json.loads(o.detail) for o in d.observations(job) if o.finding == "differs"]
    assert [[one["field"] for one in found] for found in differs] == ([list(stored)] if stored else [])


def test_a_name_that_was_outside_when_it_was_saved_and_is_inside_when_it_is_sent_to_is_not_connected_to(
    settings: Any, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    """G10. Saved, approved, and then its name server says that it is this very machine, where something listens."""
    asked_of = socket.getaddrinfo
    points_at = ["93.184.216.34"]

    def asks(host: Any, *arguments: Any, **more: Any) -> Any:
        return asked_of(points_at[-1] if host == "erp.example" else host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", asks)
    with FaultServer(answers(200, b"the key of the cloud")) as inner:
        port = inner.url.rpartition(":")[2]
        d = Dispatching.make("http://127.0.0.1:9", a_contract())
        settings.COUNTERFOIL_INTERNAL_RECEIVERS = []
        with reading(d.tenant_id):
            receiver_id = Receiver.objects.get(name="erp").pk
        saved = write_receiver(
            tenant_id=d.tenant_id, name="erp", title="ERP", base_url=f"http://erp.example:{port}", person_id=d.admin.pk,
            now=timezone.now(),
        )  # fmt: skip
        assert saved.receiver_id == receiver_id
        job = d.ready()
        points_at.append("127.0.0.1")
        d.step(d.operation(job))
        assert inner.received == []
    (refused,) = d.submissions(job)
    assert (refused.outcome, refused.may_have_been_sent_at, refused.response_body) == ("our fault", None, "")
    assert (d.job_state(job), d.operation(job).next_step) == ("READY_TO_COMMIT", "blocked")
    client.force_login(d.world.operator)
    with reading(d.tenant_id):
        case = Case.objects.get(job=job)
    page = html_of(client.get(f"/t/{d.world.tenant.slug}/cases/{case.pk}/"))
    assert "points inside" in page
    assert "the key of the cloud" not in page


# -- the call and the transactions around it -------------------------------------------------------------------------
def test_twenty_sends_that_wait_for_their_receiver_hold_no_transaction() -> None:
    """G12. All twenty are on the wire, and the receiver takes its time."""
    arrived: list[tuple[socket.socket, str]] = []

    def takes_its_time(connection: socket.socket) -> bytes:
        request = read_all(connection)
        arrived.append((connection, request.split(b" ")[1].decode().rsplit("/", 1)[1]))
        return request

    with FaultServer(*[takes_its_time] * 20) as erp, ThreadPoolExecutor(20) as threads:
        d = Dispatching.make(erp.url, a_contract(timeouts=PATIENT))
        jobs = [d.ready(f"V-{n}") for n in range(20)]
        sends = [threads.submit(_run_and_leave, d, d.operation(job)) for job in jobs]
        eventually(lambda: len(arrived) == 20, what="twenty requests")
        with psycopg.connect(os.environ["DATABASE_URL"]) as looking:
            open_ones = looking.execute(
                "SELECT state, query FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
            ).fetchall()
        for connection, record in arrived:
            body = receipt(record)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        for send in sends:
            send.result(30)
    assert open_ones == []
    assert [d.job_state(job) for job in jobs] == ["CONFIRMED"] * 20


def _run_and_leave(d: Dispatching, operation: Operation) -> None:
    try:
        d.step(operation)
    finally:
        connections.close_all()


@contextmanager
def failing_to_serialise(times: int) -> Iterator[None]:
    """The database turns the saving of an outcome away so many times, as it does where two transactions are in each other's way."""
    made = """
        CREATE SEQUENCE saving_tried;
        GRANT USAGE ON SEQUENCE saving_tried TO PUBLIC;
        CREATE FUNCTION turn_away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('saving_tried') <= {times} THEN
                RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER turned_away BEFORE UPDATE OF outcome ON dispatch_submission
            FOR EACH ROW WHEN (NEW.outcome <> '') EXECUTE FUNCTION turn_away();
    """
    gone = (
        "DROP TRIGGER turned_away ON dispatch_submission; DROP FUNCTION turn_away; DROP SEQUENCE saving_tried"
    )
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        owner.execute(made.replace("{times}", str(times)))  # type: ignore[arg-type]
        try:
            yield
        finally:
            owner.execute(gone)


def test_an_outcome_that_is_turned_away_after_the_200_is_saved_again_and_nothing_is_sent_again() -> None:
    """G12."""
    with FaultServer(OK) as erp, failing_to_serialise(times=1):
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        d.step(d.operation(job))
        assert len(erp.received) == 1
    assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["applied"])
    assert d.events(job).count("submission.closed") == 1


def test_an_outcome_that_is_turned_away_for_good_leaves_the_mark_and_a_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G12. The rollback of the outcome cannot take the mark with it: nobody takes the operation for unsent."""
    monkeypatch.setattr(sending, "SAVE_AGAIN_FOR", 0.0)
    with FaultServer(OK, OK) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        with (
            failing_to_serialise(times=1_000_000),
            pytest.raises(OperationalError, match="could not serialize"),
        ):
            d.step(d.operation(job))
        (sent,) = d.submissions(job)
        assert (sent.may_have_been_sent_at is not None, sent.closed_at) == (True, None)
        assert d.job_state(job) == "SUBMITTED"
        end_worker(d.worker)
        d.step(d.operation(job), make_worker("worker-2"))
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown"])
        assert len(erp.received) == 1


# -- keys ------------------------------------------------------------------------------------------------------------
def test_whatever_sends_it_again_it_is_the_first_key_and_the_first_bytes() -> None:
    """H1. Backing off, a worker that died, the same task delivered twice, the machine by itself, an operator's button."""
    with FaultServer(answers(429), fin, fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract(automatic_resubmissions=1))
        job = d.ready()
        d.step(d.operation(job))
        assert outcome(d, job) == ("READY_TO_COMMIT", "PREPARED", ["not applied"])

        d.hurry(d.operation(job))
        dies = _opened(d, job)
        exchange(dies.request, dies.contract.timeouts, barrier=barrier(dies.sender))
        end_worker(d.worker)
        d.worker = make_worker("worker-2")
        d.step(d.operation(job))
        assert (d.operation(job).state, d.operation(job).next_step) == ("UNKNOWN", "resubmit")

        d.hurry(d.operation(job))
        delivered = d.claim(d.operation(job))
        sending.run(delivered)
        sending.run(delivered)
        assert (d.job_state(job), len(erp.received)) == ("NEEDS_RECONCILIATION", 3)

        with acting(d.tenant_id):
            locked, operation = lock_job_and_operation(d.operation(job).pk)
            settling.order_resubmission(job=locked, operation=operation, actor=d.operator, now=timezone.now())
        d.run(job)
        assert outcome(d, job) == (
            "CONFIRMED",
            "CONFIRMED",
            ["not applied", "unknown", "unknown", "applied"],
        )
        assert len(erp.received) == 4
        assert len(set(erp.received)) == 1
    assert d.operation(job).operation_key.encode() in erp.received[0]
    columns = ", ".join(
        f.column for f in Operation._meta.concrete_fields if f.name not in ("id", "operation_key")
    )
    another = f"INSERT INTO dispatch_operation (operation_key, {columns}) SELECT 'another', {columns} FROM dispatch_operation"
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        owner.execute("ALTER TABLE dispatch_operation DISABLE TRIGGER USER")
        with pytest.raises(psycopg.errors.UniqueViolation, match="one_operation_a_proposed"):
            owner.execute(another)  # type: ignore[arg-type]


def _opened(d: Dispatching, job: Job) -> Opened:
    operation = d.operation(job)
    found = open_submission(
        claim=d.claim(operation), operation_id=operation.pk, looked=UNSEEN, now=timezone.now()
    )
    assert isinstance(found, Opened)
    return found


@pytest.mark.parametrize("status", [409, 422])
def test_other_content_under_our_key_is_a_case_with_both_fingerprints(client: Client, status: int) -> None:
    """H4. Of what left each time and of what it was answered: whether we or they have changed it can be told from the case."""
    refusal = as_json({"code": "key_reused", "fingerprint": "5f1e"})
    signals = (Signal(status=status, path="code", equals="key_reused"),)
    with FaultServer(fin, answers(status, refusal), OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract(mismatch_signals=signals))
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("NEEDS_RECONCILIATION", "UNKNOWN", ["unknown", "key mismatch"])
        assert len(erp.received) == 2
    first, second = d.submissions(job)
    ours, theirs = first.sent_digest, second.response_digest
    assert (len(ours), len(theirs), ours) == (64, 64, second.sent_digest)
    told = d.world.evidence(job, "operation.key_mismatch")
    assert (told["sent"], told["answered"]) == ([ours, ours], theirs)
    with reading(d.tenant_id):
        case = Case.objects.get(job=job, kind="key mismatch")
    client.force_login(d.world.operator)
    page = html_of(client.get(f"/t/{d.world.tenant.slug}/cases/{case.pk}/"))
    assert ours in page
    assert theirs in page


@pytest.mark.parametrize(
    ("ago", "sent"), [("23 hours", 2), ("23 hours 55 minutes", 1), ("25 hours", 1)], ids=str
)
def test_a_key_of_a_day_is_not_sent_again_after_a_day_less_the_margin(ago: str, sent: int) -> None:
    """H5."""
    with FaultServer(fin, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract(retention=86_400, retention_margin=600))
        job = d.ready()
        d.step(d.operation(job))
        assert d.operation(job).next_step == "resubmit"
        time_passes(ago)
        d.run(job)
        assert len(erp.received) == sent
        assert d.job_state(job) == ("CONFIRMED" if sent == 2 else "NEEDS_RECONCILIATION")


def test_a_key_that_is_in_progress_twice_is_confirmed_by_the_third_answer() -> None:
    """H7."""
    with FaultServer(BUSY, BUSY, OK) as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready()
        d.run(job)
        assert outcome(d, job) == ("CONFIRMED", "CONFIRMED", ["in progress", "in progress", "applied"])
        assert len(set(erp.received)) == 1
    with reading(d.tenant_id):
        assert not Case.objects.filter(job=job).exists()


# -- amounts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("amount", "currency", "text", "minor"),
    [
        ("19.99", "EUR", "19.99", 1999),
        ("8.20", "EUR", "8.20", 820),
        ("4.56", "EUR", "4.56", 456),
        ("500", "JPY", "500", 500),
        ("705.00", "JPY", "705", 705),
        ("1.234", "KWD", "1.234", 1234),
    ],
)
def test_an_amount_leaves_as_it_was_approved_to_the_last_unit(
    amount: str, currency: str, text: str, minor: int
) -> None:
    """G15. What is sent as text and as whole units, by the currency's own decimals."""
    terms = a_contract().actions["update"].model_dump(mode="json")
    body = {"amount": "{amount}", "minor": "{amount_minor}", "currency": "{currency}"}
    action = Action.model_validate({**terms, "body": body, "record_path": "", "echo_path": ""})
    with FaultServer(OK) as erp:
        d = Dispatching.make(erp.url, a_contract(actions={"update": action}))
        job = d.ready(amount=amount, currency=currency)
        d.run(job)
        sent = json.loads(erp.received[0].partition(b"\r\n\r\n")[2])
    assert sent == {"amount": text, "minor": minor, "currency": currency}
    assert (d.operation(job).amount_minor, d.operation(job).currency) == (minor, currency)


@pytest.mark.parametrize(("amount", "currency"), [("10.005", "EUR"), ("500.5", "JPY"), ("1.2345", "KWD")])
def test_an_amount_of_more_decimals_than_its_currency_has_is_refused_and_not_rounded(
    amount: str, currency: str
) -> None:
    """G15."""
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready(amount=amount, currency=currency)
        assert (d.job_state(job), d.operations(job), erp.received) == ("VALIDATED", [], [])
    assert f"more decimals than {currency}" in d.world.evidence(job, "proposal.refused")["why"]


# -- what is never sent again by itself ------------------------------------------------------------------------------
MISMATCH = answers(422, as_json({"code": "key_reused"}))


@pytest.mark.parametrize(
    "answer",
    [answers(status, Location="/elsewhere") for status in (301, 302, 303, 307, 308)]
    + [answers(304), MISMATCH],
    ids=["301", "302", "303", "307", "308", "304", "other content under the key"],
)
def test_what_leads_elsewhere_or_met_other_content_is_not_sent_again_though_nothing_was_done(
    answer: Behaviour,
) -> None:
    """The look-up proves that nothing is there, and the contract would send again: to where nobody has approved, or in vain."""
    signals = a_keyed_contract().mismatch_signals
    with FaultServer(answer, ABSENT, OK) as erp:
        d = Dispatching.make(erp.url, a_lookup_contract(mismatch_signals=signals))
        job = d.ready()
        d.step(d.operation(job))
        assert d.operation(job).state == "UNKNOWN"
        time_passes("1 hour")
        d.run(job)
        assert methods(erp) == [b"PUT", b"GET"]
        assert (d.job_state(job), d.operation(job).state) == ("FAILED", "NOT_APPLIED")
        assert [o.proves for o in d.observations(job)] == [True]
