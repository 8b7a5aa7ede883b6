"""Declared migrations: what was saved is kept, renamed, converted or set aside; what cannot be is told, job by job."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from access.models import Person
from access.refusals import Conflict, NotPermitted, Unprocessable
from access.roles import WORKER, Role
from access.tenancy import acting, reading
from reconciliation.models import Case
from tests.revisions.conftest import BOTH, RELEASE_1, RELEASE_2, RELEASE_3, Deploy, LetterJob
from tests.support import eventually, make_person
from workflows import hooks, inputs, journal, registry, verification
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job
from workflows.actions.migrate import CannotMigrate, NotAsShown, look, migrate_job, shown
from workflows.actions.run_again import run_steps_again
from workflows.engine.engine import Engine
from workflows.locks import lock_job
from workflows.migrating.planning import NoMigration
from workflows.models import Attempt, Checkpoint, ItemInput, Job, JobInput, JournalEntry, Stage, WorkItem
from workflows.states import ItemState, JobState

pytestmark = pytest.mark.django_db(transaction=True)
Submit = Callable[..., LetterJob]
StartEngine = Callable[[], Engine]


def now() -> datetime:
    return timezone.now()


def migrate(job: LetterJob, person: Person, **more: Any) -> Any:
    values = {"from_revision": "1", "to": "2", "reason": "German letters", "now": now(), **more}
    return migrate_job(tenant_id=job.tenant.pk, job_id=job.job_id, person_id=person.pk, **values)


def preview(job: LetterJob, to: str = "2") -> tuple[list[tuple[str, str, int, int]], list[str], str]:
    """What a look says: each step's fate with its counts, what is in the way, and a digest over it."""
    target = registry.workflows()["test-letters", to]
    with look(tenant_id=job.tenant.pk, job_id=job.job_id, target=target) as plan:
        fates = [(f.name, f.becomes.value, f.saved, f.left) for f in plan.steps]
        return fates, plan.problems, shown(plan)


def everything(job: LetterJob) -> dict[str, Any]:
    """All rows of a job but its attempts' clocks."""
    with reading(job.tenant.pk):
        return {
            "job": list(Job.objects.filter(pk=job.job_id).values()),
            "inputs": list(JobInput.objects.filter(job_id=job.job_id).order_by("pk").values()),
            "stages": list(Stage.objects.filter(job_id=job.job_id).order_by("pk").values()),
            "items": list(WorkItem.objects.filter(job_id=job.job_id).order_by("pk").values()),
            "elements": list(ItemInput.objects.filter(item__job_id=job.job_id).order_by("pk").values()),
            "results": list(Checkpoint.objects.filter(item__job_id=job.job_id).order_by("pk").values()),
            "journal": list(JournalEntry.objects.filter(job_id=job.job_id).order_by("pk").values()),
        }


def bare(deploy: Deploy, letter_job: Submit, *names: str) -> LetterJob:
    deploy(RELEASE_1)
    return letter_job(*names)


# --- the story --------------------------------------------------------------------------------------------------


