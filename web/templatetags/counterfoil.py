"""What the pages write with: states, amounts, times, digests, signatures.

The tags own the no-break spaces, the titles and the labels, so that a page cannot get them wrong. Times take `now` from
the context when a view gave it, so that one page never shows two moments.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django import template
from django.conf import settings
from django.http import QueryDict
from django.template import Context
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from web import amounts, drawing, reading, seeing, times, vocabulary

register = template.Library()

DASH = "\N{EN DASH}"
NO_AMOUNT = format_html('<span class="faint">{}</span>', "no amount")
NO_LIMIT = format_html('<span class="faint">{}</span>', "no limit")
UNKNOWN_COST = format_html('<span class="faint">{}</span>', "unknown")
AND_UNKNOWN = format_html(
    ' <small class="faint" title="{}">+{}?<span class="vh"> {}</span></small>',
    "and calls of unknown cost",
    "\N{NO-BREAK SPACE}",
    "and calls of unknown cost",
)
NEVER = format_html('<span class="faint">{}</span>', DASH)


@register.simple_tag
def state(code: str, words: str = "", tag: bool = False, mark: str = "") -> SafeString:
    """The state of a job, an operation or a step: mark and words, the code name in the title."""
    sign = vocabulary.sign_of(str(code), words, mark)
    return format_html(
        '<span class="state{}" data-s="{}" title="{}">{}</span>',
        " tag" if tag else "",
        sign.mark,
        code,
        sign.words,
    )


@register.simple_tag
def money(amount: Decimal | int | str | None, currency: str = "EUR", kind: str = "money") -> SafeString:
    """An amount: `kind` is "money" in a line, "box" in the box of a slip, "stake" in the head of a case."""
    if amount is None or amount == "":
        return NO_AMOUNT
    try:
        value = amounts.as_decimal(amount)
    except ValueError:
        return format_html('<span class="late">not an amount: {}</span>', seeing.shown(str(amount)))
    sign, figures = amounts.sign_and_figures(value, currency)
    between = amounts.NBSP if kind == "money" else ""
    shown = format_html("<span>{}</span>", sign) if kind != "money" else sign
    return format_html(
        '<data class="{}" value="{}">{}{}{}</data>', kind, format(value, "f"), shown, between, figures
    )


@register.simple_tag
def amount_words(amount: Decimal | int | str | None, currency: str = "EUR") -> str:
    """The amount as on a cheque: Forty-eight thousand two hundred euros."""
    return "No amount" if amount is None or amount == "" else amounts.amount_in_words(amount, currency)


@register.simple_tag(takes_context=True)
def age(context: Context, since: datetime | None, limit: timedelta | None = None) -> SafeString:
    """How long ago, in two units at most; red and "late" from `limit` on."""
    if since is None:
        return NEVER
    span = _now(context) - since
    late = limit is not None and span > limit
    return _time(since, times.span_words(span) + (", late" if late else ""), "late" if late else "")


@register.simple_tag(takes_context=True)
def left(context: Context, until: datetime | None, soon_hours: int = 1) -> SafeString:
    """How long until, or how far over; amber under `soon_hours`, which is 4 for an idempotency key."""
    if until is None:
        return NO_LIMIT
    words, urgency = times.left_words(until, _now(context), timedelta(hours=soon_hours))
    return format_html(
        '<time class="{}" datetime="{}" title="{}" data-left="{}">{}</time>',
        urgency,
        _iso(until),
        times.exact_words(until),
        soon_hours * 3600,
        words,
    )


@register.simple_tag(takes_context=True)
def when(context: Context, moment: datetime | None, exact: bool = False) -> SafeString:
    """A time stamp: the time today, else weekday or date; `exact` writes it out as a slip does."""
    if moment is None:
        return NEVER
    return _time(moment, times.full_words(moment) if exact else times.stamp_words(moment, _now(context)))


@register.simple_tag
def span(value: timedelta | int | Decimal | None) -> str:
    """A duration, of a timedelta or of whole seconds."""
    if value is None:
        return DASH
    return times.span_words(value if isinstance(value, timedelta) else timedelta(seconds=int(value)))


@register.simple_tag
def cost(spent: Any) -> SafeString:
    """What calls cost, of anything with a `cost` and a number of calls of `unpriced` cost; unknown is never nothing."""
    if spent is None or not (spent.cost or spent.unpriced):
        return NEVER
    if not spent.cost:
        return UNKNOWN_COST
    shown = money(amounts.rounded_cost(spent.cost), settings.COUNTERFOIL_COST_CURRENCY)
    return format_html("{}{}", shown, AND_UNKNOWN) if spent.unpriced else shown


@register.simple_tag
def amount(cost: Decimal | int) -> SafeString:
    """A cost that is known, nothing included, as the axis of a chart has it."""
    return money(amounts.rounded_cost(Decimal(cost)), settings.COUNTERFOIL_COST_CURRENCY)


@register.filter
def number(value: int) -> str:
    """12,345"""
    return ("-" if value < 0 else "") + reading.figures(str(abs(value)))


@register.simple_tag
def digest(value: bytes | memoryview | str, label: str = "digest", copy: bool = True) -> SafeString:
    """The first eight and last four of a digest; Copy gives all of it."""
    full = drawing.hex_of(value)
    return format_html(
        '<span class="digest"><code title="{}">{}</code>{}</span>',
        full,
        drawing.short_digest(full),
        _copy_button(full, label) if copy else "",
    )


@register.simple_tag
def bars(value: bytes | memoryview | str) -> SafeString:
    """The first twelve bytes of a digest as bars, so that two slips can be told apart at a glance."""
    return format_html(
        '<svg class="bars" viewBox="0 0 192 20" preserveAspectRatio="none" role="img"'
        ' aria-label="Digest drawn as bars"><path d="{}"/></svg>',
        drawing.bars_path(drawing.hex_of(value)),
    )


@register.simple_tag
def copy(value: str, label: str = "") -> SafeString:
    """A button that copies the value."""
    return _copy_button(str(value), label or str(value))


@register.simple_tag
def ref(value: str, url: str = "") -> SafeString:
    """A reference that never breaks, as a link when there is one."""
    if url:
        return format_html('<a class="ref" href="{}">{}</a>', url, seeing.shown(str(value)))
    return format_html('<span class="ref">{}</span>', seeing.shown(str(value)))


@register.simple_tag
def quorum(signed: int, needed: int) -> SafeString:
    """One pip a signature, filled when signed, and the count in words."""
    pips: Iterable[tuple[SafeString]] = (
        (format_html('<i class="{}"></i>', "on") if n < signed else format_html("<i></i>{}", ""),)
        for n in range(max(signed, needed))
    )
    return format_html(
        '<span class="quorum">{}<span>{} of {}</span></span>',
        format_html_join("", "{}", pips),
        signed,
        needed,
    )


@register.simple_tag
def seal(handle: str = "", kind: str = "") -> SafeString:
    """The wax seal of a signer; `kind` is "refused" for a rejection. No handle draws an open place."""
    if not handle:
        return format_html(
            '<svg class="seal {}" viewBox="0 0 48 48" aria-hidden="true">'
            '<circle class="wax" cx="24" cy="24" r="18.5"/></svg>',
            kind or "open",
        )
    return format_html(
        '<svg class="seal {}" viewBox="0 0 48 48" aria-hidden="true"><use class="wax" href="#wax"/>'
        '<circle class="ring" cx="24" cy="24" r="13.5"/><text x="24" y="28.5">{}</text></svg>',
        kind,
        drawing.initials(handle),
    )


@register.filter
def visible(value: object) -> SafeString:
    """Untrusted text, escaped, with hidden, reordering and look-alike characters shown as such."""
    if isinstance(value, SafeString):
        return value  # made of shown text already
    return seeing.shown("" if value is None else str(value))


@register.simple_tag(takes_context=True)
def qs(context: Context, **changes: Any) -> str:
    """This page's query with changes: None or "" removes a key, a list sets several. Always starts with "?"."""
    request = context.get("request")
    query: QueryDict = request.GET.copy() if request else QueryDict(mutable=True)
    for key, value in changes.items():
        if value is None or value == "":
            query.pop(key, None)
        elif isinstance(value, list | tuple):
            query.setlist(key, [str(v) for v in value])
        else:
            query[key] = str(value)
    return "?" + query.urlencode()


@register.simple_tag(takes_context=True)
def now_iso(context: Context) -> str:
    """The moment this page speaks of, for the countdowns."""
    return _iso(_now(context))


def _now(context: Context) -> datetime:
    now = context.get("now")
    return now if isinstance(now, datetime) else timezone.now()


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _time(moment: datetime, words: str, urgency: str = "") -> SafeString:
    return format_html(
        '<time{} datetime="{}" title="{}">{}</time>',
        format_html(' class="{}"', urgency) if urgency else "",
        _iso(moment),
        times.exact_words(moment),
        words,
    )


def _copy_button(value: str, label: str) -> SafeString:
    return format_html(
        '<button class="copy" type="button" data-copy="{}" aria-label="Copy {}">Copy</button>', value, label
    )
