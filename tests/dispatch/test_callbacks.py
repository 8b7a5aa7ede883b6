"""What callbacks come to: confirmed later, twice, out of order, against what has ended, about nothing that is known."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from django.utils import timezone
from pydantic import ValidationError

from access.tenancy import acting, reading
from dispatch.actions.receivers import keep_contract
from dispatch.callback_terms import Callbacks
from dispatch.callbacks.receiving import NotTheirs, receive_callback
from dispatch.callbacks.taking import MOST_A_MINUTE, MOST_OF_NOTHING, MessageIdReused
from dispatch.contracts import Contract, Timeouts
from dispatch.locks import lock_job_and_operation
from dispatch.models import Callback, Receiver
from dispatch.settling import order_resubmission
from reconciliation.models import Case
from tests.dispatch.calling import OTHER, SECRET, by_key, call, kept, public_id, secret, signed, stand, told
from tests.dispatch.faults import FaultServer, answers, silence
from tests.dispatch.world import Dispatching, a_contract, a_keyed_contract, as_json, receipt
from tests.support import at_once
from workflows.actions.cancel import cancel_job
from workflows.models import Job, JournalEntry

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["secret"]
ACCEPTED = as_json({"id": "A-1", "status": "accepted"})


def later(**changes: Any) -> Contract:
    return a_keyed_contract(confirmation="later", callbacks=by_key(), **changes)


@pytest.fixture
def accepting() -> Iterator[Callable[..., tuple[Dispatching, Job]]]:
    """Makes a job whose operations go to a receiver that answers 202; sends the first."""
    with ExitStack() as stack:

        def make(*records: str, contract: Contract | None = None) -> tuple[Dispatching, Job]:
            server = stack.enter_context(FaultServer(*[answers(202, ACCEPTED)] * 4))
            d = Dispatching.make(server.url, contract or later())
            job = d.ready(*(records or ("V-1",)))
            d.step(d.operations(job)[0])
            return d, job

        yield make


def cases(d: Dispatching) -> list[tuple[str, str]]:
    with reading(d.tenant_id):
        return list(Case.objects.order_by("pk").values_list("kind", "resolution"))


def movers(d: Dispatching, job: Job) -> list[tuple[str, str, str]]:
    """Who moved the job from SUBMITTED on."""
    with reading(d.tenant_id):
        rows = JournalEntry.objects.filter(
            job_id=job.pk, from_state__in=("SUBMITTED", "NEEDS_RECONCILIATION")
        )
        return list(rows.order_by("sequence").values_list("to_state", "actor_kind", "actor_name"))


# --- what settles -----------------------------------------------------------------------------------------------


def test_a_signed_confirmation_confirms_and_a_repeat_is_nothing_more(accepting: Any) -> None:
    d, job = accepting()
    body = told(d.operation(job))
    assert stand(d, job) == ("SUBMITTED", ["SUBMITTED"], [])
    first, again = call(d, body), call(d, body)
    assert (first.matched, first.repeated, again.matched, again.repeated) == (True, False, True, True)
    assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["applied"])
    assert movers(d, job) == [("CONFIRMED", "receiver", "ERP")]
    assert d.operation(job).receipt_id == "A-1"
    events = len(d.events(job))
    call(d, body, "m-2")  # the same said anew: kept, and settles nothing a second time
    assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["applied", "applied"])
    assert len(d.events(job)) == events + 1


@pytest.mark.parametrize(
    ("said", "state", "found"),
    [
        (("processing", "done"), "CONFIRMED", ["pending", "applied"]),
        (("done", "processing"), "CONFIRMED", ["applied", "pending"]),
        (("rejected",), "FAILED", ["failed"]),
        pytest.param(("rejected", "rejected"), "FAILED", ["failed", "failed"], marks=pytest.mark.long),
        pytest.param(("in the clouds", "done"), "CONFIRMED", ["unclear", "applied"], marks=pytest.mark.long),
    ],
)
def test_callbacks_come_in_any_order(
    accepting: Any, said: tuple[str, ...], state: str, found: list[str]
) -> None:
    d, job = accepting()
    for number, status in enumerate(said):
        call(d, told(d.operation(job), status), f"m-{number}")
    assert (d.job_state(job), stand(d, job)[2]) == (state, found)
    assert cases(d) == []


@pytest.mark.parametrize(("first", "second"), [("done", "rejected"), ("rejected", "done")])
def test_what_speaks_against_an_ended_job_is_a_contradicted_case(
    accepting: Any, first: str, second: str
) -> None:
    d, job = accepting()
    call(d, told(d.operation(job), first), "m-1")
    before = d.job_state(job)
    call(d, told(d.operation(job), second), "m-2")
    assert d.job_state(job) == before
    assert cases(d) == [("contradicted", "")]


@pytest.mark.parametrize(
    ("changes", "differs"),
    [({"fields": {"limit": "8400.00"}}, "limit"), ({"fields": {}}, "limit"), ({"record": "V-2"}, "record")],
)
def test_a_callback_that_says_another_amount_is_conflicted(
    accepting: Any, changes: Any, differs: str
) -> None:
    d, job = accepting()
    call(d, told(d.operation(job), **changes))
    assert stand(d, job) == ("NEEDS_RECONCILIATION", ["CONFLICTED"], ["differs"])
    assert differs in d.observations(job)[-1].summary
    call(d, told(d.operation(job)), "m-2")  # two answers that differ are a person's to weigh
    assert stand(d, job)[0] == "NEEDS_RECONCILIATION"
    assert cases(d) == [("conflicted", "")]


@pytest.mark.parametrize(("total", "state"), [("4800.00", "CONFIRMED"), (4800, "NEEDS_RECONCILIATION")])
def test_single_values_are_compared_where_the_callback_repeats_only_those(
    accepting: Any, total: object, state: str
) -> None:
    callbacks = by_key(record_path="", echo_path="", compared={"data.total": "limit"})
    d, job = accepting(contract=a_keyed_contract(confirmation="later", callbacks=callbacks))
    call(d, told(d.operation(job), data={"total": total}))
    assert d.job_state(job) == state


def test_the_next_operation_is_sent_when_the_one_before_is_confirmed_and_not_before(accepting: Any) -> None:
    d, job = accepting("V-1", "V-2", "V-3")
    first, second, third = d.operations(job)
    d.step(second)
    assert stand(d, job) == ("SUBMITTED", ["SUBMITTED", "PREPARED", "PREPARED"], [])
    call(d, told(first), "m-1")
    assert stand(d, job) == ("SUBMITTED", ["CONFIRMED", "PREPARED", "PREPARED"], ["applied"])
    d.step(second)
    call(d, told(second, "rejected"), "m-2")
    assert stand(d, job)[:2] == ("NEEDS_RECONCILIATION", ["CONFIRMED", "REFUSED", "PREPARED"])
    assert cases(d) == [("partial", "")]
    d.step(third)
    assert d.operations(job)[2].state == "PREPARED"


def test_a_failure_after_the_confirmation_stops_what_would_have_followed(accepting: Any) -> None:
    d, job = accepting("V-1", "V-2")
    first, second = d.operations(job)
    call(d, told(first), "m-1")
    call(d, told(first, "rejected"), "m-2")
    assert stand(d, job)[:2] == ("NEEDS_RECONCILIATION", ["CONFLICTED", "PREPARED"])
    d.step(second)
    assert d.operations(job)[1].state == "PREPARED"
    assert {kind for kind, _ in cases(d)} == {"contradicted", "conflicted"}


def test_a_refusal_ends_what_somebody_asked_to_cancel(accepting: Any) -> None:
    d, job = accepting()
    cancel_job(tenant_id=d.tenant_id, job_id=job.pk, person_id=d.admin.pk, reason="no", now=timezone.now())
    assert d.job_state(job) == "SUBMITTED"
    call(d, told(d.operation(job), "rejected"))
    assert stand(d, job) == ("CANCELLED", ["REFUSED"], ["failed"])


# --- doubt, and our own answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "answer", "state"),
    [
        ("done", answers(202, ACCEPTED), "CONFIRMED"),
        pytest.param("done", answers(200, receipt("V-1")), "CONFIRMED", marks=pytest.mark.long),
        pytest.param("done", answers(500), "CONFIRMED", marks=pytest.mark.long),
        ("done", silence, "CONFIRMED"),
        ("done", answers(200, as_json({"id": "R-1", "record": "V-2"})), "NEEDS_RECONCILIATION"),
        ("rejected", answers(202, ACCEPTED), "FAILED"),
        pytest.param("rejected", silence, "FAILED", marks=pytest.mark.long),
        ("rejected", answers(200, receipt("V-1")), "NEEDS_RECONCILIATION"),
        pytest.param("processing", answers(202, ACCEPTED), "SUBMITTED", marks=pytest.mark.long),
    ],
)
def test_a_callback_before_our_own_answer_is_kept_and_joined_with_it(
    status: str, answer: Any, state: str
) -> None:
    """The receiver calls back, and only then answers the request that is still open."""

    def calls_back_first(connection: Any) -> None:
        call(d, told(d.operation(job), status))
        seen.append((d.job_state(job), d.operation(job).state))
        answer(connection)

    seen: list[tuple[str, str]] = []
    with FaultServer(calls_back_first) as server:
        # The callback is taken while we wait. On a busy machine that may be long, and only silence is to run out.
        d = Dispatching.make(server.url, later(timeouts=Timeouts(read=2 if answer is silence else 30)))
        job = d.ready()
        d.step(d.operation(job))
        assert seen == [("SUBMITTED", "SUBMITTED")]
        assert d.job_state(job) == state
        settled = [e for e in d.events(job) if e.startswith("outcome.")]
        assert len(settled) == (0 if state == "SUBMITTED" else 1)


def test_what_is_unknown_is_settled_by_a_callback_and_its_case_closed() -> None:
    with FaultServer(silence) as server:
        d = Dispatching.make(
            server.url, a_contract(callbacks=by_key(), key_location="header", key_name="X-Key")
        )
        job = d.ready()
        d.run(job)
        assert stand(d, job)[:2] == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
        call(d, told(d.operation(job)))
        assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["applied"])
        assert movers(d, job)[-1] == ("CONFIRMED", "receiver", "ERP")
        assert cases(d) == [("unknown outcome", "settled by evidence")]


def test_a_no_to_one_of_two_sends_settles_nothing_where_each_is_a_request_of_its_own() -> None:
    """It stores our key and does not deduplicate: which of the two it speaks of, nobody can say."""
    contract = a_contract(callbacks=by_key(), key_location="header", key_name="X-Key")
    with FaultServer(silence, silence) as server:
        d = Dispatching.make(server.url, contract)
        job = d.ready()
        d.run(job)
        with acting(d.tenant_id):
            locked, operation = lock_job_and_operation(d.operation(job).pk)
            order_resubmission(
                job=locked, operation=operation, actor=d.operator, now=timezone.now(), beyond_window=True
            )
        d.run(job)
        assert len(d.submissions(job)) == 2
        call(d, told(d.operation(job), "rejected"))
        assert stand(d, job) == ("NEEDS_RECONCILIATION", ["UNKNOWN"], ["failed"])


def test_what_counts_as_never_sent_is_not_sent_after_the_receiver_says_that_it_did_it() -> None:
    with FaultServer() as server:
        d = Dispatching.make(server.url, later())
        job = d.ready()
        call(d, told(d.operation(job)))
        assert (d.operation(job).state, d.operation(job).next_step) == ("PREPARED", "blocked")
        d.step(d.operation(job))
        assert d.submissions(job) == []
        assert {kind for kind, _ in cases(d)} == {"contradicted", "send blocked"}


# --- by the receiver's own id -----------------------------------------------------------------------------------


def test_an_operation_is_found_by_the_id_that_the_receiver_gave_it(accepting: Any) -> None:
    contract = a_keyed_contract(confirmation="later", callbacks=by_key(key_path=""))
    d, job = accepting(contract=contract)
    assert call(d, told(d.operation(job), id="A-2"), "m-1").matched is False
    assert call(d, told(d.operation(job)), "m-2").matched is True
    assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["applied"])


def test_a_callback_that_names_an_id_before_we_know_it_is_taken_when_we_do() -> None:
    def calls_back_first(connection: Any) -> None:
        seen.append(call(d, told(d.operation(job))).matched)
        answers(202, ACCEPTED)(connection)

    seen: list[bool] = []
    with FaultServer(calls_back_first) as server:
        d = Dispatching.make(
            server.url, a_keyed_contract(confirmation="later", callbacks=by_key(key_path=""))
        )
        job = d.ready()
        d.step(d.operation(job))
        assert seen == [False]
        assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["applied"])
        assert call(d, told(d.operation(job))).repeated  # its next try finds the operation, and nothing to do
        assert stand(d, job)[2] == ["applied"]


def test_a_no_that_came_before_the_yes_it_speaks_against_is_not_lost() -> None:
    """It named the receiver's own id, which our answer only brought: "applied" as that very id."""

    def calls_back_first(connection: Any) -> None:
        call(d, told(d.operation(job), "rejected"))
        answers(200, as_json({**json.loads(receipt("V-1")), "id": "A-1"}))(connection)

    with FaultServer(calls_back_first) as server:
        d = Dispatching.make(server.url, a_keyed_contract(callbacks=by_key(key_path="")))
        job = d.ready()
        d.step(d.operation(job))
        assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["failed"])
        assert "outcome.contradicted" in d.events(job)


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.fixture
def post(live_server: Any) -> Callable[..., httpx.Response]:
    def send(to: object, body: bytes, headers: dict[str, str]) -> httpx.Response:
        with httpx.Client(trust_env=False) as client:
            address = f"{live_server.url}/api/v1/callbacks/{to}"
            return client.post(address, content=body, headers={**headers, "host": "localhost"})

    return send


