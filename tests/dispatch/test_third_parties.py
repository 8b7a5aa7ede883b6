"""An answer that is lost on the way back from systems that others wrote: what each contract makes of it, to the end."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dispatch.terms import read_terms
from tests.dispatch.faults import Behaviour, FaultServer, read_all
from tests.dispatch.own_connectors import installed
from tests.dispatch.third_parties import localstripe, moto
from tests.dispatch.world import Dispatching, as_owner

ROOT = Path(__file__).parents[2]
TERMS = read_terms(ROOT / "examples" / "connectors" / "receivers.toml").receivers
OWN = {"dynamodb": "examples.connectors.amazon:DynamoDB", "sqs-fifo": "examples.connectors.amazon:Queue"}

SECRETS = {
    "env:COUNTERFOIL_RECEIVER_STRIPE": "sk_test_counterfoil",
    "env:COUNTERFOIL_RECEIVER_AMAZON": "AKIAEXAMPLE:a secret key of forty characters",
}


def handed_on(url: str, *, answered: bool) -> Behaviour:
    """Between us and them: they get the request and do it, and what they answer comes back or is lost."""

    def hand(connection: socket.socket) -> bytes:
        request = read_all(connection)
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port), 10) as there:
            there.sendall(request)
            answer = b"".join(iter(lambda: there.recv(65536), b""))
        if answered:
            connection.sendall(answer)
        connection.close()
        return request

    return hand


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_lost_answer_is_looked_up_or_asked_for_again_and_there_is_one_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the receiver can be asked, one look settles it; the queue is sent the same again, within its five minutes; a
    customer, for whose key localstripe has no use, is a person's question, and is never sent again."""
    with installed(tmp_path, monkeypatch, **OWN), localstripe() as stripe, moto() as amazon:
        queue = amazon.queue()
        trials: dict[str, tuple[str, str, Callable[[], int], tuple[str, list[str]]]] = {
            "dynamodb": (amazon.url, amazon.table, lambda: amazon.items("V-1"), ("CONFIRMED", ["unknown"])),
            "stripe-products": (stripe.url, "", lambda: stripe.products("V-1"), ("CONFIRMED", ["unknown"])),
            "sqs-fifo": (amazon.url, queue, lambda: amazon.messages(queue), ("CONFIRMED", ["unknown", "applied"])),
            "stripe-customers": (
                stripe.url, "", lambda: stripe.customers("V-1"), ("NEEDS_RECONCILIATION", ["unknown"])
            ),
        }  # fmt: skip
        for name, (url, account, effects, expected) in trials.items():
            through = handed_on(url, answered=True)
            with FaultServer(handed_on(url, answered=False), *[through] * 8) as between:
                terms = TERMS[name]
                d = Dispatching.make(between.url, terms.contract)
                secret = f"COUNTERFOIL_RECEIVER_{d.world.tenant.slug.upper().replace('-', '_')}"
                monkeypatch.setenv(secret, SECRETS[terms.secret_reference])
                named = "secret_reference = %s, account = %s WHERE tenant_id = %s"
                as_owner("dispatch_receiver", named, [f"env:{secret}", account, d.tenant_id])
                body = {"note": "as approved", "description": "as approved", "email": "a@b.example"}
                job = d.ready("V-1", action=next(iter(terms.contract.actions)), body=body)
                d.run(job)
                assert (d.job_state(job), [s.outcome for s in d.submissions(job)]) == expected, name
                assert effects() == 1, name
                assert all(s.sent_differs == "" for s in d.submissions(job)), name
                assert "a secret key" not in str([s.sent_head for s in d.submissions(job)])
