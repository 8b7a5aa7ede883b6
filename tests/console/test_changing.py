"""Holding, lifting a hold, cancelling: forms that work without a script, refusals as content."""

from __future__ import annotations

import pytest

from access.models import Tenant
from access.roles import Role
from access.tenancy import reading
from console.links import link
from tests.console.support import as_person, make_job, make_operation, make_proposal, make_receiver, move
from tests.support import make_person
from workflows.models import Job, JournalEntry

pytestmark = pytest.mark.django_db(transaction=True)

FATES = ("Future steps stopped", "Change reversed", "Change not reversed", "Outcome still being checked")


def state_of(tenant: Tenant, job_id: int) -> tuple[str, bool, int]:
    with reading(tenant.pk):
        job = Job.objects.get(pk=job_id)
        return job.state, job.held_at is not None, JournalEntry.objects.filter(job=job).count()


def test_the_cancel_page_names_the_four_fates_before_it_asks_why(tenant: Tenant) -> None:
    person = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, person)
    html = as_person(person).get(link("job-cancel", tenant.slug, job_id)).content.decode()
    places = [html.index(fate) for fate in FATES]
    assert places == sorted(places)
    assert places[-1] < html.index('<textarea id="reason"')


def test_htmx_gets_the_same_as_a_dialog(tenant: Tenant) -> None:
    person = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, person)
    response = as_person(person).get(link("job-cancel", tenant.slug, job_id), headers={"HX-Request": "true"})
    assert response.content.decode().strip().startswith('<dialog class="ask"')


def test_cancelling_ends_the_job_with_its_reason(tenant: Tenant) -> None:
    person = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, person)
    response = as_person(person).post(
        link("job-cancel", tenant.slug, job_id), {"reason": "wrong cost centre"}
    )
    assert (response.status_code, response.headers["Location"]) == (302, link("job", tenant.slug, job_id))
    assert state_of(tenant, job_id)[0] == "CANCELLED"


def test_cancelling_without_a_reason_asks_for_one_and_stops_nothing(tenant: Tenant) -> None:
    person = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, person)
    before = state_of(tenant, job_id)
    response = as_person(person).post(link("job-cancel", tenant.slug, job_id), {"reason": "  "})
    assert response.status_code == 422
    assert "Say why; the journal keeps it." in response.content.decode()
    assert state_of(tenant, job_id) == before


def test_a_job_that_has_ended_meanwhile_is_told_as_a_conflict(tenant: Tenant) -> None:
    person = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, person)
    move(tenant, job_id, "FAILED")
    before = state_of(tenant, job_id)
    url = link("job-cancel", tenant.slug, job_id)
    for response in (as_person(person).get(url), as_person(person).post(url, {"reason": "late"})):
        assert response.status_code == 409
        assert "has already ended; nothing was stopped." in response.content.decode()
    assert state_of(tenant, job_id) == before


def test_another_submitter_may_not_cancel_and_is_told_who_may(tenant: Tenant) -> None:
    job_id = make_job(tenant, make_person(tenant, Role.SUBMITTER))
    before = state_of(tenant, job_id)
    response = as_person(make_person(tenant, Role.SUBMITTER)).post(
        link("job-cancel", tenant.slug, job_id), {"reason": "mine"}
    )
    assert response.status_code == 403
    assert "Only an admin of this organisation may do this." in response.content.decode()
    assert state_of(tenant, job_id) == before


@pytest.mark.parametrize("role", [Role.ADMIN, Role.OPERATOR])
def test_a_hold_is_put_on_and_lifted(tenant: Tenant, role: Role) -> None:
    job_id = make_job(tenant, make_person(tenant, Role.SUBMITTER))
    client = as_person(make_person(tenant, role))
    assert client.post(link("job-hold", tenant.slug, job_id), {"reason": "month end"}).status_code == 302
    assert state_of(tenant, job_id)[1] is True
    assert "month end" in client.get(link("job", tenant.slug, job_id)).content.decode()
    assert client.post(link("job-hold", tenant.slug, job_id), {"reason": "again"}).status_code == 409
    assert client.post(link("job-release", tenant.slug, job_id)).status_code == 302
    assert state_of(tenant, job_id)[1] is False


@pytest.mark.parametrize("role", [Role.SUBMITTER, Role.MANAGER, Role.AUDITOR])
def test_who_may_not_hold_sees_no_button_and_is_refused(tenant: Tenant, role: Role) -> None:
    job_id = make_job(tenant, make_person(tenant, Role.SUBMITTER))
    client = as_person(make_person(tenant, role))
    html = client.get(link("job", tenant.slug, job_id)).content.decode()
    assert "Hold job" not in html
    assert "An operator or an admin" in html
    assert client.post(link("job-hold", tenant.slug, job_id), {"reason": "x"}).status_code == 403
    assert state_of(tenant, job_id)[1] is False


def test_a_live_part_stops_polling_when_the_job_has_ended(tenant: Tenant) -> None:
    person = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, person)
    client, url = as_person(person), link("job", tenant.slug, job_id)
    going = client.get(url, headers={"HX-Request": "true"})
    move(tenant, job_id, "FAILED")
    over = client.get(url, headers={"HX-Request": "true"})
    assert (going.status_code, b"data-poll" in going.content) == (200, True)
    assert (over.status_code, b"data-poll" in over.content) == (286, False)


def test_submitted_reads_sending_until_bytes_may_have_left(tenant: Tenant) -> None:
    person = make_person(tenant, Role.SUBMITTER)
    job_id = make_job(tenant, person)
    move(tenant, job_id, "VALIDATED")
    make_operation(tenant, make_proposal(tenant, job_id, person), make_receiver(tenant))
    move(tenant, job_id, "PROPOSED", "READY_TO_COMMIT", "SUBMITTED")
    html = as_person(person).get(link("jobs", tenant.slug)).content.decode()
    assert ">Sending</span>" in html


def test_a_receiver_is_paused_and_resumed_by_an_admin_alone(tenant: Tenant) -> None:
    receiver = make_receiver(tenant)
    admin, operator = (
        as_person(make_person(tenant, Role.ADMIN)),
        as_person(make_person(tenant, Role.OPERATOR)),
    )
    pause, resume = (link(f"receiver-{verb}", tenant.slug, receiver.pk) for verb in ("pause", "resume"))
    assert operator.post(pause, {"reason": "x"}).status_code == 403
    assert admin.post(pause, {"reason": "maintenance"}).status_code == 302
    assert "maintenance" in operator.get(link("receivers", tenant.slug)).content.decode()
    assert admin.post(pause, {"reason": "again"}).status_code == 409
    assert admin.post(resume).status_code == 302
    assert "maintenance" not in operator.get(link("receivers", tenant.slug)).content.decode()
