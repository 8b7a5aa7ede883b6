"""What a work item works on, as JSON texts by parameter: read for people, who see it and may correct it.

The engine reads the same for itself, from what its claim's query brings and its cache (`engine/slots.py`).
"""

from __future__ import annotations

import json

from django.db.models import Sum
from django.db.models.functions import Length

from access.tenancy import TenantQuerySet
from workflows import inputs
from workflows.authoring.steps import Parameter, Step
from workflows.models import Checkpoint, ItemInput, Job, WorkItem
from workflows.states import ItemState


def latest_input(item: WorkItem) -> ItemInput | None:
    """The newest version of what was kept as the item's input."""
    return ItemInput.objects.filter(item=item).order_by("-version").first()


def text_of(*, job: Job, item: WorkItem, step: Step, parameter: Parameter) -> str:
    """What the item's next attempt gets for a parameter, a person's correction included."""
    kept = latest_input(item)
    if parameter.source == "element":
        return kept.value if kept is not None else "null"
    corrected = json.loads(kept.value) if kept is not None and step.each is None else {}
    if parameter.name in corrected:
        return json.dumps(corrected[parameter.name], ensure_ascii=False)
    if parameter.source == "input":
        return inputs.text_of(job.pk)
    if parameter.source == "output":
        return str(_outputs(job, parameter.step).order_by("-version").values_list("output", flat=True)[0])
    latest: dict[int, str] = {}
    rows = _outputs(job, parameter.step).filter(item__state=ItemState.SUCCEEDED.number)
    for ordinal, output in rows.order_by("item__ordinal", "version").values_list("item__ordinal", "output"):
        latest[ordinal] = output
    return f"[{','.join(latest.values())}]"


def size_of(*, job: Job, item: WorkItem, step: Step, parameter: Parameter) -> int:
    """How many characters `text_of` would have at most, without reading them where they are many."""
    if parameter.source != "outputs":
        return len(text_of(job=job, item=item, step=step, parameter=parameter))
    total = _outputs(job, parameter.step).aggregate(total=Sum(Length("output")))["total"]
    return int(total or 0)


def _outputs(job: Job, stage: str) -> TenantQuerySet[Checkpoint]:
    return Checkpoint.objects.filter(item__job=job, item__stage__name=stage)
