"""What a receiver has sent by itself: its address here, its secrets as this server sees them, and its messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatch.callback_terms import Callbacks
from dispatch.callbacks.signing import secrets_of
from dispatch.models import Callback
from dispatch.queries import ReceiverView

PAGE = 25


@dataclass(frozen=True, slots=True)
class CallbacksPage:
    """One page of a receiver's callbacks, newest first. `older`: where the next page begins, or 0."""

    terms: Callbacks | None
    faults: Sequence[str]
    rows: Sequence[Callback]
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
        rows=rows[:PAGE],
        older=rows[PAGE - 1].pk if len(rows) > PAGE else 0,
        of_nothing=mine.filter(operation__isnull=True).count(),
    )
