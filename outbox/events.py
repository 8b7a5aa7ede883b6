"""The events that endpoints can choose. The room that writes one declares it in its AppConfig.ready()."""

from __future__ import annotations

TEST_EVENT = "endpoint.tested"
"""What an endpoint is sent when somebody tests it, chosen or not."""

_declared: dict[str, str] = {}


def declare(event: str, meaning: str) -> None:
    """Make an event known: its name in the journal, and one clause for people."""
    _declared[event] = meaning


def declared() -> dict[str, str]:
    """Every event that can be chosen, with its meaning, in the order of declaration."""
    return dict(_declared)