def test_over_http_a_stranger_learns_nothing_and_a_repeat_is_a_repeat(accepting: Any, post: Any) -> None:
    d, job = accepting()
    address, body = public_id(d), told(d.operation(job))
    bad = {
        "another secret": post(address, body, signed(body, secret=OTHER)),
        "an hour old": post(address, body, signed(body, age=3600)),
        "an hour ahead": post(address, body, signed(body, age=-3600)),
        "another body": post(address, told(d.operation(job), "rejected"), signed(body)),
        "another id": post(address, body, {**signed(body), "webhook-id": "m-2"}),
        "no signature": post(address, body, {}),
        "no receiver": post("0b7e0d52-3a3c-4f0f-8df1-1f2f3d4c5b6a", body, signed(body)),
    }
    assert {name: r.status_code for name, r in bad.items()} == dict.fromkeys(bad, 401)
    assert len({r.content for r in bad.values()}) == 1
    unknown = post(address, told(d.operation(job), operation_key="nobody-sent-this"), {})
    assert unknown.status_code == 401
    assert kept(d) == []
    assert stand(d, job) == ("SUBMITTED", ["SUBMITTED"], [])

    strange = told(d.operation(job), operation_key="nobody-sent-this")
    answered = [post(address, strange, signed(strange, "m-9")) for _ in range(2)]
    assert [(r.status_code, r.json()["detail"]) for r in answered] == [
        (404, "There is nothing at this address.")
    ] * 2
    assert kept(d) == [("m-9", "unclear", "nobody-sent-this")]
    first, again = (post(address, body, signed(body)) for _ in range(2))
    assert (first.status_code, first.json(), again.status_code) == (200, {"status": "taken"}, 200)
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (
        None,
        "true",
    )
    other = told(d.operation(job), "rejected")
    assert post(address, other, signed(other)).status_code == 409
    assert post(address, b"x" * 100_001, signed(b"x")).status_code == 413
    assert post("not-an-id", body, signed(body)).status_code == 404
    assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["applied"])


