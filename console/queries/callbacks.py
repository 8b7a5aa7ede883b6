"""What a receiver has sent by itself: its address here, its secrets as this server sees them, and its messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatch.callback_terms import Callbacks
from dispatch.callbacks.signing import secrets_of
from dispatch.models import Callback
from dispatch.queries import ReceiverView
from web.vocabulary import Sign, sign_of

PAGE = 25
SIGNS = {
    "applied": Sign("Applied", "done"),
    "failed": Sign("Failed", "no"),
    "pending": Sign("Under way", "running"),
    "differs": Sign("Differs", "mixed"),
    "unclear": Sign("Unclear", "found"),
}
"""What a callback says, as people read it."""


@dataclass(frozen=True, slots=True)
class Came:
    """One callback: what it says, and, where it named nothing here, what that means for whoever reads it."""

    callback: Callback
    sign: Sign
    of_nothing: str


@dataclass(frozen=True, slots=True)
class CallbacksPage:
    """One page of a receiver's callbacks, newest first. `older`: where the next page begins, or 0."""

    terms: Callbacks | None
    faults: Sequence[str]
    rows: Sequence[Came]
    older: int
    of_nothing: int


def callbacks_of(view: ReceiverView, *, before: int = 0) -> CallbacksPage:
    """What the page of a receiver's callbacks shows. Two queries."""
    terms = view.contract.callbacks if view.contract is not None else None
    mine = Callback.objects.filter(receiver=view.receiver)
    newest = mine.select_related("operation").order_by("-pk")
    rows = list((newest.filter(pk__lt=before) if before else newest)[: PAGE + 1])
    return CallbacksPage(
        terms=terms,
        faults=secrets_of(terms)[1] if terms is not None else (),
        rows=[_came(row) for row in rows[:PAGE]],
        older=rows[PAGE - 1].pk if len(rows) > PAGE else 0,
        of_nothing=mine.filter(operation__isnull=True).count(),
    )


def _came(row: Callback) -> Came:
    of_nothing = ""
    if row.operation_id is None and row.operation_key:
        of_nothing = "Kept, and settles nothing: no operation of this receiver had that key when it came."
    elif row.operation_id is None and row.receipt_id:
        of_nothing = "Kept. It counts once an operation of this receiver turns out to have that number."
    elif row.operation_id is None:
        of_nothing = "Kept, and settles nothing: it names neither a key nor a number."
    return Came(row, SIGNS.get(row.finding) or sign_of(row.finding), of_nothing)
