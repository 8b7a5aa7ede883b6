"""Steps that are run again once their proposal is closed: what is read anew, who may, what is refused, and two at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connections
from django.urls import reverse
from django.utils import timezone

from access.models import Membership, Person
from access.refusals import NotPermitted, Refused, Unprocessable
from access.roles import Role
from access.tenancy import acting, reading
from approvals import waiting
from approvals.models import Proposal
from reconciliation.models import Case
from tests.approvals import rereading
from tests.approvals.pages import HTMX, as_person, text
from tests.approvals.world import World
from tests.dispatch.world import as_owner
from tests.support import at_once, eventually, forget_workflows, install, make_person
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job, release_job
from workflows.actions.redrive import redrive_job
from workflows.actions.retry import fail_job
from workflows.actions.run_again import CannotRunAgain, NoSuchStep, RanAgain, run_steps_again
from workflows.actions.skip import skip_item
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine
from workflows.models import Attempt, Job, JournalEntry, Stage, WorkItem
from workflows.replaying import comparing, recorded, rows
from workflows.replaying.folding import fold

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def fresh(settings: Any, _own_workflow_and_receiver: None) -> Iterator[None]:
    install(settings, "tests.approvals.rereading")
    rereading.RECORD["version"] = 41
    rereading.READ.clear()
    rereading.GATE.set()
    yield
    rereading.GATE.set()


@pytest.fixture
def start(world: World) -> Iterator[Callable[..., Engine]]:
    """Starts an engine, with what another had kept of texts; the one before is stopped."""
    running: list[Engine] = []

    def stop() -> None:
        while running:
            engine = running.pop()
            engine.request_stop()
            engine.join()

    def one(texts: Any = None) -> Engine:
        stop()
        engine = Engine(slots=4, lease_seconds=20)
        engine.texts = texts or engine.texts
        engine.start_threads()
        running.append(engine)
        return engine

    yield one
    stop()


def submitted(world: World, *parts: str, workflow: str = "test-rereading") -> Job:
    made = submit_job(
        tenant_id=world.tenant.pk,
        workflow=workflow,
        value={"parts": list(parts)},
        submission_key=f"k{timezone.now().timestamp()}",
        person_id=world.submitter.pk,
        source="test",
        now=timezone.now(),
    )
    with reading(world.tenant.pk):
        return Job.objects.get(pk=made.job_id)


def proposal_of(world: World, job: Job, number: int) -> Proposal:
    """The job's proposal of this number, once it awaits approval."""

    def look() -> Proposal | None:
        with reading(world.tenant.pk):
            return Proposal.objects.filter(job=job, number=number).select_related("policy").first()

    return eventually(look, what=f"proposal {number} of {job.label}")


def sent_back(world: World, job: Job, number: int = 1) -> None:
    world.decide(proposal_of(world, job, number), world.manager, "request changes")
    assert world.state(job) == "VALIDATED"


def again(world: World, job: Job, person: Person | None = None, **more: Any) -> RanAgain:
    given = {"seen": 0, "reason": "It has moved on.", "now": timezone.now(), **more}
    person = person or world.operator
    return run_steps_again(tenant_id=world.tenant.pk, job_id=job.pk, person_id=person.pk, **given)


def all_rows(world: World, job: Job) -> dict[str, Any]:
    """Everything of a job that running steps again could change."""
    with reading(world.tenant.pk):
        return {
            "job": Job.objects.filter(pk=job.pk).values("state", "version", "reruns", "deadline_at").get(),
            "stages": list(Stage.objects.filter(job=job).order_by("pk").values()),
            "items": list(WorkItem.objects.filter(job=job).order_by("pk").values()),
        }


def folds(world: World, job: Job) -> None:
    """The journal and the attempts say the same as the rows do, after every line of the journal that moved the job."""
    with rows.snapshot(world.tenant.pk):
        found = rows.rows_of(job.pk)
        assert comparing.compare(found, fold(found)) == []


