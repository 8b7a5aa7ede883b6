"""What a try can come to, and when the next one is due."""

from __future__ import annotations

import random
from dataclasses import dataclass

FIRST_SECONDS = 10.0
CAP_SECONDS = 2 * 3600.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint answered 2xx, or the mail server took it. `slow`: it took its time."""

    said: str
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """Not delivered, and another try may be. `not_before`: seconds that the other side asked for."""

    said: str
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class Never:
    """It cannot be delivered. `quiet`: that is as it should be, so nobody has to look at it. `gone`: no endpoint is there."""

    said: str
    quiet: bool = False
    gone: bool = False


Outcome = Delivered | Later | Never


def pause(attempts: int, not_before: float = 0.0) -> float:
    """Seconds to the next try: by chance between one and a bound that doubles, so that what failed together parts."""
    bound = min(CAP_SECONDS, FIRST_SECONDS * 2.0 ** min(attempts - 1, 20))
    return max(1.0 + random.random() * (bound - 1.0), min(not_before, CAP_SECONDS))  # noqa: S311 - no secret
