"""What could not be undone by itself has a case with an owner, and ways on."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from access.refusals import Refused
from access.tenancy import reading
from reconciliation.actions import steps, undoing
from reconciliation.actions.working import EvidenceMissing, StaleCase
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind
from reconciliation.queries import CasePage, case_page
from tests.dispatch.world import as_engine, make_worker
from tests.support import eventually, forget_workflows
from tests.workflows.keeping import IN_REVERSE, Keep, Kept
from workflows import known
from workflows.actions.undo import Undone
from workflows.compensation import machine, plan
from workflows.compensation.plan import Standing
from workflows.engine.engine import Engine
from workflows.models import Lane, Worker, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


def stopped_at(keep: Keep, *names: str) -> Kept:
    """A given-up job whose handlers refuse these."""
    kept = keep()
    for name in names:
        kept.tell(f"refuse-{name}")
    kept.wait_until_stuck()
    kept.give_up()
    kept.wait(Standing.STOPPED)
    return kept


def cases(kept: Kept) -> list[Case]:
    with reading(kept.tenant.pk):
        return list(Case.objects.filter(job_id=kept.job_id, kind=CaseKind.NOT_UNDONE).order_by("pk"))


def open_case(kept: Kept) -> Case:
    (case,) = eventually(lambda: [c for c in cases(kept) if c.resolved_at is None], what="an open case")
    return case


def page(kept: Kept, case: Case) -> CasePage:
    with reading(kept.tenant.pk):
        return case_page(case.pk, kept.operator.pk, now=timezone.now())


def record(kept: Kept, case: Case, how: str, **changes: Any) -> str:
    values: dict[str, Any] = {
        "tenant_id": kept.tenant.pk,
        "case_id": case.pk,
        "person_id": kept.operator.pk,
        "version": case.version,
        "outcome": how,
        "evidence": "I took it off the shelf.",
        "source": "The shelf's log",
        "now": timezone.now(),
    }
    return undoing.record_undone(**{**values, **changes}).sentence


def test_what_cannot_be_undone_opens_one_case_that_names_it_and_its_owner(engine: Engine, keep: Keep) -> None:
    kept = stopped_at(keep, "part-2")
    case = open_case(kept)
    assert case.title == f"What JOB-{kept.job_id} made could not be undone: Part 2 of 3"
    assert (case.owner_role, case.blocking) == ("operator", False)
    verbs = {v.name: v.allowed for v in page(kept, case).verbs}
    assert verbs == {VerbName.RETRY: True, VerbName.RECORD_UNDONE: True}
    assert (kept.took(), kept.stands()) == (["note", "part-3"], ["part-1", "part-2", "shelf"])


def test_more_attempts_close_the_case_and_undo_the_rest(engine: Engine, keep: Keep) -> None:
    kept = stopped_at(keep, "part-2")
    case = open_case(kept)
    (kept.folder / "refuse-part-2").unlink()
    steps.retry(
        tenant_id=kept.tenant.pk, case_id=case.pk, person_id=kept.operator.pk, version=case.version, attempts=3,
        reason="The shelf is unlocked.", now=timezone.now(),
    )  # fmt: skip
    kept.wait(Standing.FINISHED)
    assert kept.took() == IN_REVERSE
    assert [c.resolution for c in cases(kept)] == ["tried again"]


def test_one_that_was_undone_by_hand_is_passed_and_the_others_are_undone(engine: Engine, keep: Keep) -> None:
    kept = stopped_at(keep, "part-2")
    case = open_case(kept)
    told = record(kept, case, Undone.THIS)
    kept.wait(Standing.FINISHED)
    assert told == "Recorded: this one was undone by hand. The machine goes on with the others."
    assert kept.took() == ["note", "part-3", "part-1", "shelf"]
    assert kept.items("part") == [ItemState.COMPENSATED] * 3
    assert [(c.resolution, c.resolved_by_id) for c in cases(kept)] == [(Undone.THIS, kept.operator.pk)]
    assert [e["how"] for e in kept.evidence("compensation.recorded")] == [Undone.THIS]


def test_all_that_is_left_can_be_undone_by_hand_at_once(engine: Engine, keep: Keep) -> None:
    kept = stopped_at(keep, "part-3")
    record(kept, open_case(kept), Undone.REST)
    assert kept.standing() is Standing.FINISHED
    assert kept.took() == ["note"]
    assert kept.items("part") + kept.items("shelf") == [ItemState.COMPENSATED] * 4
    assert kept.events()[-4:] == [
        "compensation.recorded",
        "step.compensated",
        "step.compensated",
        "compensation.finished",
    ]
    assert kept.evidence("compensation.finished") == [{"items": 5}]


def test_what_stays_as_it_is_is_said_to_stay(engine: Engine, keep: Keep) -> None:
    kept = stopped_at(keep, "part-3")
    record(kept, open_case(kept), Undone.STANDS)
    assert kept.standing() is Standing.FINISHED
    assert kept.items("part") == [ItemState.SUCCEEDED] * 3
    assert kept.evidence("compensation.finished") == [{"items": 1, "left_as_they_are": 4}]


def test_second_operator_is_told_who_was_first(engine: Engine, keep: Keep) -> None:
    kept = stopped_at(keep, "part-3")
    case = open_case(kept)
    record(kept, case, Undone.STANDS)
    with pytest.raises(StaleCase, match="resolved RC-"):
        record(kept, case, Undone.REST)
    assert kept.evidence("compensation.recorded")[-1]["how"] == Undone.STANDS


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"outcome": "gone"}, EvidenceMissing),
        ({"evidence": " "}, EvidenceMissing),
        ({"source": ""}, EvidenceMissing),
    ],
)
def test_word_without_evidence_changes_nothing(
    engine: Engine, keep: Keep, changes: dict[str, str], refusal: type[Refused]
) -> None:
    kept = stopped_at(keep, "part-3")
    case = open_case(kept)
    with pytest.raises(refusal):
        record(kept, case, Undone.REST, **changes)
    assert (kept.standing(), open_case(kept).version) == (Standing.STOPPED, case.version)


def test_missing_revision_has_a_case_that_closes_when_it_is_back(
    engine: Engine, keep: Keep, settings: Any, monkeypatch: Any
) -> None:
    kept = keep()
    kept.wait_until_stuck()
    monkeypatch.setattr(machine, "LOOK_AGAIN", machine.SOON)
    settings.COUNTERFOIL_REVISION_GRACE_SECONDS = 0.0  # the worker has said that it has it
    deployed, settings.COUNTERFOIL_WORKFLOWS = settings.COUNTERFOIL_WORKFLOWS, []
    forget()
    kept.cancel()
    case = open_case(kept)
    assert case.title.endswith(f"is not deployed: what JOB-{kept.job_id} made is not undone yet")
    verbs = {v.name: v.why_not for v in page(kept, case).verbs}
    assert verbs[VerbName.RETRY].endswith("it has not stopped.")
    assert verbs[VerbName.RECORD_UNDONE] == ""

    settings.COUNTERFOIL_WORKFLOWS = deployed
    forget()
    kept.wait(Standing.FINISHED)
    assert kept.took() == IN_REVERSE
    assert [c.resolution for c in cases(kept)] == ["went on"]
    with pytest.raises(StaleCase):
        record(kept, case, Undone.REST)


def forget() -> None:
    forget_workflows()


def test_undoing_is_left_to_a_worker_that_has_the_revision(engine: Engine, keep: Keep, settings: Any) -> None:
    """Of two workers the one that lacks it meets the job first: no case, and the other one undoes what was made."""
    kept = keep()
    kept.wait_until_stuck()
    known.remember()
    other = a_worker_that_has_all()
    deployed, settings.COUNTERFOIL_WORKFLOWS = settings.COUNTERFOIL_WORKFLOWS, []
    forget()
    kept.cancel()
    eventually(lambda: set_apart(kept), what="the machine's item in a lane of its own")
    assert [c.kind for c in cases(kept) if c.resolved_at is None] == []
    assert "compensation.blocked" not in kept.events()

    settings.COUNTERFOIL_WORKFLOWS = deployed
    forget()
    kept.wait(Standing.FINISHED)
    assert kept.took() == IN_REVERSE
    assert Worker.objects.filter(pk=other).exists()


def a_worker_that_has_all() -> int:
    """Another worker, alive, that says it can run every known definition."""
    made = make_worker("other")
    as_engine(
        "UPDATE workflows_worker SET revisions = (SELECT array_agg(id) FROM workflows_knownrevision) WHERE id = %s",
        [made.pk],
    )
    return int(made.pk)


def set_apart(kept: Kept) -> bool:
    with reading(kept.tenant.pk):
        lanes = Lane.objects.filter(revision__isnull=False).values("pk")
        return WorkItem.objects.filter(
            job_id=kept.job_id, stage__name=plan.MACHINE, lane_id__in=lanes
        ).exists()