def test_what_moved_on_is_read_again_by_every_process_and_the_old_results_stay(
    world: World, start: Callable[..., Engine]
) -> None:
    """The third engine has what the first one kept in memory of the first run, as a process that slept would."""
    first = start()
    job = submitted(world, "a", "b")
    sent_back(world, job)
    rereading.RECORD["version"] = 42
    start()
    assert again(world, job).steps == ("read", "look", "propose")
    assert proposal_of(world, job, 2).title == "Version 42, looked at 2 times"
    sent_back(world, job, 2)
    start(first.texts)
    assert again(world, job, world.submitter, first="propose", seen=1).steps == ("propose",)
    assert proposal_of(world, job, 3).title == "Version 42, looked at 2 times"

    assert rereading.READ == [41, 42]
    with reading(world.tenant.pk):
        stages = Stage.objects.filter(job=job).exclude(kind="machine").order_by("pk")
        kept = list(stages.values_list("name", "kind"))
        told = JournalEntry.objects.filter(job=job, event="steps.run_again").order_by("sequence")
        people = list(told.values_list("actor_id", "actor_kind"))
    assert kept == [
        ("validate", "validate"),
        ("read#1", "set aside"),
        ("look#1", "set aside"),
        ("propose#1", "set aside"),
        ("read", "step"),
        ("look", "each"),
        ("propose#2", "set aside"),
        ("propose", "propose"),
    ]
    assert people == [(world.operator.pk, "operator"), (world.submitter.pk, "submitter")]
    folds(world, job)


def test_an_attempt_that_was_set_aside_is_still_told_with_what_it_was_given(
    world: World, start: Callable[..., Engine]
) -> None:
    start()
    job = submitted(world, "a")
    sent_back(world, job)
    rereading.RECORD["version"] = 42
    again(world, job)
    proposal_of(world, job, 2)
    with rows.snapshot(world.tenant.pk):
        found = rows.rows_of(job.pk)
        tries = Attempt.objects.filter(item__job=job, item__stage__name__startswith="propose").order_by("pk")
        given = [recorded.attempt_of(found, attempt.pk) for attempt in tries]
    assert [one.stage for one in given] == ["propose", "propose"]
    assert ['"version":41' in one.given[0].text for one in given] == [True, False]
    assert ['"version":42' in one.given[0].text for one in given] == [False, True]
    assert [one.given[1].source for one in given] == ["1 results of look"] * 2


def test_what_is_inside_a_handler_when_its_step_is_run_again_comes_too_late(
    world: World, start: Callable[..., Engine]
) -> None:
    start()
    job = submitted(world, "gate", "b")
    assert rereading.INSIDE.acquire(timeout=20)
    sent_back(world, job)
    rereading.GATE.clear()
    again(world, job)
    assert rereading.INSIDE.acquire(timeout=20)
    with reading(world.tenant.pk):
        running = WorkItem.objects.get(job=job, stage__name="look", key="1")
        assert waiting.why_it_waits(Job.objects.get(pk=job.pk)) is None, "it is the steps that it waits for"
    folds(world, job)
    again(world, job, seen=1)
    assert rereading.INSIDE.acquire(timeout=20)
    rereading.GATE.set()
    assert proposal_of(world, job, 2).title == "Version 41, looked at 2 times"
    with reading(world.tenant.pk):
        eventually(lambda: Attempt.objects.filter(item=running).exists(), what="the late result")
        late = Attempt.objects.get(item=running)
        running.refresh_from_db()
        assert Stage.objects.get(pk=running.stage_id).name == "look#2"
    assert (late.outcome, running.state_name) == ("stale", "CANCELLED")
    folds(world, job)
    sent_back(world, job, 2)
    who = {"tenant_id": world.tenant.pk, "job_id": job.pk, "person_id": world.operator.pk, "reason": "enough"}
    fail_job(now=timezone.now(), **who)
    redrive_job(attempts=1, now=timezone.now(), **who)
    assert proposal_of(world, job, 3).title == "Version 41, looked at 2 times"
    folds(world, job)


def test_who_has_steps_run_again_cannot_sign_what_comes_of_it_and_a_deadline_begins_again(
    world: World, start: Callable[..., Engine]
) -> None:
    start()
    with acting(world.tenant.pk):
        Membership.objects.create(tenant=world.tenant, person=world.second, role=Role.OPERATOR)
    job = submitted(world)
    sent_back(world, job)
    began_and_passed = (
        "created_at = now() - interval '1 day', deadline_at = now() - interval '1 s' WHERE id = %s"
    )
    as_owner("workflows_job", began_and_passed, [job.pk])
    again(world, job, world.second)
    proposal = proposal_of(world, job, 2)
    deadline = all_rows(world, job)["job"]["deadline_at"]
    assert timedelta(hours=23) < deadline - timezone.now() < timedelta(days=1)
    with pytest.raises(NotPermitted, match="had a hand in this job"):
        world.decide(proposal, world.second)
    assert world.decide(proposal, world.manager).job_state == "READY_TO_COMMIT"


