"""Playing the example jobs side by side: submit each once, then have people do the next thing until it has got there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from access.refusals import Refused
from access.tenancy import reading
from approvals.actions.decide import record_decision
from approvals.models import Decision, Proposal, Verdict
from examples.management.sample import SUBMITTER, Sample
from workflows.actions.keep_file import keep_file
from workflows.actions.submit import ReferenceTaken, submit_job
from workflows.models import Job, JournalEntry, WorkItem
from workflows.states import STUCK_ITEM_STATES

LONGEST_SECONDS = 40.0
LOOK_EVERY = 0.1
STUCK = [s.number for s in STUCK_ITEM_STATES]

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Scene:
    """One story's job as it stands, and who can act on it."""

    sample: Sample
    job: Job
    now: datetime

    def approve(self, *handles: str) -> None:
        """Have these people approve the open proposal, each at most once."""
        with reading(self.sample.tenant_id):
            proposal = Proposal.objects.filter(job=self.job, closed_at__isnull=True).first()
            decided = set(
                Decision.objects.filter(proposal__job=self.job).values_list("person_name", flat=True)
            )
        for handle in handles:
            if proposal is not None and handle not in decided:
                record_decision(
                    tenant_id=self.sample.tenant_id,
                    proposal_id=proposal.pk,
                    person_id=self.sample.people[handle],
                    verdict=Verdict.APPROVE,
                    digest=proposal.digest,
                    now=self.now,
                )

    def has_decisions(self) -> bool:
        with reading(self.sample.tenant_id):
            return Decision.objects.filter(proposal__job=self.job).exists()

    def has_event(self, event: str) -> bool:
        with reading(self.sample.tenant_id):
            return JournalEntry.objects.filter(job=self.job, event=event).exists()

    def is_stuck(self) -> bool:
        with reading(self.sample.tenant_id):
            return WorkItem.objects.filter(job=self.job, state__in=STUCK).exists()


GoOn = Callable[[Scene], bool]


@dataclass(frozen=True)
class Story:
    """One example job. `prepare` runs once, just before its first submission."""

    key: str
    what: str
    workflow: str
    value: dict[str, Any]
    go_on: GoOn
    prepare: Callable[[], object] = field(default=lambda: None)
    file: Callable[[], tuple[str, bytes]] | None = None
    """A file with its name, which the value's field "document" then names."""


def play(
    sample: Sample, stories: Sequence[Story], *, now: Clock, seconds: float = LONGEST_SECONDS
) -> dict[str, str]:
    """Submit stories and drive them side by side; by key, what could not be reached in time and why."""
    deadline = time.monotonic() + seconds
    jobs: dict[str, int] = {}
    missed: dict[str, str] = {}
    waiting = list(stories)
    while waiting:
        for story in list(waiting):
            if _go_on(sample, story, jobs, missed, now()):
                waiting.remove(story)
        if time.monotonic() > deadline:
            break
        time.sleep(LOOK_EVERY)
    return missed


def _go_on(sample: Sample, story: Story, jobs: dict[str, int], missed: dict[str, str], now: datetime) -> bool:
    """Whether the story has ended, well or (somebody was refused) not; else why it has not is kept in `missed`."""
    try:
        if story.key not in jobs:
            jobs[story.key] = _submit(sample, story, now)
        with reading(sample.tenant_id):
            job = Job.objects.get(pk=jobs[story.key])
        missed[story.key] = f"{job.label} is still {job.state}"
        there = story.go_on(Scene(sample, job, now))
    except Refused as refused:
        missed[story.key] = str(refused)
        return True
    except OSError as away:
        missed[story.key] = f"a simulator does not answer ({away})"
        return False
    if there:
        del missed[story.key]
    return there


def _submit(sample: Sample, story: Story, now: datetime) -> int:
    with reading(sample.tenant_id):
        known = Job.objects.filter(workflow=story.workflow, submission_key=story.key).first()
    if known is not None:
        return known.pk
    story.prepare()
    value = (
        story.value if story.file is None else {**story.value, "document": _keep(sample, *story.file(), now)}
    )
    try:
        return submit_job(
            tenant_id=sample.tenant_id,
            workflow=story.workflow,
            value=value,
            submission_key=story.key,
            person_id=sample.people[SUBMITTER],
            source="examples",
            now=now,
        ).job_id
    except ReferenceTaken as taken:
        return taken.job_id


def _keep(sample: Sample, name: str, content: bytes, now: datetime) -> str:
    person = sample.people[SUBMITTER]
    return keep_file(tenant_id=sample.tenant_id, name=name, content=content, person_id=person, now=now).digest
