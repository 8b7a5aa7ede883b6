"""What people changed on a job's way to its proposal: part of what an approver is shown, and so of what is signed."""

from __future__ import annotations

import json
from typing import Any

from access.statements import Select
from workflows.models import Job, JournalEntry

NAMED = 50
"""So many are named in a document; the rest is counted."""

_EVENTS = {
    "item.corrected": "corrected",
    "item.skipped": "left out",
    "question.answered": "answered",
    "steps.run_again": "run again from here on",
}


def hands_on(job: Job) -> dict[str, Any]:
    """How many corrections, items left out, answers and runs anew there were, and the latest of them by name. Two queries."""
    if job.reruns:
        hands = _of_this_run(job)
        return {"count": len(hands), "latest": hands[::-1][:NAMED]}
    latest = _LATEST.all(job.pk)
    if not latest:
        return {"count": 0, "latest": []}
    entries = JournalEntry.objects.filter(job=job, event__in=_EVENTS)
    return {"count": entries.count(), "latest": [_hand(entry) for entry in latest]}


def _of_this_run(job: Job) -> list[dict[str, Any]]:
    """Without what was done to steps that were run again since: nothing that is proposed goes on from it."""
    hands: list[dict[str, Any]] = []
    for entry in JournalEntry.objects.filter(job=job, event__in=_EVENTS).order_by("sequence"):
        if entry.event == "steps.run_again":
            again = set(json.loads(entry.evidence)["aside"].values())
            hands = [hand for hand in hands if hand["step"] not in again]
        hands.append(_hand(entry))
    return hands


def _hand(entry: JournalEntry) -> dict[str, Any]:
    told = json.loads(entry.evidence)
    return {
        "what": _EVENTS[entry.event],
        "step": str(told.get("stage", "")),
        "key": str(told.get("key", "")),
        "by": entry.actor_name,
        "reason": str(told.get("reason", ""))[:1000],
        "sequence": entry.sequence,
    }


_LATEST = Select(
    lambda job: JournalEntry.objects.filter(job=job, event__in=_EVENTS).order_by("-sequence")[:NAMED]
)