def test_two_at_once_are_one_run_and_the_other_is_told_who_was_first(
    world: World, start: Callable[..., Engine]
) -> None:
    start()
    job = submitted(world)
    sent_back(world, job)
    results = at_once(lambda: again(world, job), lambda: again(world, job, world.submitter))
    (won,) = [r for r in results if isinstance(r, RanAgain)]
    (lost,) = [r for r in results if isinstance(r, CannotRunAgain)]
    assert won.steps == ("read", "look", "propose")
    with reading(world.tenant.pk):
        (entry,) = JournalEntry.objects.filter(job=job, event="steps.run_again")
    assert str(lost) == (
        f"{entry.actor_name} has run steps of {job.label} again since you looked. Look at how it is now."
    )
    proposal_of(world, job, 2)


def test_a_crash_before_the_last_line_leaves_everything_as_it_was(
    world: World, start: Callable[..., Engine]
) -> None:
    """The case is the last thing that is locked: somebody holds it, and the database drops the one who waits for it."""
    start()
    job = submitted(world)
    sent_back(world, job)
    before = all_rows(world, job)
    url = os.environ["DATABASE_URL"]
    with (
        psycopg.connect(url) as other,
        psycopg.connect(url, autocommit=True) as looks,
        ThreadPoolExecutor(1) as thread,
    ):
        held = "SELECT id FROM reconciliation_case WHERE job_id = %s FOR UPDATE"
        assert other.execute(held, [job.pk]).fetchone()
        waits = thread.submit(alone, lambda: again(world, job))
        drop = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        eventually(lambda: looks.execute(drop, [other.info.backend_pid]).fetchone(), what="who waits")
        assert isinstance(waits.result(), OperationalError)
    assert all_rows(world, job) == before
    again(world, job)
    proposal_of(world, job, 2)
    folds(world, job)


def alone(call: Callable[[], Any]) -> Any:
    """In a thread with a connection of its own: what came of it."""
    try:
        return call()
    except OperationalError as failed:
        return failed
    finally:
        connections.close_all()


def refused(world: World, job: Job, kind: type[Refused], said: str, **more: Any) -> None:
    """It is refused with this sentence, and nothing is changed."""
    before = all_rows(world, job)
    with pytest.raises(kind, match=said):
        again(world, job, **more)
    assert all_rows(world, job) == before


def test_what_stands_in_the_way_is_said_and_nothing_is_changed(
    world: World, start: Callable[..., Engine], settings: Any
) -> None:
    start()
    admin = make_person(world.tenant, Role.ADMIN)
    who = {"tenant_id": world.tenant.pk, "person_id": admin.pk, "now": timezone.now()}
    rereading.GATE.clear()
    job = submitted(world, "gate")
    assert rereading.INSIDE.acquire(timeout=20)
    refused(world, job, CannotRunAgain, f"{job.label} has not come to a proposal yet")
    rereading.GATE.set()
    proposal_of(world, job, 1)
    refused(world, job, CannotRunAgain, "is “Awaiting approval”: its proposal is open")
    sent_back(world, job)
    refused(world, job, Unprocessable, "Say why", reason="  ")
    refused(world, job, NoSuchStep, "There is no step “reed” .*: read, look, propose", first="reed")
    refused(world, job, CannotRunAgain, "No steps of .* have been run again yet", seen=1)
    stranger = make_person(world.tenant, Role.SUBMITTER)
    for person in (world.manager, admin, stranger):
        refused(world, job, NotPermitted, "Only an operator", person=person)
    hold_job(job_id=job.pk, reason="wait", **who)
    refused(world, job, CannotRunAgain, f"{admin.username} holds {job.label}. Lift the hold first")
    release_job(job_id=job.pk, **who)
    install(settings, "tests.workflows_for_tests")
    refused(world, job, CannotRunAgain, "Deploy it to run steps again, or migrate the job")
    forget_workflows()
    install(settings, "tests.approvals.rereading")
    cancel_job(job_id=job.pk, reason="no", **who)
    refused(world, job, CannotRunAgain, f"{job.label} has ended")


