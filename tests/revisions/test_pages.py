"""The page of a migration: a look first, then the deed with a reason; and the ways to it from the job and its case."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from access.models import Person
from access.roles import Role
from access.tenancy import reading
from reconciliation.models import Case
from tests.revisions.conftest import BOTH, RELEASE_1, RELEASE_2, RELEASE_3, Deploy, LetterJob
from tests.support import eventually, make_person
from workflows.engine.engine import Engine

pytestmark = pytest.mark.django_db(transaction=True)
Submit = Callable[..., LetterJob]


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def at(job: LetterJob, name: str, *more: Any) -> str:
    return reverse(name, args=[job.tenant.slug, job.job_id, *more])


def words(html: str) -> str:
    """What a page says, without its marks."""
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", html).split()))


def hidden(html: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(to|seen)" value="([^"]*)">', html))


def half_done(deploy: Deploy, letter_job: Submit, engine: Callable[[], Engine]) -> LetterJob:
    deploy(RELEASE_1)
    job = letter_job("Ada", "Bob", "Zoe?")
    engine()
    eventually(
        lambda: len(job.saved("write")) == 2 and len(job.notes("write")) == 3, what="two of three letters"
    )
    return job


@pytest.mark.long
def test_an_operator_looks_first_and_then_migrates_what_was_shown(
    deploy: Deploy, letter_job: Submit, engine: Callable[[], Engine], operator: Person
) -> None:
    job = half_done(deploy, letter_job, engine)
    deploy(BOTH)
    client = signed_in(operator)
    page = client.get(at(job, "job")).content.decode()
    assert f'href="{at(job, "job-migrate")}"' in page

    shown = client.get(at(job, "job-migrate")).content.decode()
    said = words(shown)
    assert f"Migrate JOB-{job.job_id} to revision 2?" in said
    assert "The input Converted Converted; what was submitted stays." in said
    assert (
        "Compose Converted 2 results of “write” converted. 1 that is not done runs under the new revision."
        in said
    )
    assert 'Each result 1 converted: {"name":"Ada","text":"Dear Ada"} →' in said
    assert job.now.revision == "1"

    missing = client.post(at(job, "job-migrate"), hidden(shown))
    assert missing.status_code == 422
    assert "Say why; the journal keeps it." in words(missing.content.decode())
    done = client.post(at(job, "job-migrate"), {**hidden(shown), "reason": "other languages"}, follow=True)
    said = words(done.content.decode())
    assert "Migrated from revision 1 to 2." in said
    assert "Set aside: Write of revision 1" in said
    assert "Migrated from revision 1 to 2: other languages" in said
    assert job.now.revision == "2"
    later = client.get(at(job, "job-input"), {"version": "2"})
    assert later.json()["language"] == "en"
    assert "language" not in client.get(at(job, "job-input")).json()
    aside = re.findall(rf'href="({at(job, "job")}steps/\d+/)">Write of revision 1', done.content.decode())
    assert "Cancelled" in words(client.get(aside[0]).content.decode())
    job.go()
    job.wait_until_drafted()


def test_what_has_changed_since_it_was_shown_is_not_done(
    deploy: Deploy, letter_job: Submit, engine: Callable[[], Engine], operator: Person
) -> None:
    job = half_done(deploy, letter_job, engine)
    deploy(BOTH)
    client = signed_in(operator)
    shown = client.get(at(job, "job-migrate")).content.decode()
    job.go()
    job.wait_for("bind")
    late = client.post(at(job, "job-migrate"), {**hidden(shown), "reason": "other languages"})
    assert late.status_code == 409
    said = words(late.content.decode())
    assert "Nothing was changed." in said
    assert "has gone on since this was shown" in said
    assert "other languages" in late.content.decode()
    assert job.now.revision == "1"


def test_what_is_in_the_way_is_said_and_nothing_can_be_pressed(
    deploy: Deploy, letter_job: Submit, engine: Callable[[], Engine], operator: Person
) -> None:
    deploy(RELEASE_1)
    job = letter_job("Nobody", "Zoe?")
    engine()
    eventually(lambda: len(job.saved("write")) == 1, what="a letter")
    deploy(BOTH)
    said = signed_in(operator).get(at(job, "job-migrate")).content.decode()
    assert "item 1: ValueError: there is no such person." in words(said)
    assert "Something is in the way." in words(said)
    assert "Migrate job</button>" not in said
    job.go()


def test_of_several_revisions_that_lead_on_one_is_chosen(
    deploy: Deploy, letter_job: Submit, operator: Person
) -> None:
    deploy(RELEASE_1)
    job = letter_job("Ada")
    deploy(RELEASE_1, RELEASE_2)
    client = signed_in(operator)
    assert "to revision 2?" in words(client.get(at(job, "job-migrate")).content.decode())
    deploy(RELEASE_2, RELEASE_3)
    first = words(client.get(at(job, "job-migrate"), {"to": "3"}).content.decode())
    assert "to revision 3?" in first
    assert "Other revisions lead on too: revision 2" in first
    assert "Nothing leads from revision 1" in words(
        client.get(at(job, "job-migrate"), {"to": "9"}).content.decode()
    )


def test_who_may_not_migrate_is_told_who_may(deploy: Deploy, letter_job: Submit, submitter: Person) -> None:
    deploy(RELEASE_1)
    job = letter_job("Ada")
    deploy(BOTH)
    client = signed_in(submitter)
    assert at(job, "job-migrate") not in client.get(at(job, "job")).content.decode()
    assert client.get(at(job, "job-migrate")).status_code == 403
    assert client.post(at(job, "job-migrate"), {"reason": "x", "to": "2"}).status_code == 403
    stranger = make_person(job.tenant, Role.ADMIN)
    assert signed_in(stranger).get(at(job, "job-migrate")).status_code == 403


def test_the_case_of_a_missing_revision_leads_to_each_way_on(
    deploy: Deploy, letter_job: Submit, engine: Callable[[], Engine], operator: Person, settings: Any
) -> None:
    settings.COUNTERFOIL_REVISION_GRACE_SECONDS = 0.0
    deploy(RELEASE_1)
    job = letter_job("Ada")
    deploy(RELEASE_2)
    engine()
    eventually(lambda: job.now.held_at, what="the hold")
    with reading(job.tenant.pk):
        case = Case.objects.get(job_id=job.job_id)
    client = signed_in(operator)
    page = client.get(reverse("case", args=[job.tenant.slug, case.pk])).content.decode()
    said = words(page)
    assert "Lift the hold" in said
    assert "No worker has revision 1 of test-letters. Deploy it: the job then goes on by itself." in said
    assert f'href="{at(job, "job-migrate")}"' in page
    assert "Give the job up" in said
    shown = client.get(at(job, "job-migrate")).content.decode()
    client.post(at(job, "job-migrate"), {**hidden(shown), "reason": "other languages"})
    job.wait_until_drafted()
    with reading(job.tenant.pk):
        assert Case.objects.get(pk=case.pk).resolution == "migrated"


def test_without_a_migration_the_page_says_what_can_be_done(
    deploy: Deploy, letter_job: Submit, operator: Person
) -> None:
    deploy(RELEASE_1)
    job = letter_job("Ada")
    client = signed_in(operator)
    assert at(job, "job-migrate") not in client.get(at(job, "job")).content.decode()
    said = words(client.get(at(job, "job-migrate")).content.decode())
    assert "No revision that is loaded here says how jobs of revision 1 go on under it." in said
