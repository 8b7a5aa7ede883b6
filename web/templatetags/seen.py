"""Values on which somebody decides, written so that what is seen is what is sent."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django import template
from django.template import Context
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from web import reading, seeing, times

register = template.Library()

LONG = 1000
"""Characters from which on a value is folded: the beginning and the whole length show, all of it opens."""

BEGINNING = 80
NOTHING = SafeString("")


@register.simple_tag
def warns(text: str | None) -> SafeString:
    """What has to be said above a text: unseen characters, and letters that look like others."""
    said = seeing.warnings("" if text is None else str(text))
    lines = format_html_join(" ", "<span>{}</span>", ((sentence,) for sentence in said))
    return format_html('<span class="warns">{}</span>', lines) if said else NOTHING


@register.simple_tag
def value(text: str | None, start: int = 0, end: int = 0) -> SafeString:
    """A value to the last blank, under its warnings; `start` to `end` is highlighted. A long one opens in full."""
    whole = "" if text is None else str(text)
    full = seeing.shown(whole, exact=True, mark=(start, end))
    if len(whole) <= LONG:
        return format_html('{}<span class="val" dir="auto">{}</span>', warns(whole), full)
    return _folded(whole, warns(whole), format_html('<span class="val" dir="auto">{}</span>', full))


@register.simple_tag
def prose(text: str | None) -> SafeString:
    """Sentences of others, with their line breaks, under their warnings. A long text opens in full."""
    whole = "" if text is None else str(text)
    full = format_html('<span class="val" dir="auto">{}</span>', seeing.shown(whole))
    if len(whole) <= 4 * LONG:
        return format_html("{}{}", warns(whole), full)
    return _folded(whole, warns(whole), full)


@register.simple_tag
def stored_amount(amount: Decimal | None, currency: str) -> SafeString:
    """The amount as it is stored and signed, in no reader's separators: 48200.00 EUR."""
    if amount is None:
        return NOTHING
    return format_html('<span class="stored">stored as {} {}</span>', format(amount, "f"), currency)


@register.simple_tag
def stored_time(moment: datetime | None) -> SafeString:
    """The time as it is stored and signed: 2026-03-12T12:19:03.120000Z."""
    return (
        NOTHING
        if moment is None
        else format_html('<span class="stored">{}</span>', times.stored_words(moment))
    )


@register.simple_tag(takes_context=True)
def reading_choices(context: Context) -> list[tuple[str, str, bool]]:
    """How one can read numbers and dates: value, how it looks, and whether it is chosen."""
    request = context.get("request")
    chosen = reading.chosen_by(request) if request is not None else ""
    return [(name, looks, name == chosen) for name, looks in reading.CHOICES]


@register.filter
def length_words(text: str) -> str:
    """12,345 characters in 3 lines"""
    lines = text.count("\n") + 1
    characters = f"{reading.figures(str(len(text)))} character{'' if len(text) == 1 else 's'}"
    return characters if lines == 1 else f"{characters} in {reading.figures(str(lines))} lines"


def _folded(whole: str, above: SafeString, full: SafeString) -> SafeString:
    return format_html(
        '{}<details class="long"><summary>Begins “<span dir="auto">{}</span>”. <b>{}, open to read all</b></summary>'
        "{}</details>",
        above,
        seeing.shown(whole[:BEGINNING]),
        length_words(whole),
        full,
    )
