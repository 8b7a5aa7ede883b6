"""Questions of steps: what is asked of whom, nearest end first, and one question with its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q

from access.roles import Role
from access.tenancy import TenantQuerySet
from console import words
from workflows.actions.answer import NoSuchQuestion
from workflows.models import Checkpoint, Expectation, ExpectationKind, Settled
from workflows.states import ENDED
from workflows.titles import in_words, workflow_title

PAGE = 50
LONGEST_TITLE = 140


@dataclass(frozen=True, slots=True)
class Row:
    """One open question of the list."""

    question: Expectation
    workflow: str
    yours: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and the id to go on after (0: that was all)."""

    rows: tuple[Row, ...]
    after: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Open questions: those that the roles may answer, and all."""

    yours: int
    total: int


@dataclass(frozen=True, slots=True)
class Shown:
    """One question. `answer` are the fields of what was given, in their order; empty where nothing was."""

    question: Expectation
    title: str
    workflow: str
    step: str
    answer: tuple[tuple[str, str], ...]

    @property
    def answered(self) -> bool:
        return self.question.settled_how == Settled.CAME

    @property
    def is_open(self) -> bool:
        return self.question.settled_at is None


def open_questions(roles: Iterable[Role] | None = None) -> TenantQuerySet[Expectation]:
    """Open questions, or those of them that these roles may answer."""
    rows = Expectation.objects.filter(kind=ExpectationKind.ANSWER, settled_at__isnull=True)
    rows = rows.exclude(job__state__in=ENDED)
    return rows if roles is None else rows.filter(role__in=[r.value for r in roles])


def counts(roles: frozenset[Role]) -> Counts:
    """Two queries."""
    return Counts(yours=open_questions(roles).count(), total=open_questions().count())


def page(roles: frozenset[Role], *, yours: bool, after: int = 0) -> Page:
    """Questions by their end, those without one last; then by age. Two queries at most."""
    rows = open_questions(roles if yours else None).select_related("job")
    if after:
        rows = rows.filter(_beyond(after))
    found = list(rows.order_by(F("due_at").asc(nulls_last=True), "pk")[: PAGE + 1])
    return Page(
        rows=tuple(
            Row(q, workflow_title(q.job.workflow), q.role in {r.value for r in roles}) for q in found[:PAGE]
        ),
        after=found[PAGE - 1].pk if len(found) > PAGE else 0,
    )


def question_of(question_id: int) -> Shown:
    """The question, or NoSuchQuestion. Two queries."""
    rows = Expectation.objects.filter(pk=question_id, kind=ExpectationKind.ANSWER)
    question = rows.select_related("job", "item__stage").first()
    if question is None:
        raise NoSuchQuestion(f"There is no question {question_id} here.")
    job = question.job
    definition = words.definition_of(job.workflow, job.revision)
    return Shown(
        question=question,
        title=question.question if len(question.question) <= LONGEST_TITLE else "A question",
        workflow=workflow_title(job.workflow),
        step=words.stage_title(definition, question.item.stage.name),
        answer=answers_to([question]).get(question.pk, ()),
    )


def answers_to(questions: Sequence[Expectation]) -> dict[int, tuple[tuple[str, str], ...]]:
    """What came for waits that something came for, by field. One query."""
    came = [q for q in questions if q.settled_how == Settled.CAME]
    if not came:
        return {}
    saved = Checkpoint.objects.filter(item__in=[q.item_id for q in came])
    texts = {(item, at): text for item, at, text in saved.values_list("item", "created_at", "output")}
    given = ((q, texts.get((q.item_id, q.settled_at))) for q in came if q.settled_at is not None)
    return {q.pk: _fields(text, json.loads(q.schema)) for q, text in given if text is not None}


def _beyond(after: int) -> Q:
    due = Expectation.objects.filter(pk=after).values_list("due_at", flat=True).first()
    if due is None:
        return Q(due_at__isnull=True, pk__gt=after)
    return Q(due_at__gt=due) | Q(due_at=due, pk__gt=after) | Q(due_at__isnull=True)


def _fields(output: str, schema: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    value = json.loads(output)
    if not isinstance(value, dict):
        return (("Value", _told(value)),)
    known = schema.get("properties", {})
    order = [*(name for name in known if name in value), *(name for name in value if name not in known)]
    return tuple((_label(name, known.get(name, {})), _told(value[name])) for name in order)


def _label(name: str, schema: dict[str, Any]) -> str:
    first, *rest = str(schema.get("title") or in_words(name)).split(" ")
    return " ".join([first, *(w.lower() if w.istitle() else w for w in rest)])


def _told(value: Any) -> str:
    if value in (None, ""):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
