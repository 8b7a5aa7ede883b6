"""What the rest of a half done fan-out works on under the later revision.

An item's element comes from the step that the fan-out maps over. Where that step's result is converted, so is the
element; otherwise the item keeps what it works on, a person's correction included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Max
from pydantic import ValidationError

from workflows.asides import UNFINISHED
from workflows.authoring.steps import Step
from workflows.migrating.results import Unfit
from workflows.models import ItemInput, Stage, WorkItem
from workflows.wording import problems_in


class Element(NamedTuple):
    """What one item that is not done works on."""

    key: str
    ordinal: int
    value: str


def as_they_are(stage: Stage) -> Iterator[Element]:
    """The elements of the stage's items that are not done, in their newest versions. Needs a transaction."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(_ELEMENTS, [stage.job_id, stage.pk, UNFINISHED])
        while rows := cursor.fetchmany(500):
            yield from (Element(*row) for row in rows)


def from_source(stage: Stage, source: dict[str, str]) -> Iterator[Element]:
    """Their elements out of a converted source, by key. Raises Unfit where the two do not belong together."""
    rows = ItemInput.objects.filter(item__job_id=stage.job_id, item__stage=stage, item__state__in=UNFINISHED)
    if (rows.aggregate(version=Max("version"))["version"] or 1) > 1:
        raise Unfit(
            "somebody has corrected what an item of it works on, and that comes from a converted result now"
        )
    every = WorkItem.objects.filter(job_id=stage.job_id, stage=stage).count()
    if len(source) != every:
        raise Unfit(f"it has {every:,} items, and would map over {len(source):,} elements now")
    for item in _left(stage):
        if item.key not in source:
            raise Unfit(f"nothing that it would map over now is called {item.key}")
        yield Element(item.key, item.ordinal, source[item.key])


def by_key(step: Step, text: str) -> dict[str, str]:
    """The elements in a single step's result, by the keys that the fan-out `step` gives its items."""
    assert step.each is not None
    found: dict[str, str] = {}
    for number, element in enumerate(json.loads(text)[step.each.field], start=1):
        key = str(element[step.key]) if step.key else str(number)
        found[key] = json.dumps(element, ensure_ascii=False, separators=(",", ":"))
    return found


def check(step: Step, element: Element) -> None:
    """Raises Unfit unless the fan-out's handler takes the element."""
    if not step.parameters:
        return
    adapter: Any = step.parameters[0].adapter
    try:
        adapter.validate_json(element.value)
    except ValidationError as error:
        where, said = next(problems_in(error))
        raise Unfit(f"what item {element.key} works on: {where or 'the whole'}: {said}") from error


def _left(stage: Stage) -> Iterator[WorkItem]:
    items = WorkItem.objects.filter(job_id=stage.job_id, stage=stage, state__in=UNFINISHED).order_by(
        "ordinal", "pk"
    )
    return items.only("pk", "key", "ordinal").iterator(chunk_size=500)


_ELEMENTS = """
SELECT DISTINCT ON (w.ordinal, w.id) w.key, w.ordinal, i.value
FROM workflows_workitem w JOIN workflows_iteminput i ON i.item_id = w.id
WHERE w.job_id = %s AND w.stage_id = %s AND w.state = ANY(%s)
ORDER BY w.ordinal, w.id, i.version DESC
"""
