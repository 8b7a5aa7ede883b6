"""What a person does about work that stopped: grant, correct, skip, redrive. Everything saved stays saved."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from access.models import Person, Tenant
from access.owner import as_owner
from access.refusals import NotPermitted, Refused, Unprocessable
from access.roles import Role
from access.tenancy import acting, reading
from tests.support import at_once, eventually, install, make_person
from tests.workflows import mending
from workflows import registry
from workflows.actions.cancel import cancel_job
from workflows.actions.correct import CannotCorrect, Corrected, correct_item
from workflows.actions.redrive import NotRedrivable, Redriven, redrive_job
from workflows.actions.retry import NothingToRetry, fail_job, grant_attempts
from workflows.actions.skip import CannotSkip, skip_item
from workflows.actions.submit import submit_job
from workflows.corrections import InvalidCorrection, NothingCorrected
from workflows.engine.engine import Engine
from workflows.models import Attempt, Checkpoint, ItemInput, Job, JournalEntry, Stage, WorkItem
from workflows.replaying import comparing, rows
from workflows.replaying.folding import fold
from workflows.states import ItemState
from workflows.stopped import ChangedMeanwhile

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def letters(settings: Any, test_workflows: None) -> None:
    install(settings, "tests.workflows.mending")


def submit(tenant: Tenant, person: Person, *lines: str, closing: str = "fine") -> int:
    return submit_job(
        tenant_id=tenant.pk,
        workflow="test-letters",
        value={"lines": list(lines), "closing": closing},
        submission_key=f"k{timezone.now().timestamp()}",
        person_id=person.pk,
        source="test",
        now=timezone.now(),
    ).job_id


def item(tenant: Tenant, job_id: int, stage: str, key: str = "1") -> WorkItem:
    with reading(tenant.pk):
        return WorkItem.objects.select_related("stage").get(job_id=job_id, stage__name=stage, key=key)


def stopped(tenant: Tenant, job_id: int, stage: str, key: str = "1") -> WorkItem:
    """The item once it has stopped and that was journalled."""

    def look() -> WorkItem | None:
        with reading(tenant.pk):
            found = WorkItem.objects.filter(job_id=job_id, stage__name=stage, key=key)
            return found.filter(reported_at__isnull=False).select_related("stage").first()

    return eventually(look, what=f"{stage} {key} stopped")


def output(tenant: Tenant, job_id: int, stage: str, key: str = "1") -> Any:
    """What a step's item gave, once it has."""

    def look() -> Any:
        with reading(tenant.pk):
            rows = Checkpoint.objects.filter(item__job_id=job_id, item__stage__name=stage, item__key=key)
            return rows.order_by("-version").values_list("output", flat=True).first()

    return json.loads(eventually(look, what=f"an output of {stage} {key}"))


def entry(tenant: Tenant, job_id: int, event: str) -> JournalEntry:
    with reading(tenant.pk):
        return JournalEntry.objects.filter(job_id=job_id, event=event).latest("sequence")


def state(tenant: Tenant, job_id: int) -> str:
    with reading(tenant.pk):
        return Job.objects.values_list("state", flat=True).get(pk=job_id)


def saved(tenant: Tenant, job_id: int) -> list[tuple[int, int, str]]:
    """Every checkpoint of a job."""
    with reading(tenant.pk):
        rows = Checkpoint.objects.filter(item__job_id=job_id).order_by("pk")
        return list(rows.values_list("pk", "version", "digest"))


def given_up(tenant: Tenant, job_id: int, operator: Person) -> None:
    fail_job(tenant_id=tenant.pk, job_id=job_id, person_id=operator.pk, reason="enough", now=timezone.now())


def folds(tenant: Tenant, job_id: int) -> None:
    """The journal and the attempts say the same as the rows do."""
    with rows.snapshot(tenant.pk):
        found = rows.rows_of(job_id)
        assert comparing.compare(found, fold(found)) == []


def by(person: Person, tenant: Tenant, **values: Any) -> dict[str, Any]:
    """What every action here is called with."""
    given = {"attempts": 2, "reason": "it is right now", "now": timezone.now(), **values}
    return {"tenant_id": tenant.pk, "person_id": person.pk, **given}


