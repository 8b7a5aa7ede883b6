"""Setting aside what stages have done: another name and kind, so that no step goes on from it and all of it stays.

For a migration that does not keep a step, and for steps that are run again. The caller holds the job's lock.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import F, Value
from django.db.models.functions import Coalesce, Concat

from workflows.kinds import StageKind
from workflows.models import Job, Stage, WorkItem
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState

UNFINISHED = [s.number for s in (*OPEN_ITEM_STATES, *STUCK_ITEM_STATES)]


def set_aside(*, job: Job, stages: Collection[int], mark: str, now: datetime) -> dict[str, str]:
    """Set stages aside, `mark` behind their names; their names from then on, with those that they had.

    Items that are not done are cancelled: what runs has run in vain. The caller has locked them.
    """
    mine = Stage.objects.filter(job=job, pk__in=stages)
    names = list(mine.order_by("ordinal", "pk").values_list("name", flat=True))
    WorkItem.objects.filter(job=job, stage__in=stages, state__in=UNFINISHED).update(
        state=ItemState.CANCELLED.number, finished_at=now
    )
    mine.update(
        name=Concat(F("name"), Value(mark)),
        kind=StageKind.SET_ASIDE,
        closed_at=Coalesce(F("closed_at"), Value(now)),
    )
    return {f"{name}{mark}": name for name in names}
