"""One job beside its steps: the path it took, its operations, what a cancel would mean, who may do what."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from access.roles import Role
from approvals.models import Proposal
from console import words
from console.queries.standing import Sign, cause_words, sign_of_job, with_standing
from console.words import several
from dispatch import fates as dispatch_fates
from dispatch.fates import Fate as FateWord
from dispatch.fates import FateOf
from workflows import hooks, rerunning
from workflows.actions.cancel import AlreadyEnded
from workflows.actions.redrive import why_not_redrive
from workflows.compensation.plan import steps_to_undo
from workflows.kinds import NOT_STEPS, StageKind
from workflows.locks import NoSuchJob
from workflows.migrating.planning import MIGRATABLE, targets_of
from workflows.models import Job, JournalEntry, Stage, WorkItem
from workflows.states import BEFORE_SENDING, ENDED, OPEN_ITEM_STATES, STUCK_ITEM_STATES, JobState

PATH = (
    JobState.RECEIVED,
    JobState.VALIDATED,
    JobState.PROPOSED,
    JobState.AWAITING_APPROVAL,
    JobState.READY_TO_COMMIT,
    JobState.SUBMITTED,
    JobState.CONFIRMED,
)
NAMED, FEW = 3, 20
OFF_PATH = (JobState.FAILED, JobState.CANCELLED, JobState.NEEDS_RECONCILIATION)


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of the rail. `at` is "past", "here" or "" for what lies ahead; `since` is when it was last entered."""

    sign: Sign
    at: str = ""
    since: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fate:
    """One of the four fates of a cancel: always named, with what it covers."""

    title: str
    mark: str
    count: int
    sentence: str


_MARKS = {
    FateWord.STOPPED: "done",
    FateWord.REVERSED: "confirmed",
    FateWord.STANDS: "no",
    FateWord.CHECKING: "unknown",
}


@dataclass(frozen=True, slots=True)
class Became:
    """The fate of one operation of an ended job, with its mark."""

    of: FateOf
    mark: str


@dataclass(frozen=True, slots=True)
class Permission:
    """Who may do what to this job now. `you` marks the roles of whoever looks."""

    who: str
    what: str


@dataclass(frozen=True, slots=True)
class Redriving:
    """`why_not` is empty where the job can be redriven."""

    why_not: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """What one step did before a migration that did not keep it, or before it was run again."""

    stage_id: int
    title: str


def job_of(job_id: int) -> Job:
    """The job with what `sign_of_job` reads, or NoSuchJob. Its input is read when it is asked for: it can be long."""
    jobs = Job.objects.filter(pk=job_id).select_related("submitted_by").defer("input")
    job = with_standing(jobs).first()
    if job is None:
        raise NoSuchJob(f"There is no job {job_id} here.")
    return job


def rail(job: Job) -> list[Stop]:
    """The path taken, here, and what lies ahead on the shortest way to CONFIRMED. One query."""
    entered: dict[str, datetime] = {}
    visits: dict[str, int] = defaultdict(int)
    for state, at in (
        JournalEntry.objects.filter(job=job)
        .exclude(to_state="")
        .order_by("sequence")
        .values_list("to_state", "at")
    ):
        entered[state] = at
        visits[state] += 1
    path = [s for s in PATH if not (job.state in ENDED and s not in entered)]
    if job.state not in path:
        path = [s for s in path if s in entered]
    reached = path.index(JobState(job.state)) if job.state in path else len(path)
    stops = [
        _stop(job, state, place, reached, entered.get(state), visits[state])
        for place, state in enumerate(path)
    ]
    if job.state not in path:
        stops.append(Stop(sign_of_job(job), "here", entered.get(job.state)))
        if job.state == JobState.NEEDS_RECONCILIATION:
            stops.append(Stop(Sign(JobState.CONFIRMED)))
    return stops


