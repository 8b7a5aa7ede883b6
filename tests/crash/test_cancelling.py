"""A cancel that arrives while a real worker process is inside a handler, with ninety items still to come (L4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from access.roles import Role
from access.tenancy import reading
from approvals.models import Proposal
from console.links import link
from dispatch.models import Operation
from examples.demos.workers import Cluster
from tests.console.support import as_person
from tests.crash.conftest import PacedJob
from tests.support import eventually, make_person
from workflows.models import Job
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
ITEMS = 100
STOPPING = "1 item that had begun still runs. What it gives is not used, and nothing more is begun."


def test_a_job_cancelled_at_its_tenth_item_of_a_hundred_stops_after_it_and_says_so_until_then(
    cluster: Callable[..., Cluster], paced_job: Callable[..., PacedJob]
) -> None:
    """The tenth item is inside its handler when the cancel is posted, and returns only when the page has been read."""
    cluster(workers=1, slots=1)
    job = paced_job(items=ITEMS, gated=[10])
    eventually(lambda: job.starts(10), what="the tenth item")
    admin = as_person(make_person(job.tenant, Role.ADMIN))
    admin.post(link("job-cancel", job.tenant.slug, job.job_id), {"reason": "wrong list"})
    assert _page(admin, job) == (True, 200)

    job.go()
    eventually(lambda: job.outcomes()["stale"], what="the late result")
    assert _page(admin, job) == (False, 286)

    after = paced_job(name="after", items=1)
    after.wait_until_counted(1)
    assert [s.number for s in job.starts()] == list(range(1, 11))
    assert job.outcomes() == {"succeeded": 9, "stale": 1}
    assert (job.items_in(ItemState.SUCCEEDED), job.items_in(ItemState.CANCELLED)) == (9, ITEMS - 9)
    assert job.saved("count") == {}
    with reading(job.tenant.pk):
        assert Job.objects.get(pk=job.job_id).state == "CANCELLED"
        assert not Proposal.objects.filter(job=job.job_id).exists()
        assert not Operation.objects.filter(job=job.job_id).exists()


def _page(client: Client, job: PacedJob) -> tuple[bool, int]:
    """Whether the job's page says that it is stopping, and how its own looking again is answered: 286 ends it."""
    url = link("job", job.tenant.slug, job.job_id)
    polled = client.get(url, headers={"HX-Request": "true"})
    said = STOPPING in client.get(url).content.decode()
    assert said == (STOPPING in polled.content.decode())
    return said, polled.status_code