def test_a_half_done_job_goes_on_under_the_new_revision_with_what_was_saved(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    """Two of four letters are written when revision 1 is gone. They are converted, and two are composed anew."""
    deploy(RELEASE_1)
    job = letter_job("Ada", "Bob", "Cem?", "Dan?")
    first = engine()
    eventually(
        lambda: len(job.saved("write")) == 2 and len(job.notes("write")) == 4, what="two of four letters"
    )
    written = job.saved("write")
    deploy(BOTH)
    fates, problems, _ = preview(job)
    assert problems == []
    assert fates == [
        ("sort", "kept", 1, 0),
        ("compose", "converted", 2, 2),
        ("proofread", "new", 0, 0),
        ("bind", "new", 0, 0),
        ("propose", "new", 0, 0),
    ]
    before = everything(job)

    done = migrate(job, operator)
    assert done.steps == {
        "sort": "kept", "compose": "converted", "proofread": "new", "bind": "new", "propose": "new",
    }  # fmt: skip
    job.go()
    job.wait_until_drafted()
    eventually(lambda: stale(job) == 2, what="the two letters that were being written come too late")
    first.request_stop()

    assert job.now.revision == "2"
    assert sorted(n.key for n in job.notes("write")) == ["1", "2", "3", "4"]
    assert sorted(n.key for n in job.notes("compose")) == ["3", "4"]
    assert len(job.notes("sort")) == 1
    assert job.saved("compose") == {
        "1": '{"body":"Dear Ada","language":"en","name":"Ada"}',
        "2": '{"body":"Dear Bob","language":"en","name":"Bob"}',
        "3": '{"body":"Dear Cem?,","language":"en","name":"Cem?"}',
        "4": '{"body":"Dear Dan?,","language":"en","name":"Dan?"}',
    }
    assert job.saved("proofread") == {"1": '{"errors":2}'}
    assert job.saved("bind") == {"1": '{"letters":4}'}

    after = everything(job)
    for rows in ("inputs", "elements", "results", "journal"):
        assert after[rows][: len(before[rows])] == before[rows], f"{rows} are never changed"
    assert written == {k: v["output"] for k, v in versions(job, "compose", 1).items()}
    assert after["job"][0]["input"] == before["job"][0]["input"]
    with reading(job.tenant.pk):
        assert json.loads(inputs.text_of(job.job_id))["language"] == "en"
        aside = Stage.objects.get(job_id=job.job_id, kind="set aside")
        assert (aside.name, aside.total, aside.closed_at is not None) == ("write@1", 2, True)
        assert set(WorkItem.objects.filter(stage=aside).values_list("key", "state")) == {
            ("3", ItemState.CANCELLED.number),
            ("4", ItemState.CANCELLED.number),
        }
    entry = migrated_entry(job)
    assert (entry.actor_kind, entry.actor_name) == ("operator", "o.perator")
    evidence = json.loads(entry.evidence)
    assert (evidence["from"], evidence["revision"], evidence["converted"]) == ("1", "2", ["compose"])
    assert evidence["stages"] == {"sort": "sort", "compose": "write"}
    assert (evidence["aside"], evidence["freed"]) == ({"write@1": "write"}, False)
    assert evidence["reason"] == "German letters"
    assert "Ada" not in entry.evidence
    assert verification.verify_jobs(job_id=job.job_id).bad is None


def stale(job: LetterJob) -> int:
    with reading(job.tenant.pk):
        return Attempt.objects.filter(item__job_id=job.job_id, outcome="stale").count()


def versions(job: LetterJob, stage: str, version: int) -> dict[str, dict[str, Any]]:
    with reading(job.tenant.pk):
        rows = Checkpoint.objects.filter(item__job_id=job.job_id, item__stage__name=stage, version=version)
        return {
            r["item__key"]: r for r in rows.filter(item__key__in="12").values("item__key", "output", "digest")
        }


def migrated_entry(job: LetterJob) -> JournalEntry:
    with reading(job.tenant.pk):
        return JournalEntry.objects.get(job_id=job.job_id, event="job.migrated")


def test_a_job_that_was_held_for_its_revision_is_freed_by_its_migration(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person, settings: Any
) -> None:
    settings.COUNTERFOIL_REVISION_GRACE_SECONDS = 0.0
    job = bare(deploy, letter_job, "Ada")
    deploy(RELEASE_2)
    engine()
    eventually(lambda: job.now.held_at, what="the hold")
    assert migrate(job, operator).steps == dict.fromkeys(
        ["sort", "compose", "proofread", "bind", "propose"], "new"
    )
    job.wait_until_drafted()
    assert (job.now.held_at, job.now.revision) == (None, "2")
    with reading(job.tenant.pk):
        case = Case.objects.get(job_id=job.job_id, kind="revision missing")
        assert (case.resolution, case.resolved_by_id) == ("migrated", operator.pk)
    assert job.events()[:7] == [
        "job.received", "revision.missing", "case.opened", "job.migrated", "case.closed", "input.validated",
        "stage.closed",
    ]  # fmt: skip


def test_a_step_that_was_stopped_is_made_anew_and_its_case_closed(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.revisions import notes

    def broken(folder: str, name: str) -> None:
        raise RuntimeError("the press is broken")

    job = bare(deploy, letter_job, "Ada", "Bob?")
    with monkeypatch.context() as patch:
        patch.setattr(notes, "wait_at_gate", broken)
        engine()
        eventually(lambda: "retry.exhausted" in job.events(), what="the stopped letter")
    deploy(BOTH)
    assert preview(job)[0][1] == ("compose", "converted", 1, 1)
    migrate(job, operator)
    job.go()
    job.wait_until_drafted()
    assert [n.key for n in job.notes("compose")] == ["2"]
    with reading(job.tenant.pk):
        case = Case.objects.get(job_id=job.job_id, kind="retry exhausted")
        assert (case.resolution, case.resolution_reason) == ("migrated", "German letters")


def test_what_is_kept_behind_a_new_step_waits_until_its_turn_comes(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    """All is written and bound when folding comes in between: it runs, binding does not, and the draft is made anew."""
    job = bare(deploy, letter_job, "Ada", "Bob")
    engine()
    job.wait_for("propose")
    deploy(RELEASE_1, RELEASE_3)
    fates, problems, _ = preview(job, "3")
    assert problems == []
    assert fates == [
        ("sort", "converted", 1, 0),
        ("write", "converted", 2, 0),
        ("fold", "new", 0, 0),
        ("bind", "kept", 1, 0),
        ("propose", "made again", 1, 0),
    ]
    migrate(job, operator, to="3")
    eventually(lambda: len(job.notes("propose")) == 2, what="another draft")
    job.wait_until_drafted()
    assert [(n.revision, n.step) for n in job.notes()][-2:] == [("3", "fold"), ("3", "propose")]
    assert json.loads(job.saved("propose")["1"])["operations"][0]["body"] == {"letters": 2, "sheets": 2}
    assert job.saved("bind") == {"1": '{"letters":2}'}
    with reading(job.tenant.pk):
        stages = dict(
            Stage.objects.filter(job_id=job.job_id, ordinal__lt=1000).values_list("name", "ordinal")
        )
    assert stages == {
        "validate": 0,
        "sort": 1,
        "write": 2,
        "fold": 3,
        "bind": 4,
        "propose": 5,
        "propose@1": 4,
    }


def test_the_rest_of_a_fan_out_works_on_the_converted_elements(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    job = bare(deploy, letter_job, "Ada", "Bob?", "Cem?")
    engine()
    eventually(
        lambda: len(job.saved("write")) == 1 and len(job.notes("write")) == 3, what="one of three letters"
    )
    deploy(RELEASE_1, RELEASE_3)
    assert preview(job, "3")[0][:2] == [("sort", "converted", 1, 0), ("write", "converted", 1, 2)]
    migrate(job, operator, to="3")
    job.go()
    job.wait_until_drafted()
    assert job.saved("sort") == {
        "1": '{"people":[{"name":"Ada","title":"Dr"},{"name":"Bob?","title":"Dr"},{"name":"Cem?","title":"Dr"}]}'
    }
    assert {k: json.loads(v)["text"] for k, v in job.saved("write").items()} == {
        "1": "Dear Ada", "2": "Dear Dr Bob?", "3": "Dear Dr Cem?",
    }  # fmt: skip


# --- what is in the way -----------------------------------------------------------------------------------------


def test_a_conversion_that_fails_leaves_the_job_as_it_is_and_says_why(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    deploy(RELEASE_1)
    job = letter_job("Ada", "Nobody", "Zoe?")
    engine()
    eventually(lambda: len(job.saved("write")) == 2, what="two letters")
    deploy(BOTH)
    before = everything(job)
    _, problems, _ = preview(job)
    why = "Compose: item 2: ValueError: there is no such person. Convert it in the migration, or let the step run again."
    assert problems == [why]
    with pytest.raises(CannotMigrate, match="item 2: ValueError: there is no such person"):
        migrate(job, operator)
    assert everything(job) == before
    job.go()


def test_what_does_not_fit_the_new_types_is_told_item_by_item(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    """A migration that keeps what it should convert."""
    job = bare(deploy, letter_job, *(f"N{n}" for n in range(5)))
    engine()
    eventually(lambda: "proposal.refused" in job.events(), what="a draft that nobody may decide on")
    deploy(RELEASE_1, "tests.revisions.letters_careless")
    before = everything(job)
    fates, problems, _ = preview(job, "2.1")
    assert problems == [
        "The input: language: is missing; give it.",
        "Compose: item 1: body: is missing; give it; item 2: body: is missing; give it; item 3: body: is missing; give it;"
        " and 2 more. Convert it in the migration, or let the step run again.",
    ]
    assert fates[-2:] == [("bind", "set aside", 1, 0), ("propose", "set aside", 1, 0)]
    with pytest.raises(CannotMigrate, match="The input: language: is missing; give it"):
        migrate(job, operator, to="2.1")
    assert everything(job) == before


def test_a_job_with_a_proposal_or_past_it_is_not_migrated(
    deploy: Deploy, letter_job: Submit, operator: Person
) -> None:
    job = bare(deploy, letter_job, "Ada")
    with acting(job.tenant.pk):
        locked = lock_job(job.job_id)
        for state, event in ((JobState.VALIDATED, "input.validated"), (JobState.PROPOSED, "proposal.frozen")):
            journal.transition(job=locked, to=state, event=event, actor=WORKER, evidence={})
    deploy(BOTH)
    assert preview(job)[1] == [f"JOB-{job.job_id} is “Proposed”: only a job without a proposal is migrated."]
    before = everything(job)
    with pytest.raises(CannotMigrate, match="is “Proposed”"):
        migrate(job, operator)
    assert everything(job) == before


def test_whatever_another_room_objects_to_is_in_the_way(
    deploy: Deploy, letter_job: Submit, operator: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something was sent for an earlier proposal, and the job came back: nobody may make it anew."""
    job = bare(deploy, letter_job, "Ada")
    deploy(BOTH)
    monkeypatch.setattr(hooks, "_migrating", [lambda job: "OP-1 may have been sent."])
    assert preview(job)[1] == ["OP-1 may have been sent."]
    with pytest.raises(CannotMigrate, match="OP-1 may have been sent"):
        migrate(job, operator)
    assert job.now.revision == "1"


def test_only_what_is_declared_is_migrated_and_only_forwards(
    deploy: Deploy, letter_job: Submit, operator: Person
) -> None:
    job = bare(deploy, letter_job, "Ada")
    with pytest.raises(NoMigration, match=r"revision 2 is not loaded here\. Loaded: 1\."):
        migrate(job, operator)
    deploy(BOTH)
    with pytest.raises(NoMigration, match=r"declares no migration from revision 0\. Declared: 1\."):
        migrate(job, operator, from_revision="0")
    with pytest.raises(
        NoMigration, match=r"revision 1 declares no migration from revision 2\. Declared: none\."
    ):
        migrate(job, operator, from_revision="2", to="1")
    migrate(job, operator)
    with pytest.raises(CannotMigrate, match="is on revision 2"):
        migrate(job, operator)
    assert job.events().count("job.migrated") == 1


def test_who_migrates_is_an_operator_who_says_why(
    deploy: Deploy, letter_job: Submit, submitter: Person, operator: Person
) -> None:
    job = bare(deploy, letter_job, "Ada")
    deploy(BOTH)
    before = everything(job)
    with pytest.raises(NotPermitted, match="Only an operator"):
        migrate(job, submitter)
    with pytest.raises(NotPermitted):
        migrate(job, make_person(job.tenant, Role.ADMIN))
    with pytest.raises(Unprocessable, match="Say why"):
        migrate(job, operator, reason="  ")
    assert everything(job) == before


# --- two at once ------------------------------------------------------------------------------------------------


def test_what_is_done_is_what_was_shown(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    """Between the preview and the press a step is finished that the preview had as not begun."""
    job = bare(deploy, letter_job, "Ada")
    deploy(BOTH)
    _, _, seen = preview(job)
    engine()
    job.wait_for("propose")
    with pytest.raises(NotAsShown, match="has gone on since this was shown"):
        migrate(job, operator, seen=seen)
    assert job.now.revision == "1"
    assert migrate(job, operator, seen=preview(job)[2]).to == "2"


def test_a_result_that_comes_while_the_job_is_looked_at_is_converted_too(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    """The look has read the first letters and converts one; the last one is saved; then the job is locked."""
    from tests.revisions import letters_3

    letters_3.GATE.clear()
    job = bare(deploy, letter_job, "Gate", "Zoe?", "Zed?")
    engine()
    eventually(
        lambda: len(job.saved("write")) == 1 and len(job.notes("write")) == 3, what="one of three letters"
    )
    deploy(RELEASE_1, RELEASE_3)
    done: list[Any] = []
    looking = threading.Thread(target=in_thread(lambda: done.append(migrate(job, operator, to="3"))))
    looking.start()
    job.go("Zoe?")
    job.wait_for("write", 2)
    letters_3.GATE.set()
    looking.join(30)
    assert [d.to for d in done] == ["3"]
    job.go()
    job.wait_until_drafted()
    assert [(n.revision, n.key) for n in job.notes("write")][3:] == [("3", "2")]
    assert {k: json.loads(v)["text"] for k, v in job.saved("write").items()} == {
        "1": "Dear Gate",
        "2": "Dear Dr Zed?",
        "3": "Dear Zoe?",
    }


def test_of_two_operators_one_migrates_and_the_other_is_told(
    deploy: Deploy, letter_job: Submit, operator: Person
) -> None:
    job = bare(deploy, letter_job, "Ada")
    other = make_person(job.tenant, Role.OPERATOR)
    deploy(BOTH)
    barrier = threading.Barrier(2)
    said: list[str] = []

    def press(person: Person) -> None:
        barrier.wait(10)
        try:
            said.append(migrate(job, person).to)
        except Conflict as late:
            said.append(str(late))

    both = [threading.Thread(target=in_thread(lambda p=p: press(p))) for p in (operator, other)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(30)
    late = f"JOB-{job.job_id} is on revision 2; nothing leads from there to revision 2."
    assert sorted(said) == ["2", late]
    assert job.events().count("job.migrated") == 1


def in_thread(call: Callable[[], Any]) -> Callable[[], None]:
    """The call, with its thread's connection closed after it."""

    def run() -> None:
        try:
            call()
        finally:
            connection.close()

    return run


def test_a_cancelled_job_stays_cancelled_and_a_held_one_held(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    cancelled, held = bare(deploy, letter_job, "Ada"), bare(deploy, letter_job, "Bob")
    admin = make_person(cancelled.tenant, Role.ADMIN)
    where = {"tenant_id": cancelled.tenant.pk, "person_id": admin.pk, "reason": "no", "now": now()}
    cancel_job(job_id=cancelled.job_id, **where)
    hold_job(job_id=held.job_id, **where)
    deploy(BOTH)
    with pytest.raises(CannotMigrate, match="is “Cancelled”"):
        migrate(cancelled, operator)
    migrate(held, operator)
    assert (held.now.revision, held.now.hold_reason) == ("2", "no")
    free = letter_job("Eve", language="en")
    engine()
    free.wait_until_drafted()
    assert held.notes() == []


def test_a_job_whose_steps_were_run_again_is_migrated_by_what_it_has_now(
    deploy: Deploy, letter_job: Submit, engine: StartEngine, operator: Person
) -> None:
    """Its draft was refused, so that it has no proposal: what was set aside before is no step of either revision."""
    job = bare(deploy, letter_job, "Ada")
    job.go()
    engine()
    job.wait_until_drafted()
    run_steps_again(
        tenant_id=job.tenant.pk,
        job_id=job.job_id,
        person_id=operator.pk,
        first="bind",
        seen=0,
        reason="once more",
        now=timezone.now(),
    )
    eventually(lambda: job.events().count("proposal.refused") == 2, what="the second draft")
    assert job.differences() == []
    deploy(BOTH)
    engine()
    steps = migrate(job, operator).steps
    assert (steps["compose"], "bind#1" in steps) == ("converted", False)
    eventually(lambda: job.events().count("proposal.refused") == 3, what="the third draft")
    assert job.differences() == []
    with reading(job.tenant.pk):
        kept = Stage.objects.filter(job_id=job.job_id, kind="set aside").order_by("pk")
        assert [s.name for s in kept] == ["bind#1", "propose#1", "bind@1", "propose@1"]
