"""A copy is noticed before anything is done with it: by `migrate`, and by a worker process before it works."""

from __future__ import annotations

from collections.abc import Callable

from access.switches import was_copied

_copied: list[Callable[[], None]] = []


def when_copied(take_note: Callable[[], None]) -> None:
    """Have a room above shut dispatch and take note of what may have been sent. It can be repeated at any line."""
    _copied.append(take_note)


def look() -> bool:
    """Whether these rows were put back from a dump; if so, everybody who registered has taken note before it answers."""
    copied = was_copied()
    if copied:
        for take_note in _copied:
            take_note()
    return copied
