"""manage.py revisions and migrate_jobs: what is still needed, what would become of each job, and doing it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from access.models import Membership, Person, Tenant
from access.roles import Role
from access.tenancy import acting, reading
from config.var import PROJECT
from tests.revisions.conftest import BOTH, RELEASE_1, RELEASE_2, Deploy, LetterJob, StartCluster
from tests.support import eventually, make_tenant
from workflows import known, registry
from workflows.actions.cancel import cancel_job
from workflows.engine.engine import Engine
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
Submit = Callable[..., LetterJob]


def told(*arguments: Any, fails: bool = False, **options: Any) -> str:
    """What a command says, and why it fails, if it should."""
    said = StringIO()
    if not fails:
        call_command(*arguments, stdout=said, **options)
        return said.getvalue()
    with pytest.raises(CommandError) as failed:
        call_command(*arguments, stdout=said, **options)
    return f"{said.getvalue()}{failed.value}"


def migrating(*more: str, fails: bool = False) -> str:
    return told("migrate_jobs", "test-letters", "--from", "1", "--to", "2", *more, fails=fails)


def digest(revision: str) -> str:
    return registry.digests()["test-letters", revision][:12]


# --- revisions --------------------------------------------------------------------------------------------------


def test_revisions_lists_what_is_loaded_served_and_needed(
    deploy: Deploy, letter_job: Submit, operator: Person
) -> None:
    deploy(RELEASE_1)
    jobs = [letter_job("Ada"), letter_job("Bob"), letter_job("Cem")]
    cancelled = jobs[2]
    with acting(cancelled.tenant.pk):
        Membership.objects.create(tenant=cancelled.tenant, person=operator, role=Role.ADMIN)
    cancel_job(
        tenant_id=cancelled.tenant.pk,
        job_id=cancelled.job_id,
        person_id=operator.pk,
        reason="no",
        now=timezone.now(),
    )
    deploy(BOTH)
    known.remember()
    today = f"{timezone.now():%Y-%m-%d}"
    assert told("revisions") == (
        "test-letters\n"
        f"  revision 1        {digest('1')}  loaded here       0 workers   2 unfinished (2 RECEIVED), the oldest of {today}\n"
        f"  revision 2        {digest('2')}  new jobs take it  0 workers   no unfinished job\n"
    )
    assert told("revisions", "test-letters") == told("revisions")
    assert told("revisions", "wishes", fails=True) == "Nothing is known of wishes. Loaded here: test-letters."


def test_a_release_that_forgets_a_revision_that_is_needed_is_told_before_it_is_deployed(
    deploy: Deploy, letter_job: Submit
) -> None:
    deploy(RELEASE_1)
    letter_job("Ada")
    first = digest("1")
    deploy(RELEASE_2)
    said = told("revisions", fails=True)
    assert f"revision 1        {first}  not loaded here   0 workers   1 unfinished (1 RECEIVED)" in said
    assert said.endswith(
        "Jobs that have not ended need what is not loaded here: test-letters revision 1 (1)."
        " Deploy it beside the others, or migrate the jobs."
    )


def test_workers_are_counted_by_what_they_can_run(deploy: Deploy, engine: Callable[[], Engine]) -> None:
    deploy(BOTH)
    running = engine()
    assert told("revisions") == (
        "test-letters\n"
        f"  revision 1        {digest('1')}  loaded here       1 worker    no unfinished job: it can go\n"
        f"  revision 2        {digest('2')}  new jobs take it  1 worker    no unfinished job\n"
    )
    running.request_stop()
    running.join()
    assert told("revisions").count("0 workers") == 2


# --- migrate_jobs -----------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_become_of_each_job_and_changes_nothing(
    deploy: Deploy, letter_job: Submit, engine: Callable[[], Engine], tenant: Tenant
) -> None:
    deploy(RELEASE_1)
    begun = letter_job("Ada", "Bob?")
    engine()
    eventually(
        lambda: len(begun.saved("write")) == 1 and len(begun.notes("write")) == 2, what="one of two letters"
    )
    deploy(BOTH)
    before = begun.now.version
    said = migrating("--dry-run")
    assert said == (
        f"JOB-{begun.job_id} ({tenant.slug}), VALIDATED\n"
        "  the input                converted    Converted; what was submitted stays.\n"
        "  sort                     kept         1 result kept as it is.\n"
        '    1                      kept         {"names":["Ada","Bob?"]}\n'
        "  compose                  converted    1 result of “write” converted. 1 that is not done runs under the new"
        " revision.\n"
        '    1                      converted    {"name":"Ada","text":"Dear Ada"} →'
        ' {"body":"Dear Ada","language":"en","name":"Ada"}\n'
        "  proofread                new          Runs when its turn comes.\n"
        "  bind                     new          Runs when its turn comes.\n"
        "  propose                  new          Runs when its turn comes.\n"
        "  → can be migrated\n"
        "1 of 1 can be migrated. Nothing was changed.\n"
    )
    assert (begun.now.revision, begun.now.version) == ("1", before)
    begun.go()


def test_a_dry_run_lists_the_first_results_of_a_step_and_those_in_the_way_before_others(
    deploy: Deploy, letter_job: Submit, engine: Callable[[], Engine]
) -> None:
    """Twelve letters are saved, the last of them to nobody. A thirteenth is being written."""
    deploy(RELEASE_1)
    names = [*(f"A{n:02}" for n in range(10)), "B", "Nobody", "Zoe?"]
    job = letter_job(*names)
    engine()
    eventually(lambda: len(job.saved("write")) == 12 and len(job.notes("write")) == 13, what="twelve letters")
    deploy(BOTH)
    said = migrating("--dry-run", fails=True).splitlines()
    listed = said[said.index(next(line for line in said if line.startswith("  compose "))) + 1 :]
    assert listed[:11] == [
        *(
            f'    {n + 1:<22} converted    {{"name":"A{n:02}","text":"Dear A{n:02}"}} →'
            f' {{"body":"Dear A{n:02}","language":"en","name":"A{n:02}"}}'
            for n in range(9)
        ),
        '    12                     in the way   {"name":"Nobody","text":"Dear Nobody"}: ValueError: there is no such person',
        "    and 2 more",
    ]
    assert (
        '    1                      kept         {"names":["A00","A01","A02","A03","A04","A05","A06","A07","…'
        in said
    )
    job.go()


@pytest.mark.long
def test_each_job_is_migrated_or_left_by_itself(
    deploy: Deploy, letter_job: Submit, engine: Callable[[], Engine], operator: Person
) -> None:
    deploy(RELEASE_1)
    good, bad = letter_job("Ada", "Zoe?"), letter_job("Nobody", "Zoe?")
    engine()
    for job in (good, bad):
        eventually(lambda j=job: len(j.saved("write")) == 1, what="a letter")
    deploy(BOTH)
    said = migrating("--as", "o.perator", "--reason", "other languages", fails=True)
    assert f"JOB-{good.job_id} (" in said
    assert said.count("  → revision 2\n") == 1
    assert "compose                  in the way   item 1: ValueError: there is no such person." in said
    assert said.endswith("1 of 2 migrated. 1 left as before, as said above.")
    assert (good.now.revision, bad.now.revision) == ("2", "1")
    assert good.events().count("job.migrated") == 1
    good.go()
    bad.go()
    for job in (good, bad):
        job.wait_until_drafted()


def test_who_and_why_are_asked_for(
    deploy: Deploy, letter_job: Submit, submitter: Person, operator: Person
) -> None:
    deploy(RELEASE_1)
    job = letter_job("Ada")
    deploy(BOTH)
    asks = "Say who answers for it (--as HANDLE) and why (--reason …), or look first (--dry-run)."
    assert migrating(fails=True) == asks
    assert migrating("--as", "o.perator", fails=True) == asks
    assert migrating("--as", "nobody", "--reason", "x", fails=True) == "There is nobody called nobody here."
    said = migrating("--as", submitter.username, "--reason", "x", fails=True)
    assert "→ left as it is: Only an operator of this organisation may do this." in said
    elsewhere = make_tenant()
    assert migrating("--as", "o.perator", "--reason", "x", "--tenant", elsewhere.slug, fails=True) == (
        f"There is no organisation {elsewhere.slug} that o.perator is in."
    )
    assert job.now.revision == "1"
    assert "1 of 1 migrated." in migrating("--as", "o.perator", "--reason", "x", "--job", str(job.job_id))
    assert job.now.revision == "2"
    assert (
        migrating("--dry-run")
        == "No job of that revision is without a proposal: there is nothing to migrate.\n"
    )
    assert "is on revision 2; nothing leads" in migrating("--dry-run", "--job", str(job.job_id), fails=True)
    assert migrating("--dry-run", "--job", "999", fails=True) == (
        "Not every job that was named is one that you may see here."
    )


def test_what_is_not_declared_is_refused(deploy: Deploy) -> None:
    deploy(RELEASE_1)
    assert migrating("--dry-run", fails=True) == "test-letters revision 2 is not loaded here. Loaded: 1."
    deploy(BOTH)
    assert told("migrate_jobs", "test-letters", "--from", "0", "--to", "2", "--dry-run", fails=True) == (
        "test-letters revision 2 declares no migration from revision 0. Declared: 1."
    )


@pytest.mark.long
@pytest.mark.processes
def test_a_migration_of_many_that_is_killed_leaves_each_job_whole_and_goes_on_when_it_is_repeated(
    deploy: Deploy, letter_job: Submit, cluster: StartCluster, operator: Person
) -> None:
    deploy(RELEASE_1)
    jobs = [letter_job("Ada", "Bob", "Zoe?") for _ in range(30)]
    first = cluster(RELEASE_1, slots=100)
    for job in jobs:
        eventually(lambda j=job: len(j.saved("write")) == 2, what="two letters")
    first.kill()
    command = [sys.executable, "manage.py", "migrate_jobs", "test-letters", "--from", "1", "--to", "2",
               "--as", "o.perator", "--reason", "other languages"]  # fmt: skip
    environment = {**os.environ, "COUNTERFOIL_WORKFLOWS": BOTH}
    running = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL)
    eventually(lambda: moved(jobs) >= 3, seconds=60, what="three that are migrated")
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert 3 <= moved(jobs) < 30
    assert [job.differences() for job in jobs] == [[]] * 30

    again = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert moved(jobs) == 30
    for job in jobs:
        job.go()
    cluster(BOTH, slots=8)
    for job in jobs:
        job.wait_until_drafted()
        assert job.events().count("job.migrated") == 1
        assert [len([n for n in job.notes(step) if n.key == key]) for step, key in
                (("write", "1"), ("write", "2"), ("compose", "1"), ("compose", "3"))] == [1, 1, 0, 1]  # fmt: skip


def moved(jobs: list[LetterJob]) -> int:
    with reading(jobs[0].tenant.pk):
        return Job.objects.filter(revision="2").count()