NONSENSE = (
    b"",
    b"{",
    b"[]",
    b'{"status": "done"}',
    b'{"operation_key": "a\\u0000b\\ud800", "status": {}}',
    b'{"operation_key": ["x"], "id": true}',
    b"[" * 5000,
)


def test_signed_nonsense_is_kept_and_means_nothing(accepting: Any) -> None:
    d, job = accepting()
    for number, body in enumerate(NONSENSE):
        assert call(d, body, f"m-{number}").matched is False
    assert [finding for _, finding, _ in kept(d)] == ["unclear"] * len(NONSENSE)
    assert stand(d, job) == ("SUBMITTED", ["SUBMITTED"], [])


def test_the_secret_of_another_organisations_receiver_signs_nothing_here(
    accepting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_THEIRS", OTHER)
    ours, job = accepting()
    theirs, _ = accepting(
        contract=a_keyed_contract(callbacks=by_key(secrets=("env:COUNTERFOIL_RECEIVER_THEIRS",)))
    )
    body = told(ours.operation(job))
    with pytest.raises(NotTheirs):
        receive_callback(
            public_id=public_id(ours), body=body, headers=signed(body, secret=OTHER), now=timezone.now()
        )
    # Their own receiver may say it, and finds nothing: the key is another organisation's.
    taken = receive_callback(
        public_id=public_id(theirs), body=body, headers=signed(body, secret=OTHER), now=timezone.now()
    )
    assert (taken.matched, stand(ours, job)) == (False, ("SUBMITTED", ["SUBMITTED"], []))
    assert (kept(ours), len(kept(theirs))) == ([], 1)


def test_both_secrets_count_while_one_is_changed_and_none_where_none_can_be_read(
    accepting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_NEXT", OTHER)
    d, job = accepting()
    both = by_key(secrets=("env:COUNTERFOIL_RECEIVER_NEXT", "env:COUNTERFOIL_RECEIVER_CALLS"))
    _write(d, both)
    body = told(d.operation(job), "processing")
    for number, one in enumerate((SECRET, OTHER)):
        headers = signed(body, f"m-{number}", secret=one)
        assert receive_callback(
            public_id=public_id(d), body=body, headers=headers, now=timezone.now()
        ).matched
    _write(d, by_key(secrets=("env:COUNTERFOIL_RECEIVER_GONE",)))
    with pytest.raises(NotTheirs):
        call(d, body, "m-3")
    _write(d, None)
    with pytest.raises(NotTheirs):
        call(d, body, "m-4")


def test_the_same_message_twice_at_once_is_one(accepting: Any) -> None:
    d, job = accepting()
    body = told(d.operation(job))
    taken = at_once(lambda: call(d, body), lambda: call(d, body))
    assert sorted(t.repeated for t in taken) == [False, True]
    assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["applied"])
    with pytest.raises(MessageIdReused):
        call(d, told(d.operation(job), "rejected"))


def test_a_receiver_that_sends_too_much_is_told_to_wait(accepting: Any, post: Any) -> None:
    d, job = accepting()
    with acting(d.tenant_id):
        receiver = Receiver.objects.get(name="erp")
        Callback.objects.bulk_create(
            Callback(
                tenant_id=d.tenant_id, receiver=receiver, message_id=f"x-{n}", finding="unclear", summary="x",
                digest="x" * 64, received_at=timezone.now(),
            )
            for n in range(MOST_A_MINUTE)
        )  # fmt: skip
    body = told(d.operation(job))
    answer = post(public_id(d), body, signed(body))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert d.job_state(job) == "SUBMITTED"
    assert MOST_OF_NOTHING > MOST_A_MINUTE


def _write(d: Dispatching, callbacks: Callbacks | None) -> None:
    with acting(d.tenant_id):
        keep_contract(
            receiver_id=Receiver.objects.get(name="erp").pk,
            terms=a_keyed_contract(confirmation="later", callbacks=callbacks).model_dump(mode="json"),
            source="test", actor=d.operator, now=timezone.now(),
        )  # fmt: skip


# --- a scheme of the receiver's own -----------------------------------------------------------------------------

OWN = "a secret of our own, not in base64"
HMAC = {
    "scheme": "hmac", "signature_header": "X-Erp-Signature", "signature_prefix": "sha512=", "algorithm": "sha512",
    "timestamp_header": "X-Erp-Time", "signed": "v0:{timestamp}:{body}", "tolerance": 60,
}  # fmt: skip


def in_their_way(
    body: bytes, *, age: float = 0, prefix: str = "sha512=", algorithm: str = "sha512"
) -> dict[str, str]:
    at = str(int(time.time() - age))
    digest = hmac.new(OWN.encode(), f"v0:{at}:".encode() + body, getattr(hashlib, algorithm)).hexdigest()
    return {"X-Erp-Signature": f"{prefix}{digest}", "X-Erp-Time": at}


def test_a_scheme_of_the_receivers_own_is_checked_as_the_contract_describes_it(
    accepting: Any, post: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_CALLS", OWN)
    d, job = accepting(contract=a_keyed_contract(confirmation="later", callbacks=by_key(**HMAC)))
    address, body = public_id(d), told(d.operation(job))
    wrong = [
        in_their_way(body, age=120), in_their_way(body, prefix=""), in_their_way(body, algorithm="sha256"),
        {**in_their_way(body), "X-Erp-Time": str(int(time.time()) - 1)}, {**in_their_way(body), "X-Erp-Time": "now"},
        in_their_way(body + b" "), {},
    ]  # fmt: skip
    assert [post(address, body, headers).status_code for headers in wrong] == [401] * len(wrong)
    headers = in_their_way(body)
    assert [post(address, body, headers).status_code for _ in range(2)] == [200, 200]
    assert stand(d, job) == ("CONFIRMED", ["CONFIRMED"], ["applied"])


def test_the_messages_own_id_tells_repeats_apart_where_it_is_signed(
    accepting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_CALLS", OWN)
    terms = by_key(
        scheme="hmac", signature_header="X-Hub-Signature-256", signature_prefix="sha256=", id_path="event"
    )
    d, job = accepting(contract=a_keyed_contract(confirmation="later", callbacks=terms))
    for _ in range(2):
        body = told(d.operation(job), event=77)
        digest = hmac.new(OWN.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-Hub-Signature-256": f"sha256={digest}"}
        receive_callback(public_id=public_id(d), body=body, headers=headers, now=timezone.now())
    assert [message for message, _, _ in kept(d)] == ["77"]
    assert d.job_state(job) == "CONFIRMED"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"secrets": ("the secret itself",)}, "never written here"),
        ({"secrets": ("env:DATABASE_URL",)}, "never written here"),
        ({"key_path": "", "receipt_path": ""}, "by our key"),
        ({"tolerance": 900}, "says itself how it signs"),
        ({"scheme": "hmac"}, "no header"),
        (
            {"scheme": "hmac", "signature_header": "X-S", "timestamp_header": "X-T"},
            "a time that counts is signed",
        ),
        ({"scheme": "hmac", "signature_header": "X-S", "signed": "{id}.{body}"}, "ends in {body}"),
        ({"progress": {"path": "status", "applied": ["done"], "failed": ["done"]}}, "cannot mean two things"),
    ],
)
def test_terms_that_contradict_themselves_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        by_key(**changes)
