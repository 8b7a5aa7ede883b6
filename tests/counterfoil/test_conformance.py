"""The kit is faithful: the same workflow, answers and faults through it and through a real engine, database, receiver
and provider end the same, item by item, send by send, event by event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.utils import timezone

from access.tenancy import reading
from approvals.actions.decide import record_decision
from approvals.models import Proposal
from counterfoil.testing import Fate, Kit, Policy, Receiver, Reply, Run, Script
from dispatch.contracts import Timeouts
from tests.counterfoil.conftest import Installation
from tests.counterfoil.contracts import contract
from tests.counterfoil.sameness import Before, Seen, of_installation, of_kit
from tests.counterfoil.workflows import sheets
from tests.support import eventually
from workflows.actions.submit import submit_job
from workflows.authoring import Prompt
from workflows.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

FAULTS: dict[Fate, dict[str, Any]] = {
    Fate.TIMEOUT_BUT_DONE: {"kind": "slow", "seconds": 1.5},
    Fate.NEVER_ANSWERS: {"kind": "reset"},
    Fate.BUSY: {"kind": "status_429", "retry_after": "0"},
    Fate.BROKEN: {"kind": "status_500"},
    Fate.DIFFERS: {"kind": "differs", "field": "travel", "value": "99"},
    Fate.LATER: {"kind": "accepted_202"},
}
"""The simulated receiver's fault that is the same fate to a sender."""


@dataclass(frozen=True)
class Story:
    """One run: what is submitted, what the model says of each line, what becomes of the sends, what people do."""

    name: str
    lines: tuple[str, ...] = ("A train", "A pen")
    says: dict[str, list[Any]] = field(default_factory=dict)
    receiver: str = "keyed"
    fates: tuple[Fate, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    verdicts: tuple[str, ...] = ("approve",)

    @property
    def value(self) -> dict[str, Any]:
        return {"reference": "S-1", "lines": list(self.lines), **self.more}


STORIES = [
    Story("everything goes well"),
    Story("the input is refused", lines=(), verdicts=()),
    Story("the model is asked again", lines=("A train", "later", "A pen")),
    Story(
        "the model answers nonsense first",
        says={"A pen": ["no idea", '{"kind": "travel", "kind": "office"}', {"kind": "office"}]},
    ),
    Story("a line cannot be sorted", lines=("A train", "permanent", "A pen"), verdicts=()),
    Story("a line never gets sorted", lines=("never", "A pen"), verdicts=()),
    Story("the draft cannot be frozen", more={"amount": "1.234"}, verdicts=()),
    Story("two have to sign", policy=Policy(quorum=2), verdicts=("approve", "approve")),
    Story("nobody has to sign", policy=Policy(waives_approval=True), verdicts=()),
    Story("it is rejected", verdicts=("reject",)),
    Story("changes are asked for", verdicts=("request changes",)),
    Story("three records in order", more={"records": ["A-1", "A-2", "A-3"]}),
    Story("the receiver refuses", more={"odd_limit": "a lot"}, fates=(Fate.REFUSE,)),
    Story(
        "the second of three is refused", receiver="lookup", more={"records": ["A-1", "A-2", "A-3"]},
        fates=(Fate.OK, Fate.DIFFERS),
    ),
    *(
        Story(f"{fate.value} under {name}", receiver=name, fates=(fate,))
        for name in ("keyed", "lookup", "neither")
        for fate in FAULTS
    ),
]  # fmt: skip


QUICK = (
    "everything goes well",
    "the model answers nonsense first",
    "a line cannot be sorted",
    "two have to sign",
    "it is rejected",
    "timeout but done under keyed",
)
"""Told in every run of the tests; the others in the long proofs."""


@pytest.mark.parametrize(
    "story",
    [pytest.param(s, id=s.name, marks=() if s.name in QUICK else pytest.mark.long) for s in STORIES],
)
def test_the_kit_and_an_installation_come_to_the_same(story: Story, installation: Installation) -> None:
    receiver = Receiver("ledger", _contract(story.receiver), fates=story.fates)
    run = Kit(sheets, policy=story.policy).submit(
        story.value, provider=Script(_model(story)), receivers=[receiver]
    )
    for verdict in story.verdicts:
        _VERDICTS[verdict](run)
    expected = of_kit(run, receiver)

    since = Before.now(installation.erp)
    job_id = _real(story, installation)
    for number, verdict in enumerate(story.verdicts):
        decide(installation, job_id, number, verdict)

    def seen() -> Seen:
        return of_installation(installation.tenant.pk, job_id, installation.erp, since=since)

    try:
        eventually(lambda: seen() == expected, seconds=20)
    except AssertionError:
        assert seen() == expected  # pytest shows the difference


def _contract(name: str) -> Any:
    """The simulated receiver's promises, with waits that a test can sit out."""
    made = contract(name, in_flight_max=0.0, timeouts=Timeouts(connect=1, read=0.5, write=1, send_window=0.9))
    if made.lookup is None:
        return made
    quick = {"schedule": (0.1, 0.2)}
    return made.model_copy(update={"lookup": made.lookup.model_copy(update=quick)})


def _model(story: Story) -> Callable[[Prompt], Any]:
    left = {text: list(said) for text, said in story.says.items()}

    def answer(prompt: Prompt) -> Reply:
        line = prompt.text.splitlines()[-1]
        said = left.get(line)
        return Reply(said.pop(0) if said else _kind(line), 100, 10)

    return answer


def _kind(line: str) -> dict[str, str]:
    return {"kind": "office" if "pen" in line else "travel"}


def _rules(story: Story) -> list[dict[str, Any]]:
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    scripted = [
        {"match": {"contains": line}, "answer": said, "usage": usage, "times": 1}
        for line, several in story.says.items()
        for said in several
    ]
    plain = [{"match": {"contains": line}, "answer": _kind(line), "usage": usage} for line in story.lines]
    return scripted + plain


def _real(story: Story, on: Installation) -> int:
    on.provider.set_script(*_rules(story))
    on.receiver("ledger", _contract(story.receiver))
    on.policy("sheets", quorum=story.policy.quorum, waives_approval=story.policy.waives_approval)
    for number, fate in enumerate(story.fates):
        if fate in FAULTS:
            record = f"/{story.receiver}/records/A-{number + 1}"
            on.erp.set_fault(**FAULTS[fate], path=record)
    return submit_job(
        tenant_id=on.tenant.pk, workflow=sheets.name, value=story.value, submission_key="story",
        person_id=on.submitter.pk, source="test", now=timezone.now(),
    ).job_id  # fmt: skip


_VERDICTS: dict[str, Callable[[Run], Run]] = {
    "approve": lambda run: run.approve(),
    "reject": lambda run: run.reject("because"),
    "request changes": lambda run: run.ask_for_changes("because"),
}


def decide(on: Installation, job_id: int, number: int, verdict: str) -> None:
    def awaiting() -> Proposal | None:
        with reading(on.tenant.pk):
            state = Job.objects.values_list("state", flat=True).get(pk=job_id)
            return Proposal.objects.filter(job_id=job_id).last() if state == "AWAITING_APPROVAL" else None

    proposal = eventually(awaiting, what="a proposal")
    assert proposal is not None
    record_decision(
        tenant_id=on.tenant.pk, proposal_id=proposal.pk, person_id=on.managers[number].pk, verdict=verdict,
        digest=proposal.digest, now=timezone.now(), reason="because",
    )  # fmt: skip