def test_what_would_have_to_be_undone_is_not_made_a_second_time(
    world: World, start: Callable[..., Engine]
) -> None:
    start()
    job = submitted(world, workflow="test-made-again")
    sent_back(world, job)
    refused(world, job, CannotRunAgain, "What “Make” made is undone if the job ends without effect")
    assert again(world, job, first="propose-made").steps == ("propose-made",)
    proposal_of(world, job, 2)


def test_it_is_asked_on_the_job_the_slip_and_the_case_and_works_without_a_script(
    world: World, start: Callable[..., Engine]
) -> None:
    start()
    job = submitted(world, "a")
    sent_back(world, job)
    slug, submitter = world.tenant.slug, as_person(world.submitter)
    address = reverse("job-run-again", args=[slug, job.pk])
    with reading(world.tenant.pk):
        case = Case.objects.get(job=job, resolved_at__isnull=True)
    pages = [
        reverse("job", args=[slug, job.pk]),
        reverse("approval", args=[slug, proposal_of(world, job, 1).pk]),
        reverse("case", args=[slug, case.pk]),
    ]
    for page in pages:
        assert address in text(submitter.get(page)), page
        assert address not in text(as_person(world.manager).get(page)), page
    assert as_person(world.manager).get(address).status_code == 403
    asked = text(submitter.get(address))
    offered = ('<option value="read">2. Read</option>', '<option value="propose">4. Propose</option>')
    assert [option in asked for option in offered] == [True, True]
    assert text(submitter.get(address, headers=HTMX)).strip().startswith('<dialog class="ask"')
    before = all_rows(world, job)
    assert submitter.post(address, {"first": "read", "seen": "0", "reason": " "}).status_code == 422
    assert all_rows(world, job) == before

    given = {"first": "look", "seen": "0", "reason": "Look again."}
    assert submitter.post(address, given).headers["Location"] == pages[0]
    proposal_of(world, job, 2)
    late = submitter.post(address, given)
    assert (late.status_code, "has run steps of" in text(late)) == (409, True)
    assert "its proposal is open" in text(submitter.get(address))
    shown = text(submitter.get(pages[0]))
    assert "Set aside: " in shown
    assert "Look before run 2</a>" in shown
    assert address not in shown
    stranger = make_person(world.tenant, Role.SUBMITTER)
    assert "Only an operator of this organisation may do this." in text(as_person(stranger).get(address))


def test_the_slip_names_what_people_did_to_the_run_that_it_came_of(
    world: World, start: Callable[..., Engine]
) -> None:
    """What somebody did to a step before it was run again is history; what was done to one that stays still counts."""
    start()
    job = submitted(world, "a", "bad")
    leave_out(world, job)
    assert hands_of(proposal_of(world, job, 1)) == [("look", "left out")]
    sent_back(world, job)
    again(world, job, first="look")
    leave_out(world, job)
    run = ("look", "run again from here on")
    assert hands_of(proposal_of(world, job, 2)) == [("look", "left out"), run]
    sent_back(world, job, 2)
    again(world, job, first="propose", seen=1)
    assert hands_of(proposal_of(world, job, 3)) == [
        ("propose", "run again from here on"), ("look", "left out"), run,
    ]  # fmt: skip


def leave_out(world: World, job: Job) -> None:
    """The part that cannot be looked at, once that is known."""

    def stopped() -> WorkItem | None:
        with reading(world.tenant.pk):
            return WorkItem.objects.filter(job=job, stage__name="look", reported_at__isnull=False).first()

    item = eventually(stopped, what="the part that stopped")
    skip_item(
        tenant_id=world.tenant.pk, item_id=item.pk, person_id=world.operator.pk, reason="It is bad.",
        now=timezone.now(),
    )  # fmt: skip


def hands_of(proposal: Proposal) -> list[tuple[str, str]]:
    hands = json.loads(proposal.document)["hands"]
    assert hands["count"] == len(hands["latest"])
    return [(hand["step"], hand["what"]) for hand in hands["latest"]]
