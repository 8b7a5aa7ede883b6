"""A person's answer to a question that a step waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from access import authority
from access.models import Person
from access.refusals import Conflict, NotFound, Refused
from access.roles import Actor, ActorKind, Role
from access.tenancy import acting
from workflows import expectations, journal
from workflows.actions.advance import go_on
from workflows.expectations import Misfit, database_now, digest_of
from workflows.locks import lock_expectations, lock_items, lock_job
from workflows.models import Checkpoint, Expectation, ExpectationKind, Settled, WorkItem


class NoSuchQuestion(NotFound):
    """There is no such question in this tenant."""


class AlreadyAnswered(Conflict):
    """Somebody was first; `by` says who, `at` when."""

    def __init__(self, message: str, by: str, at: datetime) -> None:
        super().__init__(message)
        self.by = by
        self.at = at


class NobodyWaits(Conflict):
    """The time to answer is over, or the job does not wait any more."""


@dataclass(frozen=True, slots=True)
class Answered:
    """`repeated`: the same person had given the same answer before, and nothing was done now."""

    job_id: int
    repeated: bool = False


def answer_question(
    *, tenant_id: int, expectation_id: int, person_id: int, value: Any, now: datetime
) -> Answered:
    """Take an answer as the step's result and go on. Only the role that the question names may answer.

    `value` is parsed JSON. Locks job → item → expectation, so that of two answers one counts; the same answer of the
    same person again changes nothing. A held job's answer counts; what follows does not run until it is released.
    Raises NoSuchQuestion, NotPermitted, AlreadyAnswered, NobodyWaits, Misfit (every wrong field), RevisionMissing; what
    is refused for another reason than its fields is journalled.
    """
    with _keeps_refusals(tenant_id, expectation_id, person_id), acting(tenant_id):
        answered = _answer(expectation_id, person_id, value, now)
    if not answered.repeated:
        go_on(tenant_id, answered.job_id)
    return answered


def _answer(expectation_id: int, person_id: int, value: Any, now: datetime) -> Answered:
    asked = _question(expectation_id)
    job = lock_job(asked.job_id)
    (item,) = lock_items([asked.item_id])
    (question,) = lock_expectations([asked.pk])
    actor = authority.require(person_id, Role(question.role))
    if question.settled_at is not None:
        if not _is_repeat(question, item, actor, value):
            raise _too_late(question, actor)
        return Answered(job.pk, repeated=True)
    if not expectations.takes(item, question, database_now()):
        raise NobodyWaits("Nobody waits for this answer any more: its time is over, or the job has moved on.")
    output = expectations.typed(job, item.stage.name, value)
    expectations.settle(
        job=job, item=item, expectation=question, output=output, event="question.answered", actor=actor,
        evidence={"question": digest_of(question.question)}, now=now,
    )  # fmt: skip
    return Answered(job.pk)


def _question(expectation_id: int) -> Expectation:
    found = Expectation.objects.filter(pk=expectation_id, kind=ExpectationKind.ANSWER).first()
    if found is None:
        raise NoSuchQuestion(f"There is no question {expectation_id} here.")
    return found


def _is_repeat(question: Expectation, item: WorkItem, actor: Actor, value: Any) -> bool:
    if question.settled_how != Settled.CAME or question.settled_by != actor.name:
        return False
    try:
        _, digest = expectations.typed(item.job, item.stage.name, value)
    except Misfit:
        return False
    first = Checkpoint.objects.filter(item=item).order_by("version").first()
    return first is not None and first.digest == digest


def _too_late(question: Expectation, actor: Actor) -> Conflict:
    assert question.settled_at is not None
    if question.settled_how == Settled.CAME:
        by = question.settled_by
        first = (
            "You answered this question differently before"
            if by == actor.name
            else f"{by} answered this question before you did"
        )
        return AlreadyAnswered(f"{first}; that answer stands.", by, question.settled_at)
    over = "its time is over" if question.settled_how == Settled.EXPIRED else "the job does not wait any more"
    return NobodyWaits(f"Nobody waits for this answer any more: {over}.")


@contextmanager
def _keeps_refusals(tenant_id: int, expectation_id: int, person_id: int) -> Iterator[None]:
    """What is refused stands in the journal, written after the rollback. Wrong fields are only shown to whoever wrote
    them."""
    try:
        yield
    except (NotFound, Misfit):
        raise
    except Refused as refused:
        with acting(tenant_id):
            question = _question(expectation_id)
            name = Person.objects.values_list("username", flat=True).get(pk=person_id)
            held = sorted(authority.roles_of(person_id))
            kind = ActorKind(held[0].value) if held else ActorKind.SUBMITTER
            evidence = {
                "item": question.item_id,
                "question": digest_of(question.question),
                "why": str(refused),
            }
            journal.record(
                job=lock_job(question.job_id), event="answer.refused", actor=Actor(kind, name, person_id),
                evidence=evidence,
            )  # fmt: skip
        raise
