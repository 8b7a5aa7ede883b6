"""The families of refusal. Each action's own exceptions derive from one; `STATUS` is the one place that maps them."""

from __future__ import annotations


class Refused(Exception):
    """An action that was asked for and not done. The message is a sentence for the person who asked."""


class Conflict(Refused):
    """The state has moved on, or somebody else was first."""


class NotPermitted(Refused):
    """This person may not do this, now or ever; the message says who may."""


class Unprocessable(Refused):
    """The request itself is wrong; the message says how to put it right."""


class NotFound(Refused):
    """There is no such thing in this tenant."""


STATUS: dict[type[Refused], int] = {Conflict: 409, NotPermitted: 403, Unprocessable: 422, NotFound: 404}


def status_of(refusal: Refused) -> int:
    """The HTTP status of a refusal."""
    return next(status for family, status in STATUS.items() if isinstance(refusal, family))
