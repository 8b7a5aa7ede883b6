"""Workers that have a revision beside workers that lack it: a job is left to those that have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.tenancy import acting, reading
from reconciliation.models import Case
from tests.revisions.conftest import BOTH, RELEASE_1, RELEASE_2, Deploy, LetterJob, StartCluster
from tests.support import eventually
from workflows import apart, known
from workflows.actions.hold import hold_job, release_job
from workflows.engine.engine import Engine
from workflows.locks import lock_job
from workflows.models import Attempt, Lane, Worker, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
Submit = Callable[..., LetterJob]
StartEngine = Callable[[], Engine]


def given_back(tenant: Tenant) -> int:
    with reading(tenant.pk):
        return Attempt.objects.filter(outcome="released").count()


def cases(job: LetterJob) -> list[tuple[str, str]]:
    with reading(job.tenant.pk):
        return list(Case.objects.filter(job_id=job.job_id).order_by("pk").values_list("kind", "resolution"))


def lanes_of(job: LetterJob) -> set[tuple[str, str | None, bool]]:
    """Name, revision and whether held, of the lanes that what is left of a job stands in."""
    with reading(job.tenant.pk):
        waiting = [ItemState.READY.number, ItemState.BACKING_OFF.number]
        items = WorkItem.objects.filter(job_id=job.job_id, state__in=waiting)
        numbers = set(items.values_list("lane_id", flat=True))
        lanes = {lane.pk: lane for lane in Lane.objects.select_related("revision")}
    return {(lanes[abs(n)].name, getattr(lanes[abs(n)].revision, "revision", None), n < 0) for n in numbers}


@pytest.mark.processes
def test_a_rolling_deploy_leaves_each_job_to_the_workers_that_have_its_revision(
    deploy: Deploy, letter_job: Submit, cluster: StartCluster, tenant: Tenant
) -> None:
    """Old workers know revision 1 only, new ones know both, and new jobs come while both are there."""
    cluster(RELEASE_1, slots=2)
    old_pids = {w.pid for w in Worker.objects.filter(ended_at__isnull=True)}
    cluster(BOTH, slots=2)
    deploy(BOTH)
    new = [letter_job("Ada", "Bob", "Cem", "Dan", language="en") for _ in range(4)]
    deploy(RELEASE_1)
    old = [letter_job("Eve", "Fay") for _ in range(4)]
    for job in (*new, *old):
        job.wait_until_drafted()

    assert not {n.pid for job in new for n in job.notes()} & old_pids
    assert [len(job.notes("compose")) for job in new] == [4] * 4
    assert [len(job.notes("write")) for job in old] == [2] * 4
    for job in (*new, *old):
        assert job.now.held_at is None
        assert "revision.missing" not in job.events()
        assert [kind for kind, _ in cases(job)] in ([], ["permanent error"])  # no policy lets it be proposed
    steps = 6  # validation included: so many times at most an old worker has met something of a new job
    assert given_back(tenant) <= len(new) * steps * 2


def test_what_a_worker_lacks_stops_neither_it_nor_those_that_have_it(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, tenant: Tenant
) -> None:
    """Thirty jobs of a revision that nobody has stand before one that can run; each is met, and left alone then."""
    deploy(RELEASE_2)
    lacking = [letter_job("Ada", language="en") for _ in range(30)]
    deploy(RELEASE_1)
    engine()
    possible = letter_job("Bob")
    possible.wait_until_drafted()
    eventually(lambda: all(lanes_of(job) == {("", "2", False)} for job in lacking), what="thirty jobs apart")

    assert all(job.now.held_at is None for job in lacking)
    assert 30 <= given_back(tenant) <= 60
    with reading(tenant.pk):
        attempts = set(
            WorkItem.objects.filter(job_id=lacking[0].job_id).values_list("attempts", "first_started_at")
        )
    assert attempts == {(0, None)}


def test_a_revision_that_nobody_has_for_a_while_holds_its_jobs_and_frees_them_when_it_comes_back(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, settings: Any
) -> None:
    deploy(RELEASE_1)
    job = letter_job("Ada", "Bob")
    deploy(RELEASE_2)
    settings.COUNTERFOIL_REVISION_GRACE_SECONDS = 0.0
    lacking = engine()
    held = eventually(lambda: job.now if job.now.held_at else None, what="the hold")
    assert (held.held_by, held.held_for) == ("worker", "revision")
    assert held.hold_reason in (
        "test-letters revision 1 is not deployed here.",
        "test-letters revision 1 is deployed on no worker.",
    )
    assert cases(job) == [("revision missing", "")]
    assert lanes_of(job) == {("", "1", True)}
    lacking.request_stop()
    lacking.join()

    deploy(BOTH)
    engine()
    job.wait_until_drafted()
    assert job.now.held_at is None
    assert job.events()[:5] == [
        "job.received",
        "revision.missing",
        "case.opened",
        "revision.returned",
        "case.closed",
    ]
    assert cases(job)[0] == ("revision missing", "the revision is deployed")
    assert {n.revision for n in job.notes()} == {"1"}


@pytest.mark.long
@pytest.mark.processes
def test_a_half_done_job_goes_on_where_it_was_when_its_revision_comes_back(
    deploy: Deploy, letter_job: Submit, cluster: StartCluster
) -> None:
    """Release 1 is killed in the middle, release 2 forgets revision 1, and then it is deployed beside revision 2."""
    deploy(RELEASE_1)
    job = letter_job("Ada", "Bob", "Cem?", "Dan?")
    first = cluster(RELEASE_1, slots=4)
    eventually(
        lambda: len(job.saved("write")) == 2 and len(job.notes("write")) == 4, what="two saved, two running"
    )
    before = job.saved("write")
    first.kill()
    forgetful = cluster(RELEASE_2, slots=4, grace=1)
    eventually(lambda: job.now.held_at, seconds=30, what="the hold")
    assert cases(job) == [("revision missing", "")]
    job.go()
    forgetful.stop()
    cluster(BOTH, slots=4)
    job.wait_until_drafted()

    after = job.saved("write")
    assert {key: after[key] for key in before} == before
    assert [len([n for n in job.notes("write") if n.key == str(key)]) for key in range(1, 5)] == [1, 1, 2, 2]
    assert cases(job)[0] == ("revision missing", "the revision is deployed")


@pytest.mark.long
def test_a_job_between_two_steps_is_held_too(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, settings: Any
) -> None:
    """The revision goes while the last item of a stage runs: its result is saved, and nobody can open what follows."""
    settings.COUNTERFOIL_REVISION_GRACE_SECONDS = 0.0
    deploy(BOTH)
    job = letter_job("Ada?", language="en")
    engine()
    eventually(lambda: job.notes("compose"), what="the running item")
    deploy(RELEASE_1)
    job.go()
    eventually(lambda: job.now.held_at, what="the hold")
    assert job.saved("compose") == {"1": '{"body":"Dear Ada?,","language":"en","name":"Ada?"}'}
    assert cases(job) == [("revision missing", "")]
    assert job.notes("proofread") == []
    deploy(BOTH)
    job.wait_until_drafted()
    assert len(job.notes("compose")) == 1


@pytest.mark.long
def test_a_hold_of_a_person_stays_when_the_revision_comes_back(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, settings: Any, operator: Person
) -> None:
    settings.COUNTERFOIL_REVISION_GRACE_SECONDS = 0.0
    deploy(RELEASE_1)
    by_person, by_machine = letter_job("Ada"), letter_job("Bob")
    hold_job(
        tenant_id=by_person.tenant.pk,
        job_id=by_person.job_id,
        person_id=operator.pk,
        reason="wait",
        now=timezone.now(),
    )
    deploy(RELEASE_2)
    engine()
    eventually(lambda: by_machine.now.held_at, what="the machine's hold")
    deploy(BOTH)
    by_machine.wait_until_drafted()
    assert by_person.now.held_by == "o.perator"
    assert by_person.notes() == []


def test_set_apart_and_put_together_keep_a_hold_and_the_name_of_a_limit(
    deploy: Deploy, letter_job: Submit, operator: Person, tenant: Tenant
) -> None:
    deploy(RELEASE_1)
    job = letter_job("Ada")
    with acting(tenant.pk):
        limited = Lane.objects.create(tenant=tenant, name="model-a")
        WorkItem.objects.filter(job_id=job.job_id).update(lane_id=limited.pk)
        locked = lock_job(job.job_id)
        assert apart.set_apart(job=locked, known=known.known_for(locked)) == 1
        assert apart.set_apart(job=locked, known=known.known_for(locked)) == 0
    assert lanes_of(job) == {("model-a", "1", False)}
    where = {"tenant_id": tenant.pk, "job_id": job.job_id, "person_id": operator.pk, "now": timezone.now()}
    hold_job(**where, reason="wait")
    assert lanes_of(job) == {("model-a", "1", True)}
    with acting(tenant.pk):
        assert apart.put_together(job=lock_job(job.job_id)) == 1
    assert lanes_of(job) == {("model-a", None, True)}
    release_job(**where)
    assert lanes_of(job) == {("model-a", None, False)}