def test_granted_attempts_begin_the_elapsed_time_anew_and_forget_all_deaths_but_one(
    tenant: Tenant, submitter: Person, operator: Person, engine: Engine
) -> None:
    job_id = submit(tenant, submitter, "bad")
    found = stopped(tenant, job_id, "read")
    engine.request_stop()
    engine.join()
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE workflows_workitem SET deaths = 3, first_started_at = now() WHERE id = %s", [found.pk]
        )
    grant_attempts(item_id=found.pk, **by(operator, tenant))
    again = item(tenant, job_id, "read")
    assert (again.state_name, again.deaths, again.first_started_at) == (ItemState.READY, 1, None)
    assert (again.attempts_limit, again.claim_no) == (found.attempts + 2, found.claim_no)
    folds(tenant, job_id)


def test_a_corrected_element_is_a_new_version_and_the_old_one_is_kept(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "one", "bad two")
    found = stopped(tenant, job_id, "read", "2")
    before = saved(tenant, job_id)
    done = correct_item(
        item_id=found.pk, text='{"text": "two", "weight": 0.25}', seen=found.claim_no, **by(operator, tenant)
    )
    assert done == Corrected(job_id, found.pk, 2, 2)
    assert output(tenant, job_id, "read", "2") == {"text": "TWO"}
    assert output(tenant, job_id, "put-together") == {"closing": "fine", "count": 2}
    with reading(tenant.pk):
        versions = ItemInput.objects.filter(item=found).order_by("version").values_list("version", "value")
        assert list(versions) == [
            (1, '{"text":"bad two","weight":0.5}'),
            (2, '{"text":"two","weight":0.25}'),
        ]
    told = entry(tenant, job_id, "item.corrected")
    evidence = json.loads(told.evidence)
    assert (told.actor_name, evidence["reason"], evidence["version"], evidence["fields"]) == (
        operator.username,
        "it is right now",
        2,
        ["line"],
    )
    assert len({evidence["before"], evidence["after"]}) == 2
    assert "two" not in told.evidence
    assert saved(tenant, job_id)[: len(before)] == before
    folds(tenant, job_id)


def test_a_corrected_argument_of_a_single_step_replaces_what_it_followed_from(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "one", closing="broken")
    found = stopped(tenant, job_id, "put-together")
    fixed = {"letter": {"lines": ["one"], "closing": "kind regards"}}
    correct_item(item_id=found.pk, text=json.dumps(fixed), **by(operator, tenant))
    assert output(tenant, job_id, "put-together") == {"closing": "kind regards", "count": 1}
    with reading(tenant.pk):
        assert json.loads(ItemInput.objects.get(item=found).value) == fixed
        assert json.loads(Job.objects.get(pk=job_id).input)["closing"] == "broken"


def test_a_second_correction_of_a_single_step_keeps_what_the_first_replaced(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "one", closing="broken")
    first = stopped(tenant, job_id, "put-together")
    correct_item(item_id=first.pk, text='{"read": [{"text": "A"}, {"text": "B"}]}', **by(operator, tenant))
    eventually(lambda: item(tenant, job_id, "put-together").claim_no > first.claim_no)
    second = stopped(tenant, job_id, "put-together")
    correct_item(item_id=second.pk, text='{"letter": {"lines": [], "closing": "ok"}}', **by(operator, tenant))
    assert output(tenant, job_id, "put-together") == {"closing": "ok", "count": 2}
    with reading(tenant.pk):
        assert list(ItemInput.objects.filter(item=second).values_list("version", flat=True)) == [1, 2]
    folds(tenant, job_id)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("{", [""]),
        ('{"text": ""}', ["text"]),
        ('{"text": "x", "weight": "heavy"}', ["weight"]),
        ('{"text": "x", "text": "y"}', [""]),
        ('{"text": "a\\u0000b"}', ["text"]),
        ('{"text": "\\ud800"}', ["text"]),
        ('{"text": "x", "weight": NaN}', [""]),
        ("[" * 5000 + "]" * 5000, [""]),
        ('{"text": "' + "x" * 1_000_001 + '"}', [""]),
        ("null", [""]),
    ],
)
def test_a_correction_that_is_not_of_the_elements_type_changes_nothing(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person, text: str, fields: list[str]
) -> None:
    job_id = submit(tenant, submitter, "bad")
    found = stopped(tenant, job_id, "read")
    with pytest.raises(InvalidCorrection) as refused:
        correct_item(item_id=found.pk, text=text, **by(operator, tenant))
    assert [p.field for p in refused.value.problems] == fields
    assert item(tenant, job_id, "read").state_name is ItemState.REFUSED
    with reading(tenant.pk):
        assert ItemInput.objects.filter(item=found).count() == 1
        assert not JournalEntry.objects.filter(job_id=job_id, event="item.corrected").exists()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("[]", [""]),
        ('{"nothing": 1}', ["nothing"]),
        ('{"letter": {"lines": "one"}, "read": [{}]}', ["letter.lines", "read.0.text"]),
    ],
)
def test_a_correction_of_arguments_names_every_wrong_one(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person, text: str, fields: list[str]
) -> None:
    job_id = submit(tenant, submitter, "one", closing="broken")
    found = stopped(tenant, job_id, "put-together")
    with pytest.raises(InvalidCorrection) as refused:
        correct_item(item_id=found.pk, text=text, **by(operator, tenant))
    assert [p.field for p in refused.value.problems] == fields


