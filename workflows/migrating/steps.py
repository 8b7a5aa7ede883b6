"""What becomes of each step of a job, in the order of the later revision.

The first step that is not kept whole is where the job goes on. What is kept behind it waits there until its turn
comes; a half done fan-out cannot, since it is open already, and neither can a proposal's draft.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from django.db.models import Count, Q

from workflows.asides import UNFINISHED
from workflows.authoring.migrations import Migration, Origin
from workflows.authoring.steps import VALIDATE_STAGE, Step
from workflows.kinds import NOT_STEPS, StageKind
from workflows.migrating import elements
from workflows.migrating.plan import Becomes, Keep, Plan, StepFate
from workflows.migrating.results import (
    Listing,
    Misfits,
    Unfit,
    fate_of,
    first_of,
    fitted,
    in_the_way,
    saved_in,
)
from workflows.models import Job, KnownRevision, Stage, WorkItem
from workflows.states import ItemState

_KEEPS = (Becomes.KEPT, Becomes.CONVERTED)


@dataclass(frozen=True, slots=True)
class Earlier:
    """One stage that the job has, with its items: done, not done, how many of those have run, whether some wait."""

    stage: Stage
    done: int
    left: int
    tried: int
    waits: bool

    @property
    def title(self) -> str:
        """Its name in words."""
        return self.stage.name.replace("-", " ").capitalize()


def look_at_steps(job: Job, migration: Migration, plan: Plan) -> None:
    """Fill in the plan's steps, and what is to be done with each stage."""
    _Look(job, migration, plan, _earlier(job), _undone(job)).look()


def _earlier(job: Job) -> dict[str, Earlier]:
    rows = WorkItem.objects.filter(job=job).values_list("stage").order_by()
    counted = rows.annotate(
        done=Count("pk", filter=Q(state=ItemState.SUCCEEDED.number)),
        left=Count("pk", filter=Q(state__in=UNFINISHED)),
        tried=Count("pk", filter=Q(state__in=UNFINISHED, attempts__gt=0)),
        waiting=Count("pk", filter=Q(state=ItemState.WAITING.number)),
    )
    counts = {stage: numbers for stage, *numbers in counted}
    found = {}
    for stage in Stage.objects.filter(job=job).exclude(kind__in=NOT_STEPS).order_by("ordinal", "pk"):
        done, left, tried, waiting = counts.get(stage.pk, (0, 0, 0, 0))
        # What stopped in a stage that was closed without it is not waited for any more.
        found[stage.name] = Earlier(stage, done, 0 if stage.closed_at else left, tried, waiting > 0)
    return found


def _undone(job: Job) -> frozenset[str]:
    """The steps that the job's own revision says how to undo."""
    known = KnownRevision.objects.filter(
        workflow=job.workflow, revision=job.revision, digest=job.configuration_digest
    ).first()
    described = json.loads(known.described) if known is not None and known.described else {}
    return frozenset(described.get("compensations", []))


