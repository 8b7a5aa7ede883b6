"""A stranger's own workflow, from `startworkflow` to a record at the receiver: their package lives outside this
repository, is installed into the environment, and runs in real web and worker processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.utils import timezone

from access.models import Person
from access.tenancy import reading
from approvals.actions.decide import record_decision
from approvals.models import Proposal
from config.var import PROJECT
from examples.demos.workers import Cluster
from examples.management import sample
from examples.simulators.client import ErpControl, start_erp, start_provider
from tests.browser.serving import web_server
from tests.journeys.environments import Environment
from tests.support import eventually
from workflows.models import Attempt, Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes, pytest.mark.long]
PASSWORD = "correct horse"


@dataclass
class Place:
    """A running Counterfoil with a stranger's package installed beside it."""

    environment: Environment
    address: str
    erp: ErpControl
    people: sample.Sample
    log: Path


@pytest.fixture
def place(tmp_path: Path, settings: Any) -> Iterator[Place]:
    environment = Environment.make(tmp_path / "env")
    environment.run("manage.py", "startworkflow", "invoices", "--into", str(tmp_path), cwd=PROJECT)
    environment.install(tmp_path / "invoices")
    with (
        start_erp(database=tmp_path / "erp.sqlite3") as erp,
        start_provider(database=tmp_path / "provider.sqlite3") as provider,
    ):
        settings.COUNTERFOIL_ERP_URL = erp.base_url
        people = sample.load(now=timezone.now(), sign_in=False)
        hashed = MD5PasswordHasher().encode(PASSWORD, "tests")
        Person.objects.filter(username__in=sample.PEOPLE).update(password=hashed)
        variables = {
            "DATABASE_URL": os.environ["DATABASE_URL"],
            "COUNTERFOIL_ERP_URL": erp.base_url,
            "COUNTERFOIL_PROVIDER_URL": provider.base_url,
            "COUNTERFOIL_WORKERS": "1",
        }
        environment.run(
            "manage.py", "write_terms", sample.SLUG, str(tmp_path / "invoices" / "counterfoil.toml"),
            "--as", sample.ADMIN, "--url", f"invoices={erp.base_url}", cwd=PROJECT, **variables,
        )  # fmt: skip
        log = tmp_path / "workers.log"
        cluster = Cluster(environment=variables, log=log, python=environment.python)
        cluster.start()
        try:
            with web_server(
                static=tmp_path, log=tmp_path / "web.log", python=environment.python,
                **variables, COUNTERFOIL_TESTING="1",
            ) as address:  # fmt: skip
                yield Place(environment, address, ErpControl(erp.base_url), people, log)
        finally:
            cluster.stop()


def test_a_strangers_workflow_is_listed_submitted_proposed_and_sent_by_real_processes(place: Place) -> None:
    with httpx.Client(base_url=place.address, follow_redirects=True, trust_env=False) as browser:
        _sign_in(browser)
        listed = browser.get(f"/t/{sample.SLUG}/submit/").text
        assert "Invoices" in listed
        assert "could not be loaded" not in listed
        form = browser.get(f"/t/{sample.SLUG}/submit/invoices/").text
        assert "What is to be sorted, one a line." in form
        made = _post(
            browser,
            f"/t/{sample.SLUG}/submit/invoices/",
            form,
            reference="INV-2026-7",
            lines="A travel pass\nPaper",
        )
    job_id = int(made.url.path.rstrip("/").rsplit("/", 1)[1])

    proposal = eventually(lambda: _proposal(place, job_id), seconds=60, what=place.log.read_text())
    assert proposal is not None
    record_decision(
        tenant_id=place.people.tenant_id,
        proposal_id=proposal.pk,
        person_id=place.people.people[sample.MANAGER],
        verdict="approve",
        digest=proposal.digest,
        now=timezone.now(),
    )
    eventually(lambda: _job(place, job_id).state == "CONFIRMED", seconds=60, what="CONFIRMED")

    (effect,) = place.erp.effects(record="INV-2026-7")
    assert effect["fields"]["line_1"] == "travel"
    with reading(place.people.tenant_id):
        asked = Attempt.objects.filter(item__job_id=job_id, item__stage__name="sort")
        assert [(a.route, a.tokens_in > 0) for a in asked] == [("atlas-small", True)] * 2


def _sign_in(browser: httpx.Client) -> None:
    _post(browser, "/sign-in/", browser.get("/sign-in/").text, username=sample.SUBMITTER, password=PASSWORD)


def _post(browser: httpx.Client, path: str, page: str, **values: str) -> httpx.Response:
    """Fill in a page's form: its hidden fields as they are, the others as given."""
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page))
    answer = browser.post(path, data={**hidden, **values}, headers={"Referer": place_of(browser)})
    assert answer.status_code == 200, answer.text[:3000]
    return answer


def place_of(browser: httpx.Client) -> str:
    return str(browser.base_url)


def _job(place: Place, job_id: int) -> Job:
    with reading(place.people.tenant_id):
        return Job.objects.get(pk=job_id)


def _proposal(place: Place, job_id: int) -> Proposal | None:
    if _job(place, job_id).state != "AWAITING_APPROVAL":
        return None
    with reading(place.people.tenant_id):
        return Proposal.objects.filter(job_id=job_id).last()
