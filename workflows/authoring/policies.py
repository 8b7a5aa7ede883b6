"""How often and how long a stage's items are tried, and how many of them must succeed."""

from __future__ import annotations

import math
from dataclasses import dataclass

LONGEST_RETRY_AFTER = 24 * 3600.0
LONGEST_ATTEMPT = 600.0
"""Seconds: more than any one model call takes; a step that needs longer says so."""


class BadDefinition(Exception):
    """The workflow's code does not say clearly what it means."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How an item of a stage is tried again. All times in seconds.

    Up to `attempts`; between two of them an exponential wait with full jitter, `first_wait` doubled each time and at
    most `longest_wait`; what the other side asks for (Retry-After) instead, up to `longest_retry_after`. `elapsed`:
    no attempt begins later than that after the item's first. `timeout`: one attempt takes no longer; a handler that
    does is left behind, and what it returns later is not used. `retry_on` and `stop_on` classify errors before the
    general rules do: exception classes, or HTTP statuses that an error carries as `status_code`. Raises BadDefinition
    for less than 1 or more than 1,000 attempts, for times that are negative or not finite, for what is in both lists.
    """

    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 300.0
    longest_retry_after: float = LONGEST_RETRY_AFTER
    elapsed: float | None = None
    timeout: float = LONGEST_ATTEMPT
    retry_on: tuple[type[BaseException] | int, ...] = ()
    stop_on: tuple[type[BaseException] | int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= 1000:
            raise BadDefinition("Retry: attempts is between 1 and 1000")
        times = (self.first_wait, self.longest_wait, self.longest_retry_after, self.elapsed or 0.0)
        if not all(math.isfinite(t) and t >= 0 for t in times):
            raise BadDefinition("Retry: times are seconds, not negative, and finite")
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise BadDefinition("Retry: a timeout is seconds, more than none, and finite")
        both = set(self.retry_on) & set(self.stop_on)
        if both:
            raise BadDefinition(f"Retry: {', '.join(map(str, both))} cannot both retry and stop")


@dataclass(frozen=True, slots=True)
class Needs:
    """When a fan-out is enough: `count` items succeeded, or a `share` (0 to 1) of them; neither means all.

    Once enough have succeeded the others are waited for until each has come to an end, or for `patience` seconds
    (0: not at all). What is still open then is skipped: its result, if it comes, is recorded and not used. Raises
    BadDefinition for both a count and a share, for what is out of range, for patience where all are needed.
    """

    count: int | None = None
    share: float | None = None
    patience: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.share is not None:
            raise BadDefinition("Needs: give a count or a share")
        if self.count is not None and self.count < 0:
            raise BadDefinition("Needs: a count is not negative")
        if self.share is not None and not 0 <= self.share <= 1:
            raise BadDefinition("Needs: a share is between 0 and 1")
        if self.patience is not None and not (math.isfinite(self.patience) and self.patience >= 0):
            raise BadDefinition("Needs: patience is seconds, not negative, and finite")
        if self.patience is not None and self.count is None and self.share is None:
            raise BadDefinition("Needs: patience goes with a count or a share")

    @classmethod
    def read(cls, given: Needs | int | float | str) -> Needs:
        """From the short forms: "all", a count (80), a share (0.8 or "80%"). Raises BadDefinition for others."""
        if isinstance(given, Needs):
            return given
        if isinstance(given, bool):
            raise BadDefinition(f'needs={given!r}: give "all", a count, a share or Needs(...)')
        if isinstance(given, int):
            return cls(count=given)
        if isinstance(given, float):
            return cls(share=given)
        if given == "all":
            return cls()
        number = given.removesuffix("%")
        if given.endswith("%") and number.replace(".", "", 1).isdigit():
            return cls(share=float(number) / 100)
        raise BadDefinition(f'needs={given!r}: give "all", a count, a share or Needs(...)')

    def of(self, total: int) -> int | None:
        """How many of `total` items must succeed; None: all."""
        if self.count is not None:
            return min(self.count, total)
        return None if self.share is None else math.ceil(total * self.share - 1e-9)
