"""What of an operation in doubt others have already seen done, which is not all of it: rooms above know.

While something is, nothing sends it again by itself and no look-up's "nothing there" settles it: the two disagree, and a
person decides.
"""

from __future__ import annotations

from collections.abc import Callable

from dispatch.models import Operation

Knows = Callable[[Operation], bool]
_knows: list[Knows] = []


def knows_parts(knows: Knows) -> None:
    """Have a room above say whether a part of an operation is known to be done."""
    _knows.append(knows)


def is_done_in_part(operation: Operation) -> bool:
    """Whether a part of it is known to be done. A query for each room that knows."""
    return any(knows(operation) for knows in _knows)
