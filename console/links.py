"""Addresses of rooms whose pages may not be there: a link is given only where it leads somewhere."""

from __future__ import annotations

from typing import Any

from django.urls import NoReverseMatch, reverse


def link(name: str, *args: Any) -> str:
    """The address of a page, or "" where this installation has no such page."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""
