"""What the page of a case shows beyond what the rows say: the ladder's buttons, the meter of the key's time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from reconciliation.actions.carrying_out import BY_LOOKUP, BY_STATEMENT, SEND_AGAIN, STOP
from reconciliation.asking import BUTTONS, URL_OF
from reconciliation.kinds import VerbName
from reconciliation.links import link
from reconciliation.queries import CasePage
from reconciliation.verbs import Verb
from web.times import WITHIN_THE_DAY

METER = 1440
"""The meter's width; an image in front of a figure, so that a unit of it means nothing."""


_DETAILS: dict[str, tuple[str, dict[str, str]]] = {
    "basis": ("Shown by", {BY_LOOKUP: "the last look-up", BY_STATEMENT: "the receiver’s own words"}),
    "source": ("Found in", {}),
    "line": ("Line", {}),
    "apart": ("Difference", {}),
    "apart_as": ("Booked as", {}),
    "receipt_id": ("Receipt", {}),
    "record": ("Record or payee", {}),
    "amount": ("Amount", {}),
    "currency": ("Currency", {}),
    "obtained_from": ("Obtained from", {}),
    "file": ("Document, SHA-256", {}),
    "difference": ("Difference", {}),
    "lines_in_words": ("Lines", {}),
    "chosen_by": ("Chosen", {}),
    "kind": ("Set aside as", {}),
    "then": ("Then", {STOP: "closed as not applied, nothing is sent", SEND_AGAIN: "sent again, same key"}),
}


@dataclass(frozen=True, slots=True)
class Rung:
    """One verb with its button."""

    verb: Verb
    words: str
    key: str
    url: str
    first: bool
    """Whether it is the safest of those that are allowed: the one filled button of the page."""

    dialog: bool
    """Whether its form opens over the case."""


@dataclass(frozen=True, slots=True)
class Window:
    """How much is left of the time in which the same key is one effect; `x` and `width` are the meter's."""

    until: datetime
    open: bool
    near: bool
    x: int
    width: int


def ladder(page: CasePage, slug: str) -> list[Rung]:
    """The verbs, safest first, each with its button."""
    first = next((v.name for v in page.verbs if v.allowed), None)
    return [
        Rung(
            v,
            *BUTTONS[v.name],
            url=_url_of(v, page, slug),
            first=v.name is first,
            dialog=v.name not in (VerbName.CORRECT, VerbName.MIGRATE),
        )
        for v in page.verbs
    ]


def _url_of(verb: Verb, page: CasePage, slug: str) -> str:
    """A correction has a page of its own, beside what the step was given, and so has a migration: too much for a dialog.
    Steps are run again from the job's page, and what was applied is compensated there."""
    if verb.name in (VerbName.MIGRATE, VerbName.RUN_AGAIN):
        return link(URL_OF[verb.name], slug, page.job_id)
    if verb.name is VerbName.COMPENSATE:
        return link(URL_OF[verb.name], slug, page.job_id, page.applied_id) if page.applied_id else ""
    if verb.name is VerbName.CORRECT:
        return link(URL_OF[verb.name], slug, page.job_id, page.item_id) if page.item_id else ""
    return reverse(URL_OF[verb.name], args=(slug, page.case_id))


def window(page: CasePage, now: datetime) -> Window | None:
    """The key's time, counted from the first send, or None where there is none or it no longer matters."""
    until = page.resubmit_safe_until
    sent_at = next((k.at for k in page.known if k.name == "Dispatched" and k.at is not None), None)
    if page.resolved or until is None or sent_at is None:
        return None
    left = max((until - now).total_seconds(), 0.0)
    whole = max((until - sent_at).total_seconds(), 1.0)
    width = min(METER, round(METER * left / whole))
    return Window(until, until > now, is_near(until, now), METER - width, width)


def is_near(moment: datetime, now: datetime) -> bool:
    """Whether a duration says more about it than its time of day."""
    return moment - now < WITHIN_THE_DAY


def asked_for(page: CasePage) -> list[tuple[str, str]]:
    """The details of the open request in people's words, in the order of its form."""
    details = page.request.details if page.request else {}
    found = []
    for name, (label, words) in _DETAILS.items():
        if value := details.get(name):
            found.append((label, words.get(value, value)))
    return found