def test_a_correction_is_refused_with_a_sentence_where_it_makes_no_sense(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "bad", "one")
    found = stopped(tenant, job_id, "read")
    good = {"item_id": found.pk, "text": '{"text": "good"}'}
    for person, values, refusal, words in (
        (operator, {"text": '{"weight": 0.5, "text": "bad"}'}, NothingCorrected, "Nothing was changed"),
        (operator, {"seen": found.claim_no - 1}, ChangedMeanwhile, "tried again since"),
        (operator, {"reason": " "}, Unprocessable, "what was wrong"),
        (operator, {"attempts": 0}, Unprocessable, "between 1 and 20"),
        (submitter, {}, NotPermitted, "Only an operator"),
        (operator, {"item_id": item(tenant, job_id, "read", "2").pk}, CannotCorrect, "has not stopped"),
    ):
        with pytest.raises(refusal, match=words):
            correct_item(**{**by(person, tenant), **good, **values})
    given_up(tenant, job_id, operator)
    with pytest.raises(CannotCorrect, match="cancelled"):
        correct_item(**by(operator, tenant), **good)


def test_of_two_people_who_correct_at_once_one_is_told_that_it_goes_on(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    """Both lock the job; the second finds an item that is ready, or has been claimed since."""
    job_id = submit(tenant, submitter, "bad")
    found = stopped(tenant, job_id, "read")
    engine.request_stop()
    engine.join()
    asked = {"item_id": found.pk, "seen": found.claim_no, **by(operator, tenant)}
    answers = at_once(
        lambda: correct_item(**asked, text='{"text": "a"}'),
        lambda: correct_item(**asked, text='{"text": "b"}'),
    )
    assert sorted(type(a).__name__ for a in answers) == ["CannotCorrect", "Corrected"]
    with reading(tenant.pk):
        assert ItemInput.objects.filter(item=found).count() == 2


def test_a_skipped_item_is_left_out_of_what_later_steps_get(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "one", "bad", "three")
    found = stopped(tenant, job_id, "read", "2")
    skip_item(
        tenant_id=tenant.pk, item_id=found.pk, person_id=operator.pk, reason="not ours", now=timezone.now()
    )
    assert output(tenant, job_id, "put-together") == {"closing": "fine", "count": 2}
    assert item(tenant, job_id, "read", "2").state_name is ItemState.SKIPPED
    told = entry(tenant, job_id, "item.skipped")
    assert json.loads(told.evidence) == {
        "item": found.pk,
        "stage": "read",
        "key": "2",
        "reason": "not ours",
    }
    folds(tenant, job_id)


def test_a_skip_is_refused_where_the_step_or_the_item_does_not_allow_it(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "one", closing="broken")
    single = stopped(tenant, job_id, "put-together")
    done = item(tenant, job_id, "read")
    asked = {"tenant_id": tenant.pk, "reason": "x", "now": timezone.now()}
    for item_id, person, reason, refusal, words in (
        (single.pk, operator, "x", CannotSkip, "only an item of a fan-out"),
        (done.pk, operator, "x", CannotSkip, "has not stopped"),
        (single.pk, operator, "", Unprocessable, "without it"),
        (single.pk, submitter, "x", NotPermitted, "Only an operator"),
        (0, operator, "x", NothingToRetry, "no such step"),
    ):
        with pytest.raises(refusal, match=words):
            skip_item(**{**asked, "item_id": item_id, "person_id": person.pk, "reason": reason})
    assert item(tenant, job_id, "put-together").state_name is ItemState.REFUSED


def test_a_step_that_does_not_say_so_is_not_skipped(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit(tenant, submitter, "bad")
    found = stopped(tenant, job_id, "read")
    step = registry.current("test-letters").steps[1]
    object.__setattr__(step, "skippable", False)
    try:
        with pytest.raises(CannotSkip, match="does not allow “Read”"):
            skip_item(
                tenant_id=tenant.pk,
                item_id=found.pk,
                person_id=operator.pk,
                reason="x",
                now=timezone.now(),
            )
    finally:
        object.__setattr__(step, "skippable", True)


def test_a_redriven_job_goes_on_from_what_was_saved(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "one", "slow", "three")
    found = stopped(tenant, job_id, "read", "2")
    given_up(tenant, job_id, operator)
    before = saved(tenant, job_id)
    done = redrive_job(job_id=job_id, **by(operator, tenant))
    assert done == Redriven(job_id, 1, "VALIDATED")
    again = stopped(tenant, job_id, "read", "2")
    assert (again.state_name, again.attempts) == (ItemState.EXHAUSTED, found.attempts + 2)
    assert saved(tenant, job_id) == before
    with reading(tenant.pk):
        job = Job.objects.get(pk=job_id)
        assert (job.state, job.ended_at) == ("VALIDATED", None)
        tries = Attempt.objects.filter(item__job_id=job_id, item__stage__name="read").exclude(item=found.pk)
        assert [t.number for t in tries.order_by("item__ordinal")] == [1, 1]
    evidence = json.loads(entry(tenant, job_id, "job.redriven").evidence)
    assert evidence == {"attempts": 2, "items": 1, "reason": "it is right now", "stages": ["read"]}
    skip_item(tenant_id=tenant.pk, item_id=found.pk, person_id=operator.pk, reason="x", now=timezone.now())
    assert output(tenant, job_id, "put-together")["count"] == 2
    folds(tenant, job_id)


def test_a_result_that_was_under_way_when_the_job_failed_is_stale_after_the_redrive(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    """The first handler runs on while the job fails, is redriven, and the same process runs the item once more.

    The first answers while the second still runs, so that its answer must not be taken for the second's.
    """
    mending.GATES.update({1: threading.Event(), 2: threading.Event()})
    job_id = submit(tenant, submitter, "gate")
    eventually(lambda: _is_running(tenant, job_id, claim_no=1), what="the first handler")
    given_up(tenant, job_id, operator)
    redrive_job(job_id=job_id, **by(operator, tenant))
    eventually(lambda: _is_running(tenant, job_id, claim_no=2), what="the second handler")
    mending.GATES[1].set()
    with_outcome = eventually(lambda: _outcomes(tenant, job_id), what="the first answer")
    assert with_outcome == [(1, "stale")]
    assert _is_running(tenant, job_id, claim_no=2)
    mending.GATES[2].set()
    assert output(tenant, job_id, "read") == {"text": "GATE 2"}
    assert _outcomes(tenant, job_id) == [(1, "stale"), (2, "succeeded")]
    folds(tenant, job_id)


def _is_running(tenant: Tenant, job_id: int, *, claim_no: int) -> bool:
    with reading(tenant.pk):
        found = WorkItem.objects.filter(job_id=job_id, stage__name="read", claim_no=claim_no)
        return found.filter(state=ItemState.RUNNING.number).exists()


def _outcomes(tenant: Tenant, job_id: int) -> list[tuple[int, str]]:
    with reading(tenant.pk):
        rows = Attempt.objects.filter(item__job_id=job_id, item__stage__name="read")
        return list(rows.order_by("claim_no").values_list("claim_no", "outcome"))


def test_of_two_people_who_redrive_at_once_one_is_told_who_was_first(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    other = make_person(tenant, Role.OPERATOR)
    job_id = submit(tenant, submitter, "bad")
    stopped(tenant, job_id, "read")
    given_up(tenant, job_id, operator)
    answers = at_once(
        lambda: redrive_job(job_id=job_id, **by(operator, tenant)),
        lambda: redrive_job(job_id=job_id, **by(other, tenant)),
    )
    (refused,) = [a for a in answers if isinstance(a, Refused)]
    first = entry(tenant, job_id, "job.redriven").actor_name
    assert isinstance(refused, NotRedrivable)
    assert str(refused).startswith(f"{first} has redriven JOB-{job_id} already")
    with reading(tenant.pk):
        assert JournalEntry.objects.filter(job_id=job_id, event="job.redriven").count() == 1


def test_what_cannot_be_redriven_stays_as_it_is(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    open_job = submit(tenant, submitter, "bad")
    stopped(tenant, open_job, "read")
    cancelled = submit(tenant, submitter, "bad")
    stopped(tenant, cancelled, "read")
    cancel_job(tenant_id=tenant.pk, job_id=cancelled, person_id=submitter.pk, reason="x", now=timezone.now())
    failed = submit(tenant, submitter, "bad")
    stopped(tenant, failed, "read")
    given_up(tenant, failed, operator)
    for job_id, person, values, refusal, words in (
        (open_job, operator, {}, NotRedrivable, "only a failed job"),
        (cancelled, operator, {}, NotRedrivable, "is “Cancelled”"),
        (failed, submitter, {}, NotPermitted, "Only an operator"),
        (failed, operator, {"attempts": 21}, Unprocessable, "between 1 and 20"),
        (failed, operator, {"reason": ""}, Unprocessable, "should work now"),
    ):
        with pytest.raises(refusal, match=words):
            redrive_job(job_id=job_id, **by(person, tenant, **values))
    assert [state(tenant, j) for j in (open_job, cancelled, failed)] == ["VALIDATED", "CANCELLED", "FAILED"]


def test_a_job_that_was_never_valid_is_not_redriven(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "one")
    given_up(tenant, job_id, operator)
    with pytest.raises(NotRedrivable, match="never valid"):
        redrive_job(job_id=job_id, **by(operator, tenant))


def test_a_job_whose_steps_are_being_undone_is_not_redriven(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "bad")
    stopped(tenant, job_id, "read")
    given_up(tenant, job_id, operator)
    with as_owner(connection), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE workflows_workitem SET state = %s WHERE job_id = %s AND state = %s AND key = '1'",
            [ItemState.COMPENSATED.number, job_id, ItemState.SUCCEEDED.number],
        )
    with pytest.raises(NotRedrivable, match="undone"):
        redrive_job(job_id=job_id, **by(operator, tenant))


def test_a_redrive_gives_a_deadline_that_has_passed_its_whole_length_again(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "bad")
    stopped(tenant, job_id, "read")
    given_up(tenant, job_id, operator)
    now = timezone.now()
    with acting(tenant.pk):
        created = Job.objects.values_list("created_at", flat=True).get(pk=job_id)
        Job.objects.filter(pk=job_id).update(deadline_at=now - timedelta(microseconds=1))
    redrive_job(job_id=job_id, **by(operator, tenant, now=now))
    with reading(tenant.pk):
        watch = WorkItem.objects.get(job_id=job_id, stage__name="deadline")
        assert (watch.state_name, watch.next_attempt_at is not None) == (ItemState.BACKING_OFF, True)
        deadline = Job.objects.values_list("deadline_at", flat=True).get(pk=job_id)
    assert deadline == now + (now - timedelta(microseconds=1) - created)


def test_a_stage_that_was_done_before_the_end_is_not_opened_again(
    engine: Engine, tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = submit(tenant, submitter, "one", closing="broken")
    stopped(tenant, job_id, "put-together")
    with reading(tenant.pk):
        closed = dict(Stage.objects.filter(job_id=job_id, digest__gt="").values_list("name", "closed_at"))
    given_up(tenant, job_id, operator)
    redrive_job(job_id=job_id, **by(operator, tenant))
    with reading(tenant.pk):
        now_closed = Stage.objects.filter(job_id=job_id, closed_at__isnull=False)
        assert dict(now_closed.values_list("name", "closed_at")) == closed
    folds(tenant, job_id)
