"""Addresses of other rooms' pages, which an installation may not have."""

from __future__ import annotations

from django.urls import NoReverseMatch, reverse


def link(name: str, *args: object) -> str:
    """The address of another room's page, or "" where this installation has no such page."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""