def _stop(job: Job, state: JobState, place: int, reached: int, at: datetime | None, visits: int) -> Stop:
    note = f"{visits} times" if visits > 1 else ""
    if place < reached:
        return Stop(Sign(state), "past" if at else "skipped", at, note)
    if place == reached:
        return Stop(sign_of_job(job), "here", at, note)
    return Stop(Sign(state))


def off_path(job: Job) -> list[Sign]:
    """Where an open job can still end beside the path."""
    return [] if job.state in ENDED else [Sign(s) for s in OFF_PATH if s != job.state]


def why_waiting(job: Job) -> str:
    """One sentence on what an open job waits for, or ""."""
    if job.state in ENDED:
        return ""
    said = hooks.why_waiting(job)
    if said:
        return f"{said[0].upper()}{said[1:]}{'' if said.endswith(('.', '?', '!', '…')) else '.'}"
    if job.held_at is not None:
        return f"Held by {job.held_by}: {job.hold_reason or 'no reason was given'}. No clock stops."
    if job.state == JobState.NEEDS_RECONCILIATION:
        return f"{cause_words(job)}. An operator has to find out what became of it."
    return ""


def proposals_of(job: Job) -> list[Proposal]:
    """Every proposal of the job, newest first."""
    return list(Proposal.objects.filter(job=job).defer("document").order_by("-number"))


def fates(job: Job) -> list[Fate]:
    """What a cancel would leave now, always in the four words. Reversal is a new proposal, never a side effect."""
    steps = (
        WorkItem.objects.filter(
            job=job, state__in=[s.number for s in (*OPEN_ITEM_STATES, *STUCK_ITEM_STATES)]
        )
        .exclude(stage__kind__in=NOT_STEPS)
        .count()
    )
    found: dict[FateWord, list[FateOf]] = defaultdict(list)
    for fate in dispatch_fates.fates(job):
        found[fate.fate].append(fate)
    unsent = len(found[FateWord.STOPPED])
    return [
        Fate(FateWord.STOPPED, _MARKS[FateWord.STOPPED], steps + unsent, _stopped(job, steps, unsent)),
        _fate(FateWord.REVERSED, found, "None: cancelling takes nothing back by itself."),
        _fate(FateWord.STANDS, found, "None: nothing is known to have been applied."),
        _fate(FateWord.CHECKING, found, "None: no outcome is open."),
    ]


def became(job: Job) -> list[Became]:
    """What became of each operation of a job that has ended, in the four words; of the first few where they are many."""
    if job.state not in ENDED:
        return []
    return [Became(f, _MARKS[f.fate]) for f in dispatch_fates.fates(job)[:FEW]]


def _fate(word: FateWord, found: dict[FateWord, list[FateOf]], none: str) -> Fate:
    rows = found[word]
    said = " ".join(f"{row.label}: {row.sentence}" for row in rows[:NAMED])
    more = f" And {several(len(rows) - NAMED, 'other')}." if len(rows) > NAMED else ""
    return Fate(word, _MARKS[word], len(rows), said + more if rows else none)


def _stopped(job: Job, steps: int, unsent: int) -> str:
    parts = []
    if steps:
        parts.append(f"{several(steps, 'open step does', 'open steps do')} not run")
    if job.state in BEFORE_SENDING[:3]:
        parts.append("nothing is proposed and nothing is sent")
    elif job.state in BEFORE_SENDING:
        parts.append("the proposal is void and nothing is sent")
    elif unsent:
        parts.append(f"{several(unsent, 'operation is', 'operations are')} not sent or without effect")
    if made := _made(job):
        parts.append(f"what was made by {made} is undone, unless something was applied")
    said = ", ".join(parts) or "nothing is left to stop"
    return f"{said[0].upper()}{said[1:]}."


def _made(job: Job) -> str:
    """The steps whose results an end without effect would undo, by title."""
    definition = words.definition_of(job.workflow, job.revision)
    planned = steps_to_undo(job, definition) if definition is not None else []
    return " and ".join(f"“{words.stage_title(definition, s.name)}”" for s in planned)


