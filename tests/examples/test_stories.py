"""The example jobs of `make run`, driven by real workers against the real simulators."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from access.models import Membership, Person
from access.owner import as_owner
from access.tenancy import reading
from approvals.models import Decision, Policy
from dispatch.models import Receiver, ReceiverContract
from examples.demos.workers import Cluster
from examples.management import playing, sample, stories
from examples.simulators.client import start_bureau, start_erp, start_index, start_provider
from workflows import verification
from workflows.models import Job, Limit
from workflows.replaying import comparing, rows
from workflows.replaying.folding import fold

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture
def own_var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Path:
    monkeypatch.setenv("COUNTERFOIL_VAR", str(tmp_path))
    # The real hash takes most of a second for each person.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return tmp_path


@pytest.fixture
def simulated(own_var: Path, settings: Any) -> Iterator[dict[str, str]]:
    with (
        start_erp(database=own_var / "erp.sqlite3") as erp,
        start_provider(database=own_var / "provider.sqlite3") as provider,
        start_bureau(database=own_var / "bureau.sqlite3") as bureau,
        start_index(database=own_var / "index.sqlite3") as index,
    ):
        settings.COUNTERFOIL_ERP_URL = erp.base_url
        settings.COUNTERFOIL_PROVIDER_URL = provider.base_url
        settings.COUNTERFOIL_BUREAU_URL = bureau.base_url
        yield {
            "COUNTERFOIL_ERP_URL": erp.base_url,
            "COUNTERFOIL_PROVIDER_URL": provider.base_url,
            "COUNTERFOIL_BUREAU_URL": bureau.base_url,
            "COUNTERFOIL_INDEX_URL": index.base_url,
        }


def test_sample_is_loaded_once_and_its_people_can_sign_in(own_var: Path) -> None:
    loaded = sample.load(now=timezone.now())
    before = _rows(loaded.tenant_id)

    assert sample.load(now=timezone.now()) == loaded
    assert _rows(loaded.tenant_id) == before
    assert Person.objects.get(username="m.okafor").check_password(sample.password())
    assert before["receivers"] == [
        "astrel-erp-keyed",
        "astrel-erp-later",
        "astrel-erp-lookup",
        "astrel-erp-neither",
    ]
    assert before["limits"] == [("credit-ratings", 4)]
    assert before["policies"] == [
        "document-records",
        "policy-publishing",
        "vendor-enrichment",
        "vendor-records",
    ]


def test_sample_of_another_folder_gets_the_password_that_is_printed(
    own_var: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.load(now=timezone.now())
    sample.password_file().unlink()

    sample.load(now=timezone.now())

    assert all(p.check_password(sample.password()) for p in Person.objects.all())


def test_receivers_follow_the_erp_to_another_port(own_var: Path, settings: Any) -> None:
    loaded = sample.load(now=timezone.now(), sign_in=False)
    settings.COUNTERFOIL_ERP_URL = "http://127.0.0.1:9"

    sample.load(now=timezone.now(), sign_in=False)

    with reading(loaded.tenant_id):
        assert set(Receiver.objects.values_list("base_url", flat=True)) == {"http://127.0.0.1:9"}
        assert ReceiverContract.objects.count() == 4


def test_every_story_reaches_what_it_is_there_for(own_var: Path, simulated: dict[str, str]) -> None:
    loaded = sample.load(now=timezone.now(), sign_in=False)
    workers = Cluster(
        environment={**simulated, "DATABASE_URL": os.environ["DATABASE_URL"], "COUNTERFOIL_WORKERS": "1"},
        log=own_var / "workers.log",
    )
    workers.start()
    try:
        assert playing.play(loaded, stories.STORIES, now=timezone.now) == {}, workers.log_text[-3000:]
        reached = _standing(loaded.tenant_id)
        assert playing.play(loaded, stories.STORIES, now=timezone.now, seconds=5) == {}
        assert _standing(loaded.tenant_id) == reached
    finally:
        workers.stop()

    assert {key: state for key, (state, _, _) in reached.items()} == {
        "example-confirmed": "CONFIRMED",
        "example-awaiting": "AWAITING_APPROVAL",
        "example-over-limit": "AWAITING_APPROVAL",
        "example-unknown": "NEEDS_RECONCILIATION",
        "example-exhausted": "VALIDATED",
        "example-suspended": "VALIDATED",
        "example-invalid": "FAILED",
        "example-held": "AWAITING_APPROVAL",
        "example-cancelled": "CANCELLED",
        "example-policy": "AWAITING_APPROVAL",
        "example-enrichment": "AWAITING_APPROVAL",
        "example-document": "AWAITING_APPROVAL",
        "example-undone": "FAILED",
    }
    assert [key for key, (_, held, _) in reached.items() if held] == ["example-held"]
    assert {key for key, (_, _, decisions) in reached.items() if decisions} == {
        "example-confirmed",
        "example-unknown",
        "example-policy",
    }
    assert verification.verify_jobs().bad is None
    assert verification.verify_tenants().bad is None
    assert _differences(loaded.tenant_id) == []
    with as_owner(connection), connection.cursor() as cursor:
        for table, change in (
            ("dispatch_submission", "outcome = 'refused' WHERE outcome = 'unknown'"),
            ("approvals_proposal", "digest = 'x' WHERE closing = 'sent'"),
            ("reconciliation_case", "resolved_at = now(), resolution = 'x' WHERE resolved_at IS NULL"),
        ):
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER; UPDATE {table} SET {change}")
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    told = " ".join(_differences(loaded.tenant_id))
    assert "send 1: unknown by what was written down, refused as it is stored" in told
    assert "proposal 1, digest: " in told
    assert ": open by what was written down, closed as it is stored" in told


def test_simulators_that_are_away_are_said_to_be_so(own_var: Path, settings: Any) -> None:
    settings.COUNTERFOIL_ERP_URL = settings.COUNTERFOIL_PROVIDER_URL = "http://127.0.0.1:9"
    settings.COUNTERFOIL_BUREAU_URL = "http://127.0.0.1:9"
    loaded = sample.load(now=timezone.now(), sign_in=False)

    missed = playing.play(loaded, stories.STORIES, now=timezone.now, seconds=0)

    assert set(missed) == {s.key for s in stories.STORIES}
    assert "a simulator does not answer" in missed["example-exhausted"]
    assert "a simulator does not answer" in missed["example-enrichment"]


def test_sign_ins_are_printed(own_var: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample.load(now=timezone.now(), sign_in=False)

    call_command("load_sample", "--show")

    printed = capsys.readouterr().out
    assert sample.password() in printed
    assert [line.split()[0] for line in printed.splitlines()[1:]] == list(sample.PEOPLE)


def _rows(tenant_id: int) -> dict[str, Any]:
    with reading(tenant_id):
        return {
            "people": sorted(Membership.objects.values_list("person__username", "role")),
            "policies": sorted(Policy.objects.values_list("name", flat=True)),
            "receivers": sorted(Receiver.objects.values_list("name", flat=True)),
            "contracts": ReceiverContract.objects.count(),
            "limits": list(Limit.objects.values_list("name", "concurrency")),
        }


def _differences(tenant_id: int) -> list[str]:
    """Of every job, where its journal and attempts do not fold to what is stored."""
    with rows.snapshot(tenant_id):
        found = [rows.rows_of(pk) for pk in Job.objects.order_by("pk").values_list("pk", flat=True)]
        return [f"{f.job.label}: {d}" for f in found for d in comparing.compare(f, fold(f))]


def _standing(tenant_id: int) -> dict[str, tuple[str, bool, int]]:
    """By story: the job's state, whether it is held, and how many decisions it has."""
    with reading(tenant_id):
        return {
            job.submission_key: (
                job.state,
                job.held_at is not None,
                Decision.objects.filter(proposal__job=job).count(),
            )
            for job in Job.objects.order_by("pk")
        }