@dataclass
class _Look:
    """One look at a job's steps."""

    job: Job
    migration: Migration
    plan: Plan
    earlier: dict[str, Earlier]
    undone: frozenset[str]
    behind: str = ""
    """The title of a step that has to run, once there is one."""

    texts: dict[str, str] = field(default_factory=dict)
    """The results of single steps as they will be, by the later step."""

    def look(self) -> None:
        self._validation()
        for step in self.plan.target.steps:
            origin = self.migration.origin_of(step)
            found = self._take(step, origin)
            fate = self._fate(step, origin, found)
            self._go_on(step, fate)
            self.plan.steps.append(_listed(fate, found))
        self.plan.steps += [_listed(self._without_a_step(e), e) for e in self.earlier.values()]

    def _validation(self) -> None:
        """A validation that is not through is made by the later revision."""
        found = self.earlier.pop(VALIDATE_STAGE, None)
        if found is not None and found.stage.closed_at is None:
            self.plan.validates = True
            self.plan.aside.append(found.stage.pk)

    def _take(self, step: Step, origin: Origin) -> Earlier | None:
        """The earlier stage that a step of the later revision has something to do with."""
        elsewhere = any(o.was == step.name for name, o in self.migration.origins.items() if name != step.name)
        name = step.name if origin.again and not elsewhere else origin.was
        return self.earlier.pop(name, None)

    def _go_on(self, step: Step, fate: StepFate) -> None:
        if self.behind or self.plan.validates:
            return
        if fate.becomes in (Becomes.AGAIN, Becomes.NEW):
            self.behind, self.plan.first = step.title, step
        elif fate.left:
            self.behind = step.title

    def _fate(self, step: Step, origin: Origin, found: Earlier | None) -> StepFate:
        if found is None:
            return StepFate(step.name, step.title, Becomes.NEW)
        if found.waits:
            return _in_the_way(step, "It waits for something: migrate the job when that has come.")
        if origin.again or not found.done:
            return self._again(step, found)
        if found.stage.kind != step.kind:
            return _in_the_way(
                step, "A single step cannot become a fan-out, nor the other way round: let it run again."
            )
        if self.behind and step.kind is StageKind.PROPOSE and step.name not in self.migration.origins:
            return self._again(step, found)  # a draft follows from what comes before it
        if self.behind and (found.left or step.kind is StageKind.PROPOSE):
            return _in_the_way(
                step, f"“{self.behind}” has to run before it, so it cannot be kept: let it run again."
            )
        if found.stage.name in self.undone and step.name not in self.plan.target.compensations:
            return _in_the_way(
                step, f"Revision {self.job.revision} says how to undo it, and the new one does not."
            )
        if found.left and found.tried and found.stage.name in self.undone:
            return _in_the_way(
                step, "What has begun of it may have to be undone: migrate the job when it is done."
            )
        return self._kept(step, origin, found)

    def _again(self, step: Step, found: Earlier) -> StepFate:
        if (found.done or found.tried) and found.stage.name in self.undone:
            return _in_the_way(step, _COULD_NOT_BE_UNDONE.format(self.job.revision))
        self.plan.aside.append(found.stage.pk)
        return StepFate(step.name, step.title, Becomes.AGAIN, was=found.stage.name, saved=found.done)

    def _without_a_step(self, found: Earlier) -> StepFate:
        fate = StepFate(found.stage.name, found.title, Becomes.ASIDE, saved=found.done)
        if found.waits:
            return replace(
                fate, becomes=Becomes.IN_THE_WAY, why="It waits for something: migrate the job after that."
            )
        if (found.done or found.tried) and found.stage.name in self.undone:
            return replace(
                fate, becomes=Becomes.IN_THE_WAY, why=_COULD_NOT_BE_UNDONE.format(self.job.revision)
            )
        self.plan.aside.append(found.stage.pk)
        return fate

    # -- what is kept --------------------------------------------------------------------------------------------
    def _kept(self, step: Step, origin: Origin, found: Earlier) -> StepFate:
        """A step whose results stay, once each of them has been looked at."""
        misfits, listing, seen = Misfits(), Listing(), 0
        for saved in saved_in(found.stage):
            seen = max(seen, saved.checkpoint_id)
            try:
                text, digest = fitted(self.plan.target, step, saved, origin.convert)
            except Unfit as unfit:
                misfits.add(str(unfit))
                listing.add(in_the_way(saved, unfit))
                continue
            listing.add(fate_of(saved, origin.convert, text))
            if text:
                self.plan.converted.add(found.stage.pk, saved.item_id, saved.key, text, digest)
            if step.kind is not StageKind.EACH:
                self.texts[step.name] = text or saved.output
        if misfits.count:
            return _in_the_way(step, misfits.sentence, listing)
        if found.left and (why := self._elements(step, found.stage)):
            return _in_the_way(step, f"It is half done, and {why}: let it run again.")
        self.plan.keeps.append(
            Keep(found.stage.pk, found.stage.name, step, origin.convert, partly=found.left > 0, seen=seen)
        )
        becomes = Becomes.CONVERTED if origin.convert else Becomes.KEPT
        return StepFate(
            step.name, step.title, becomes, was=found.stage.name, saved=found.done, left=found.left,
            results=listing.shown,
        )  # fmt: skip

    def _elements(self, step: Step, stage: Stage) -> str:
        """Note what the rest of a half done fan-out works on; why it cannot, or nothing."""
        try:
            for element in self._elements_of(step, stage):
                elements.check(step, element)
                self.plan.elements.add(stage.pk, element.key, element.ordinal, element.value)
        except Unfit as unfit:
            return str(unfit)
        return ""

    def _elements_of(self, step: Step, stage: Stage) -> Iterator[elements.Element]:
        assert step.each is not None
        source = next((k for k in self.plan.keeps if k.step.name == step.each.step), None)
        if source is None or source.convert is None:
            return elements.as_they_are(stage)
        if step.each.field:
            return elements.from_source(stage, elements.by_key(step, self.texts[step.each.step]))
        results = {
            str(key): str(text)
            for chunk in self.plan.converted.chunks()
            for of, _, key, text, _ in chunk
            if of == source.stage_id
        }
        return elements.from_source(stage, results)


_COULD_NOT_BE_UNDONE = (
    "Revision {} says how to undo it, which could not be done any more: keep or convert it."
)


def _in_the_way(step: Step, why: str, listing: Listing | None = None) -> StepFate:
    results = listing.shown if listing else ()
    return StepFate(step.name, step.title, Becomes.IN_THE_WAY, why=why, results=results)


def _listed(fate: StepFate, found: Earlier | None) -> StepFate:
    """The fate with the first of what was saved, where its results were not looked at one by one, and how many are more."""
    if found is None:
        return fate
    results = fate.results or first_of(found.stage, fate.becomes)
    return replace(fate, results=results, unlisted=max(0, found.done - len(results)))
