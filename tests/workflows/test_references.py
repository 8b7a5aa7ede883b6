"""One job a business reference; the reference of one that ended without any effect may be used again."""

from __future__ import annotations

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from tests.support import eventually, make_person
from tests.workflows.test_engine import items, submit
from workflows.actions.cancel import cancel_job
from workflows.actions.redrive import NotRedrivable, redrive_job
from workflows.actions.retry import fail_job
from workflows.actions.submit import ReferenceTaken
from workflows.engine.engine import Engine
from workflows.models import Job
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator(tenant: Tenant) -> Person:
    return make_person(tenant, Role.OPERATOR, Role.ADMIN)


def test_a_reference_is_taken_while_its_job_may_have_an_effect(
    engine: Engine, tenant: Tenant, submitter: Person
) -> None:
    first = submit(tenant, submitter, "a", reference="R-1", acts=["permanent"])
    with pytest.raises(ReferenceTaken, match=f"JOB-{first}"):
        submit(tenant, submitter, "b", reference="R-1", acts=["ok"])
    assert submit(tenant, submitter, "a", reference="R-1", acts=["permanent"]) == first


def test_a_job_that_was_cancelled_or_given_up_without_effect_frees_its_reference(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    by = {"tenant_id": tenant.pk, "person_id": operator.pk, "now": timezone.now()}
    first = submit(tenant, submitter, "a", reference="R-1", acts=["permanent"])
    eventually(lambda: items(tenant, first)[0:1] == [("1", ItemState.REFUSED, 1)], what="it to stop")
    fail_job(job_id=first, reason="no", **by)
    second = submit(tenant, submitter, "b", reference="R-1", acts=["permanent"])
    cancel_job(job_id=second, reason="no", **by)
    third = submit(tenant, submitter, "c", reference="R-1", acts=["ok"])
    with reading(tenant.pk):
        held = list(Job.objects.filter(reference="R-1", reference_free=False).values_list("pk", flat=True))
    assert held == [third]


def test_a_job_whose_reference_went_to_another_is_not_redriven_and_else_takes_it_back(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    by = {"tenant_id": tenant.pk, "person_id": operator.pk, "now": timezone.now()}
    first = submit(tenant, submitter, "a", reference="R-1", acts=["permanent"])
    eventually(lambda: items(tenant, first)[0:1] == [("1", ItemState.REFUSED, 1)], what="it to stop")
    fail_job(job_id=first, reason="no", **by)
    second = submit(tenant, submitter, "b", reference="R-1", acts=["ok"])
    with pytest.raises(NotRedrivable, match=f"JOB-{second} has its reference, R-1, by now"):
        redrive_job(job_id=first, attempts=1, reason="again", **by)
    cancel_job(job_id=second, reason="no", **by)
    redrive_job(job_id=first, attempts=1, reason="again", **by)
    with pytest.raises(ReferenceTaken, match=f"JOB-{first}"):
        submit(tenant, submitter, "c", reference="R-1", acts=["ok"])


def test_a_refused_input_frees_its_reference(engine: Engine, tenant: Tenant, submitter: Person) -> None:
    first = submit(tenant, submitter, "a", reference="R-1", refuse=True)

    def failed() -> bool:
        with reading(tenant.pk):
            return Job.objects.filter(pk=first, state="FAILED").exists()

    eventually(failed, what="the refusal")
    assert submit(tenant, submitter, "b", reference="R-1", acts=["ok"]) > first
