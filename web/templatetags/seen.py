"""Values on which somebody decides, written so that what is seen is what is sent."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from web import seeing

register = template.Library()

LONG = 1000
"""Characters from which on a value is folded: the beginning and the whole length show, all of it opens."""

BEGINNING = 160
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


@register.filter
def length_words(text: str) -> str:
    """12,345 characters in 3 lines"""
    lines = text.count("\n") + 1
    characters = f"{len(text):,} character{'' if len(text) == 1 else 's'}"
    return characters if lines == 1 else f"{characters} in {lines:,} lines"


def _folded(whole: str, above: SafeString, full: SafeString) -> SafeString:
    return format_html(
        '{}<details class="long"><summary>Begins “<span dir="auto">{}</span>”. <b>{}, open to read all</b></summary>'
        "{}</details>",
        above,
        seeing.shown(whole[:BEGINNING]),
        length_words(whole),
        full,
    )