def may_hold(roles: frozenset[Role]) -> bool:
    """Holding and lifting a hold."""
    return not roles.isdisjoint({Role.ADMIN, Role.OPERATOR})


def may_cancel(job: Job, roles: frozenset[Role], person_id: int) -> bool:
    """As the action will decide it again under the lock."""
    own = job.submitted_by_id == person_id and Role.SUBMITTER in roles and job.state in BEFORE_SENDING[:-1]
    return job.state not in ENDED and (Role.ADMIN in roles or own)


def redriving(job: Job, roles: frozenset[Role]) -> Redriving | None:
    """Whether a failed job can be redriven, for an operator; None where there is nothing to say about it."""
    if job.state != JobState.FAILED or Role.OPERATOR not in roles:
        return None
    return Redriving(why_not_redrive(job))


def may_migrate(job: Job, roles: frozenset[Role]) -> bool:
    """Whether an operator can take the job to another revision, as far as the job and what is loaded here say."""
    return Role.OPERATOR in roles and job.state in MIGRATABLE and bool(targets_of(job))


def may_run_again(job: Job, roles: frozenset[Role], person_id: int) -> bool:
    """As the action asks who may: an operator, or the submitter of the job."""
    return Role.OPERATOR in roles or (job.submitted_by_id == person_id and Role.SUBMITTER in roles)


def runs_again(job: Job, roles: frozenset[Role], person_id: int) -> bool:
    """Whether steps can be run again now, by whoever looks."""
    return may_run_again(job, roles, person_id) and not rerunning.why_not(job)


def set_aside(job: Job) -> list[SetAside]:
    """What migrations and runs anew have set aside, oldest first. One query."""
    stages = Stage.objects.filter(job=job, kind=StageKind.SET_ASIDE).order_by("pk")
    definition = words.definition_of(job.workflow, job.revision)
    return [SetAside(s.pk, words.stage_title(definition, s.name)) for s in stages]


def refuse_ended(job: Job) -> None:
    """AlreadyEnded for a job that cannot be cancelled any more, so that nobody fills in a form in vain."""
    if job.state in ENDED:
        raise AlreadyEnded(f"{job.label} has already ended; nothing was stopped.")


def permissions(job: Job, roles: frozenset[Role], person_id: int, *, again: bool = False) -> list[Permission]:
    """Who can do what, first whoever looks. `again`: whether they can run steps again now."""
    yours = []
    if job.state not in ENDED and may_hold(roles):
        yours.append("lift the hold" if job.held_at else "hold this job")
    if may_cancel(job, roles, person_id):
        yours.append("cancel it")
    if again:
        yours.append("run its steps again")
    if job.state == JobState.FAILED and Role.OPERATOR in roles:
        yours.append("redrive it, if nothing of it was applied")
    who = "You, " + ", ".join(sorted(r.value for r in roles))
    what = " and ".join(yours) or "read everything here"
    said = [Permission(who, what[0].upper() + what[1:])]
    if job.state == JobState.FAILED and Role.OPERATOR not in roles:
        said.append(Permission("An operator", "Redrive it, if nothing of it was applied"))
    if job.state in ENDED:
        return [*said, Permission("Nobody", "Hold or cancel it: it has ended")]
    if not may_hold(roles):
        said.append(Permission("An operator or an admin", "Hold this job, or lift its hold"))
    if Role.ADMIN not in roles:
        said.append(Permission("An admin", "Cancel it"))
    if job.state in BEFORE_SENDING[:-1] and job.submitted_by_id != person_id:
        said.append(
            Permission(f"{job.submitted_by.username}, who started it", "Cancel it before it is approved")
        )
    if job.state == JobState.AWAITING_APPROVAL:
        said.append(Permission("A manager who did not start it", "Decide the proposal"))
    if job.state == JobState.NEEDS_RECONCILIATION:
        said.append(Permission("An operator", "Close the case with evidence"))
    return said
