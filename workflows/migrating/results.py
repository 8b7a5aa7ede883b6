"""Saved results on their way to a later revision: each kept as it is or converted, and of the later step's type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import connection
from pydantic import BaseModel, ValidationError

from workflows.authoring import Workflow
from workflows.authoring.migrations import Convert
from workflows.authoring.steps import Step
from workflows.engine import keys
from workflows.engine.outcomes import NotStorable, encode
from workflows.kinds import StageKind
from workflows.migrating.plan import LISTED, Becomes, ResultFate, in_short
from workflows.models import Stage
from workflows.states import ItemState
from workflows.wording import problems_in

FETCHED = 500
NAMED = 3
"""So many of the results that do not fit are named."""


class Saved(NamedTuple):
    """The newest result of one item."""

    item_id: int
    key: str
    ordinal: int
    checkpoint_id: int
    version: int
    output: str


class Unfit(Exception):
    """A result that the later revision does not take; the message is a sentence without the full stop."""


@dataclass
class Listing:
    """The first results of a step with the fate of each; what is in the way is listed before anything else."""

    fates: list[ResultFate] = field(default_factory=list)
    misfits: list[ResultFate] = field(default_factory=list)

    def add(self, fate: ResultFate) -> None:
        """Another result; beyond the first few of its kind it is not listed."""
        kind = self.misfits if fate.becomes is Becomes.IN_THE_WAY else self.fates
        if len(kind) < LISTED:
            kind.append(fate)

    @property
    def shown(self) -> tuple[ResultFate, ...]:
        """What is listed, in input order."""
        return tuple(sorted([*self.misfits, *self.fates][:LISTED], key=lambda fate: fate.ordinal))


@dataclass
class Misfits:
    """What did not fit: how many, and the first few in words."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, told: str) -> None:
        """Another one, in words."""
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(told)

    @property
    def sentence(self) -> str:
        """The first few, how many more there are, and what to do."""
        more = f"; and {self.count - NAMED:,} more" if self.count > NAMED else ""
        return f"{'; '.join(self.first)}{more}. Convert it in the migration, or let the step run again."


def saved_in(stage: Stage, *, after: int = 0, most: int | None = None) -> Iterator[Saved]:
    """The newest result of each succeeded item, by its place; only those saved after the checkpoint `after`, at most `most`.

    Streamed: a stage may have many. Needs a transaction.
    """
    with connection.chunked_cursor() as cursor:
        cursor.execute(_SAVED, [stage.job_id, stage.pk, ItemState.SUCCEEDED.number, after, most])
        while rows := cursor.fetchmany(FETCHED):
            yield from (Saved(*row) for row in rows)


def first_of(stage: Stage, becomes: Becomes) -> tuple[ResultFate, ...]:
    """The first results of a stage to all of which the same happens."""
    return tuple(_fate(saved, becomes) for saved in saved_in(stage, most=LISTED))


def fate_of(saved: Saved, convert: Convert | None, text: str) -> ResultFate:
    """What becomes of a result that fits, and is `text` then."""
    if convert is None:
        return _fate(saved, Becomes.KEPT)
    return _fate(saved, Becomes.CONVERTED, then=in_short(text))


def in_the_way(saved: Saved, unfit: Unfit) -> ResultFate:
    """A result that the later revision does not take."""
    return _fate(saved, Becomes.IN_THE_WAY, why=str(unfit).removeprefix(f"item {saved.key}: "))


def _fate(saved: Saved, becomes: Becomes, *, then: str = "", why: str = "") -> ResultFate:
    return ResultFate(saved.ordinal, saved.key, becomes, in_short(saved.output), then, why)


def fitted(definition: Workflow, step: Step, saved: Saved, convert: Convert | None) -> tuple[str, str]:
    """The result as the later step's: text and digest; both empty where it stays as it is. Raises Unfit."""
    place = f"item {saved.key}: " if step.kind is StageKind.EACH else ""
    try:
        if convert is None:
            step.output.validate_json(saved.output)
            text, digest = saved.output, ""
        else:
            text, digest = encode(step.output, _as_json(step, convert, saved.output))
        keys.check(definition, step, text)
    except ValidationError as error:
        where, said = next(problems_in(error))
        raise Unfit(f"{place}{where or 'the whole'}: {said}") from error
    except Unfit as unfit:
        raise Unfit(f"{place}{unfit}") from unfit
    except (NotStorable, keys.UnusableKeys) as error:
        raise Unfit(f"{place}{str(error).rstrip('.')}") from error
    return (text, digest) if convert is not None else ("", "")


def converted(convert: Convert, text: str) -> Any:
    """What a migration's function makes of a JSON text, as a JSON value. Raises Unfit, whatever the function raises."""
    value = _call(convert, json.loads(text))
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Unfit(f"the migration returned what is not JSON: {error}") from error


def _as_json(step: Step, convert: Convert, text: str) -> Any:
    return step.output.validate_json(json.dumps(converted(convert, text)))


def _call(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except (Exception, SystemExit) as error:
        told = " ".join(str(error).split())
        raise Unfit(f"{type(error).__name__}: {told[:300]}" if told else type(error).__name__) from error


_SAVED = """
SELECT DISTINCT ON (w.ordinal, w.id) w.id, w.key, w.ordinal, c.id, c.version, c.output
FROM workflows_workitem w JOIN workflows_checkpoint c ON c.item_id = w.id
WHERE w.job_id = %s AND w.stage_id = %s AND w.state = %s AND c.id > %s
ORDER BY w.ordinal, w.id, c.version DESC LIMIT %s
"""
