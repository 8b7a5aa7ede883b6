"""What a job's journal tells of its cases, against the cases: which are there, and which are open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciliation.models import Case
from workflows.models import Job
from workflows.replaying.comparing import Difference
from workflows.replaying.rows import Line


def compare(job: Job, lines: Sequence[Line]) -> Iterator[Difference]:
    """Every case, by number."""
    told = {line.evidence["case"]: "open" for line in lines if line.event == "case.opened"}
    told |= {line.evidence["case"]: "closed" for line in lines if line.event == "case.closed"}
    stored = {c.pk: "open" if c.resolved_at is None else "closed" for c in Case.objects.filter(job=job)}
    for pk in sorted({*told, *stored}):
        folded, row = told.get(pk, "not told of"), stored.get(pk, "not there")
        if folded != row:
            yield Difference(f"case RC-{pk:04d}", folded, row)
