"""How a reader writes numbers and dates: by their own choice, else by what their browser asks for, else as we do.

The locale belongs to the request in hand. Only separators, grouping and the order of dates follow it: the digits are
never rounded, and where somebody decides the exact stored value stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache

from babel import Locale, UnknownLocaleError
from babel.dates import format_skeleton, format_time
from django.http import HttpRequest, HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.translation.trans_real import parse_accept_lang_header

OURS = "en-001"
"""Plain English, as this console has always written: 48,200.00 and Thu 12 Mar, 14:31:40."""

CHOICES: tuple[tuple[str, str], ...] = (
    ("", "As the browser asks"),
    (OURS, "48,200.00 and 12 Mar, 14:31"),
    ("en-US", "48,200.00 and Mar 12, 2:31 PM"),
    ("de", "48.200,00 and 12. März, 14:31"),
    ("de-CH", "48’200.00 and 12. März, 14:31"),
    ("fr", "48 200,00 and 12 mars, 14:31"),
    ("es", "48.200,00 and 12 mar, 14:31"),
    ("sv", "48 200,00 and 12 mars 14:31"),
    ("en-IN", "4,82,000.00 and 12 Mar, 2:31 pm"),
    ("ja", "48,200.00 and 3月12日 14:31"),
)
"""What a person can choose, by how it looks."""

CHOSEN = "reads_as"
_request: ContextVar[HttpRequest | None] = ContextVar("request", default=None)


class ReaderMiddleware:
    """Has the templates' tags write as the request's reader does."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        token = _request.set(request)
        try:
            response = self._get_response(request)
            patch_vary_headers(response, ("Accept-Language",))
            return response
        finally:
            _request.reset(token)


def chosen_by(request: HttpRequest) -> str:
    """What the reader has chosen, or nothing."""
    chosen = request.COOKIES.get(CHOSEN, "")
    return chosen if chosen in dict(CHOICES) else ""


def locale() -> Locale | None:
    """The reader's locale; None for ours, which needs no tables."""
    request = _request.get()
    if request is None:
        return None
    return _locale(chosen_by(request), request.headers.get("Accept-Language", "")[:500])


def figures(text: str) -> str:
    """A plain decimal text, "48200.00", with the reader's separators; digit by digit what it was."""
    found = locale()
    whole, _, fraction = text.partition(".")
    if found is None:
        return f"{int(whole):,}" + (f".{fraction}" if fraction else "")
    symbols = found.number_symbols.get("latn", found.number_symbols)
    first, later = found.decimal_formats[None].grouping
    group, decimal = str(symbols["group"]), str(symbols["decimal"])
    return _grouped(whole, group, first, later) + (f"{decimal}{fraction}" if fraction else "")


def clock_words(at: datetime, *, seconds: bool) -> str | None:
    """The time of day; None for ours. So are the two below."""
    found = locale()
    if found is None:
        return None
    return format_time(at, "medium" if seconds else "short", locale=found)


def day_words(at: datetime, skeleton: str) -> str | None:
    """The day by a skeleton of CLDR: "MMMEd", "yMMMd"."""
    found = locale()
    if found is None:
        return None
    if skeleton not in found.datetime_skeletons:
        skeleton = "yMMMd"
    return format_skeleton(skeleton, at, locale=found)


@lru_cache(maxsize=256)
def _locale(chosen: str, accepted: str) -> Locale | None:
    wanted = [chosen] if chosen else [name for name, _ in parse_accept_lang_header(accepted)]
    for name in wanted:
        if name.lower() in ("en", OURS, "en-gb", "*"):
            return None
        try:
            return Locale.parse(name, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return None


def _grouped(whole: str, group: str, first: int, later: int) -> str:
    """The digits from the right: the first group, then the others."""
    parts = [whole[-first:]]
    rest = whole[:-first]
    while rest:
        parts.insert(0, rest[-later:])
        rest = rest[:-later]
    return group.join(parts)
