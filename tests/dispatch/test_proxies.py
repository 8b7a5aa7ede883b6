"""A worker whose environment names proxies for everything asks none of them: they would answer in the receiver's name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from dispatch.contracts import Contract
from examples.demos.workers import Cluster
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.test_faults import served
from tests.dispatch.world import QUICK, Dispatching, a_contract, a_lookup_contract, as_json, as_owner, receipt
from tests.outbox.conftest import make_endpoint
from tests.outbox.receiving import SECRET, Listener
from tests.outbox.telling import tell, tries, until_settled
from tests.support import eventually
from workflows.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes, pytest.mark.long]
PATIENT = QUICK.model_copy(update={"read": 20.0})
TOKEN = answers(200, as_json({"access_token": "t-1", "token_type": "Bearer", "expires_in": 600}))
ASKS_ITS_PROXY = "import sys, httpx; httpx.get(sys.argv[1])"


def proxied(url: str) -> dict[str, str]:
    """What an environment says in which everything goes through this proxy."""
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    by_name = {case(name): url for name in names for case in (str.upper, str.lower)}
    return {**by_name, "NO_PROXY": "elsewhere.example", "no_proxy": "elsewhere.example"}


def test_a_worker_connects_to_no_proxy_that_its_environment_names(tmp_path: Path) -> None:
    """A token, a send, a look-up, a send under TLS and a webhook leave one worker; the proxy listens and hears nothing.

    That its environment does name the proxy is seen in the end: a client that believes it is at the proxy's at once.
    """
    authority, listener = trustme.CA(), Listener()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    found = answers(200, receipt("V-1"))
    with (
        FaultServer() as proxy,
        FaultServer(TOKEN, TOKEN) as issuer,
        FaultServer(fin, found) as plain,
        FaultServer(answers(200, receipt("V-2")), tls=served(authority)) as secure,
    ):
        environment = {
            **proxied(proxy.url),
            "DATABASE_URL": os.environ["DATABASE_URL"],
            "COUNTERFOIL_WORKFLOWS": "tests.workflows_for_tests",
            "COUNTERFOIL_WORKERS": "1",
            "COUNTERFOIL_SLOTS": "2",
            "COUNTERFOIL_RECEIVER_CLIENT": "the client's secret",
            "COUNTERFOIL_RECEIVER_AUTHORITY": str(tmp_path / "authority.pem"),
            "COUNTERFOIL_WEBHOOK_SAMPLE": SECRET,
        }
        oauth = {"token_url": f"{issuer.url}/token", "client_id": "counterfoil"}
        first, job = ready(
            plain.url, a_lookup_contract(proves_after=None, oauth=oauth, timeouts=PATIENT), "V-1"
        )
        tls = {"authorities": "env:COUNTERFOIL_RECEIVER_AUTHORITY"}
        second, under_tls = ready(secure.url, a_contract(tls=tls, timeouts=PATIENT), "V-2")
        make_endpoint(first.world.tenant, first.admin, listener.url())
        tell(first.world.tenant)
        cluster = Cluster(environment=environment, log=tmp_path / "workers.log")
        cluster.start()
        try:
            eventually(
                lambda: proxy.received or first.job_state(job) == "CONFIRMED",
                seconds=60,
                what="the first's outcome",
            )
            eventually(
                lambda: proxy.received or second.job_state(under_tls) == "CONFIRMED",
                seconds=60,
                what="the second's",
            )
            until_settled(first.world.tenant)
        finally:
            cluster.kill()
            listener.close()
        assert [r.split()[0] for r in (*issuer.received[:1], *plain.received, *secure.received)] == [
            b"POST", b"PUT", b"GET", b"PUT",
        ]  # fmt: skip
        assert tries(first.world.tenant) == [("delivered", "answered 204")]
        assert proxy.received == []

        ask = [sys.executable, "-c", ASKS_ITS_PROXY, plain.url]
        subprocess.run(ask, env=cluster.environment, capture_output=True, check=False, timeout=60)
        assert [r.split()[:2] for r in proxy.received] == [[b"GET", f"{plain.url}/".encode()]]


def ready(url: str, contract: Contract, record: str) -> tuple[Dispatching, Job]:
    """A job of an organisation of its own, whose receiver has a secret that the worker can read."""
    d = Dispatching.make(url, contract)
    as_owner(
        "dispatch_receiver",
        "secret_reference = %s WHERE tenant_id = %s",
        ["env:COUNTERFOIL_RECEIVER_CLIENT", d.tenant_id],
    )
    return d, d.ready(record)
