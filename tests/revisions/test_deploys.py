"""A release that moves and renames what an earlier one had queued: nothing is lost, nothing loops, and it is said why."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command
from django_q.models import Schedule

from access.models import Person
from access.tenancy import reading
from reconciliation.models import Case
from tests.revisions.conftest import RELEASE_1, RELEASE_2, Deploy, LetterJob, StartCluster
from tests.support import eventually
from workflows import tasks
from workflows.models import Attempt

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes, pytest.mark.long]


def test_work_of_an_earlier_release_waits_for_a_word_and_then_goes_on_from_what_was_saved(
    deploy: Deploy, letter_job: Callable[..., LetterJob], cluster: StartCluster, operator: Person
) -> None:
    """One job is half done and three are queued when release 2 comes: another module, a step renamed, one more step."""
    deploy(RELEASE_1)
    half = letter_job("Ada", "Zoe?")
    first = cluster(RELEASE_1, slots=1)
    eventually(
        lambda: len(half.saved("write")) == 1 and len(half.notes("write")) == 2, what="one of two letters"
    )
    queued = [letter_job("Bob") for _ in range(3)]
    first.kill()
    jobs = [half, *queued]

    cluster(RELEASE_2, slots=4, grace=1)
    for job in jobs:
        eventually(lambda j=job: j.now.held_at, seconds=40, what="the hold")
    assert {job.now.hold_reason.split(" is ")[0] for job in jobs} == {"test-letters revision 1"}
    with reading(half.tenant.pk):
        assert list(Case.objects.values_list("kind", flat=True)) == ["revision missing"] * 4
        met = Attempt.objects.filter(outcome="released").count()
    assert met <= 2 * len(jobs), "what a worker lacks is met once or twice, and then left alone"
    assert {n.revision for job in jobs for n in job.notes()} == {"1"}
    (schedule,) = Schedule.objects.filter(name=tasks.SCHEDULE)
    assert schedule.func == "workflows.tasks.check_engine"

    deploy(RELEASE_2)
    said = StringIO()
    call_command(
        "migrate_jobs", "test-letters", "--from", "1", "--to", "2", "--as", "o.perator", "--reason", "release 2",
        stdout=said,
    )  # fmt: skip
    assert said.getvalue().endswith("4 of 4 migrated.\n")
    for job in jobs:
        job.go()
        job.wait_until_drafted()
    assert [n.key for n in half.notes("compose")] == [unwritten(half)]
    with reading(half.tenant.pk):
        resolved = Case.objects.filter(kind="revision missing").values_list("resolution", flat=True)
        assert list(resolved) == ["migrated"] * 4


def unwritten(job: LetterJob) -> str:
    """The item that revision 1 had begun and not saved."""
    return next(n.key for n in job.notes("write") if n.key not in written(job))


def written(job: LetterJob) -> set[str]:
    """The items whose result came from revision 1: it wrote no comma after the name."""
    return {key for key, output in job.saved("compose").items() if '?,"' not in output}
