"""How long after its opening a case is due: what the organisation has written for its kind and receiver, or the kind's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from dispatch.models import Receiver
from reconciliation.kinds import KINDS, terms_of
from reconciliation.models import DueTime
from reconciliation.words import state_words

LEAST, MOST = timedelta(minutes=5), timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Written:
    """What is in force for a kind at a receiver, or at all of them, and who wrote it."""

    receiver: str
    after: timedelta
    row: DueTime


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind with its own time, and what was written for it: at all receivers first."""

    kind: str
    words: str
    default: timedelta
    written: Sequence[Written]


def due_after(kind: str, receiver_id: int | None) -> timedelta:
    """The receiver's time for this kind, else everybody's, else the kind's own. One query."""
    found = _in_force(DueTime.objects.filter(kind=kind).order_by("-pk"))
    for receiver in (receiver_id, None):
        row = found.get((kind, receiver))
        if row is not None and row.minutes is not None:
            return timedelta(minutes=row.minutes)
    return terms_of(kind).due_after


def table() -> list[KindRow]:
    """Every kind, as the page shows it. Two queries."""
    found = _in_force(DueTime.objects.select_related("written_by").order_by("-pk"))
    titles: dict[int | None, str] = {None: "", **dict(Receiver.objects.values_list("pk", "title"))}
    rows = []
    for kind, terms in KINDS.items():
        written = [
            Written(titles[receiver], timedelta(minutes=row.minutes), row)
            for (of, receiver), row in found.items()
            if of == kind and row.minutes is not None
        ]
        rows.append(
            KindRow(
                kind.value,
                state_words(kind.value),
                terms.due_after,
                sorted(written, key=lambda w: w.receiver),
            )
        )
    return rows


def last_written() -> int:
    """The number of the last row, which says whether a page has seen all of them; 0 where there is none."""
    return DueTime.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def _in_force(newest_first: Iterable[DueTime]) -> dict[tuple[str, int | None], DueTime]:
    found: dict[tuple[str, int | None], DueTime] = {}
    for row in newest_first:
        found.setdefault((row.kind, row.receiver_id), row)
    return found
