"""What a job's journal tells of its sends, against the submissions: how many there were of each operation, and their ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dispatch.models import Submission
from workflows.models import Job
from workflows.replaying.comparing import Difference
from workflows.replaying.rows import Line

OPENS = {"operation.submitted", "operation.resubmitted"}
Key = tuple[str, int]
"""An operation's key, and the number of a send of it. Of two operations under one key the later one counts."""


def compare(job: Job, lines: Sequence[Line]) -> Iterator[Difference]:
    """Every submission: none untold, none missing, each ended as the journal says."""
    told, stored = _fold(lines), _stored(job)
    for key in sorted({*told, *stored}):
        ended, row = told.get(key, "not told of"), stored.get(key, "not there")
        if ended != row:
            yield Difference(f"operation {key[0][:12]}, send {key[1]}", ended or "open", row or "open")


def _fold(lines: Sequence[Line]) -> dict[Key, str]:
    """How each submission ended; nothing for one that is open. A later proposal's operation may carry the same label."""
    told: dict[Key, str] = {}
    keys: dict[str, str] = {}
    for line in lines:
        if line.event in OPENS:
            label = line.evidence["operation"]
            keys[label] = line.evidence["operation_key"]
            told[keys[label], line.evidence["submission"]] = ""
        elif line.event == "submission.closed":
            label = line.evidence["operation"]
            told[keys.get(label, label), line.evidence["submission"]] = line.evidence["outcome"]
    return told


def _stored(job: Job) -> dict[Key, str]:
    rows = Submission.objects.filter(operation__job=job)
    return {
        (key, number): outcome
        for key, number, outcome in rows.order_by("pk").values_list(
            "operation__operation_key", "number", "outcome"
        )
    }
