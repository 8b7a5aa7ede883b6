"""A job whose input its workflow refused says why, where whoever sent it looks."""

from __future__ import annotations

import json

import pytest

from access.roles import WORKER, Role
from access.tenancy import acting
from console.links import link
from tests.console.support import HOSTILE, as_person, make_job
from tests.support import make_person, make_tenant
from workflows import journal
from workflows.locks import lock_job
from workflows.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)


def test_page_and_api_say_what_was_wrong_with_the_input() -> None:
    tenant = make_tenant()
    submitter = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, submitter)
    problems = [{"field": "document", "message": "The PDF has no page."}, {"field": "", "message": HOSTILE}]
    with acting(tenant.pk):
        journal.transition(
            job=lock_job(job_id), to=JobState.FAILED, event="input.refused", actor=WORKER,
            evidence={"problems": problems},
        )  # fmt: skip
    client = as_person(submitter)

    html = client.get(link("job", tenant.slug, job_id)).content.decode()
    assert "<strong>The input was refused.</strong> document: The PDF has no page." in html
    assert HOSTILE not in html
    told = json.loads(client.get(f"/api/v1/t/{tenant.slug}/jobs/{job_id}").content)
    assert told["problems"] == [
        {"field": "document", "detail": "The PDF has no page."},
        {"field": "", "detail": HOSTILE},
    ]


def test_a_job_that_was_not_refused_says_nothing_of_it() -> None:
    tenant = make_tenant()
    submitter = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, submitter)
    client = as_person(submitter)
    assert "The input was refused" not in client.get(link("job", tenant.slug, job_id)).content.decode()
    assert client.get(f"/api/v1/t/{tenant.slug}/jobs/{job_id}").json()["problems"] == []
