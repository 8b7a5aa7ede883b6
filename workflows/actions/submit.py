"""Submitting a job: the one door from page, API and command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Actor, Role
from access.tenancy import acting
from workflows import deadlines, files, journal, known, references, registry, stages, submissions
from workflows.authoring import Problem, Workflow
from workflows.models import Job
from workflows.states import JobState

LONGEST_KEY = 200


class OnlyByCompensating(Unprocessable):
    """A job of this workflow begins from an applied operation of another, never from a form."""


class SubmissionKeyReused(Unprocessable):
    """The same submission key came with another input. One key per intent; keep it for retries."""


class ReferenceTaken(Conflict):
    """Another job of this workflow has this business reference already."""

    def __init__(self, message: str, job_id: int) -> None:
        super().__init__(message)
        self.job_id = job_id


@dataclass(frozen=True, slots=True)
class Submitted:
    """`replayed`: the same key and input had made this job before; nothing new happened."""

    job_id: int
    replayed: bool


def submit_job(
    *,
    tenant_id: int,
    workflow: str,
    value: object,
    submission_key: str,
    person_id: int,
    source: str,
    now: datetime,
) -> Submitted:
    """Accept one submission, or answer the job that the same key made before.

    `value` is the parsed input. Locks the submission key. Raises NoSuchWorkflow, InvalidSubmission, NotPermitted,
    SubmissionKeyReused, ReferenceTaken, OnlyByCompensating, DefinitionChanged; then there is no job.
    """
    definition = registry.current(workflow)
    known.require(definition)
    if definition.compensates:
        raise OnlyByCompensating(
            f"A job of {workflow} takes back what another job did: compensate that, on its page."
        )
    text = submissions.check(definition, value)
    named = files.named_in(definition, text, value)
    if not submission_key or len(submission_key) > LONGEST_KEY or not submission_key.isprintable():
        raise submissions.InvalidSubmission(
            [
                Problem(
                    "submission_key", f"give a key of 1 to {LONGEST_KEY} printable characters, one per intent"
                )
            ]
        )
    with acting(tenant_id):
        actor = authority.require(person_id, Role.SUBMITTER)
        submission = CheckedSubmission(definition, text, submission_key, person_id, source, now, tuple(named))
        return submit_inside(tenant_id=tenant_id, submission=submission, actor=actor)


@dataclass(frozen=True, slots=True)
class CheckedSubmission:
    """One checked submission. `told`: what the journal's first line says beside what it always says."""

    definition: Workflow
    text: str
    key: str
    person_id: int
    source: str
    now: datetime
    files: tuple[files.Named, ...] = ()
    told: Mapping[str, object] = field(default_factory=dict)


def submit_inside(*, tenant_id: int, submission: CheckedSubmission, actor: Actor) -> Submitted:
    """Accept it inside an action's transaction, or answer the job that the same key made before. Locks the key.

    Raises SubmissionKeyReused, ReferenceTaken, InvalidSubmission.
    """
    definition, now = submission.definition, submission.now
    _lock_key(tenant_id, definition.name, submission.key)
    existing = Job.objects.filter(workflow=definition.name, submission_key=submission.key).first()
    if existing is not None:
        return _replay(existing, submissions.digest(submission.text))
    found = files.lock_named(submission.files)
    job = _new_job(tenant_id, submission)
    files.bind(job, found)
    journal.transition(
        job=job,
        to=JobState.RECEIVED,
        event="job.received",
        actor=actor,
        evidence={
            "submission_key": submission.key,
            "input": job.input_digest,
            "workflow": definition.name,
            "revision": job.revision,
            "configuration": job.configuration_digest,
            "source": submission.source,
            **({"files": [f.digest for f in found]} if found else {}),
            **submission.told,
        },
    )
    stages.open_validation(job=job, now=now)
    deadlines.watch(job)
    return Submitted(job_id=job.pk, replayed=False)


def _replay(existing: Job, digest: str) -> Submitted:
    if existing.input_digest != digest:
        raise SubmissionKeyReused(
            f"This submission key made {existing.label} from another input; use a new key for a new intent."
        )
    return Submitted(job_id=existing.pk, replayed=True)


def _new_job(tenant_id: int, submission: CheckedSubmission) -> Job:
    definition, text, now = submission.definition, submission.text, submission.now
    value = definition.input.model_validate_json(text)
    reference = definition.reference_of(value) if definition.reference_of else ""
    if reference:
        references.lock_reference(tenant_id, definition.name, reference)
        taken = references.holder(definition.name, reference)
        if taken is not None:
            raise ReferenceTaken(
                f"{reference} is already the reference of {taken.label}; look there, or give another.",
                taken.pk,
            )
    title = definition.describe(value) if definition.describe else definition.title or definition.name
    return Job.objects.create(
        tenant_id=tenant_id,
        workflow=definition.name,
        revision=definition.revision,
        configuration_digest=registry.digests()[definition.name, definition.revision],
        title=title[:300],
        reference=reference,
        submission_key=submission.key,
        input=text,
        input_digest=submissions.digest(text),
        submitted_by_id=submission.person_id,
        source=submission.source,
        created_at=now,
        deadline_at=None if definition.deadline is None else now + definition.deadline,
    )


def _lock_key(tenant_id: int, workflow: str, key: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{tenant_id}:{workflow}:{key}"]
        )
