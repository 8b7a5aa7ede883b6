"""Entering the password again, right before something that matters: each try is a row, and wrong ones run out.

A right entry counts for its session alone, for five minutes. Whether one is there is read from the rows, never taken
from the request, so the decision that needs it can ask by itself.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from django.contrib.auth.hashers import check_password
from django.db import transaction

from access.locks import lock_person
from access.models import PasswordEntry
from access.refusals import NotPermitted

COUNTS_FOR = timedelta(minutes=5)
WRONG_TRIES = 5
WITHIN = timedelta(minutes=15)


class WrongPassword(NotPermitted):
    """It is not this person's password."""


class TooManyWrong(NotPermitted):
    """Five wrong ones in fifteen minutes: no further is looked at until the time is over."""


def session_digest(key: str | None) -> str:
    """How a session is named in rows: SHA-256 of its key; "" for none, for which nothing ever counts."""
    return hashlib.sha256(key.encode()).hexdigest() if key else ""


def enter(*, person_id: int, password: str, session: str, now: datetime) -> None:
    """Check a password and keep that it was entered. Raises WrongPassword, TooManyWrong.

    `session`: from `session_digest`. Opens its own transactions; tries of one person queue, so that no burst of them
    gets more than five.
    """
    with transaction.atomic(durable=True):
        person = lock_person(person_id)
        _still_allowed(person_id, now)
        right = person.is_active and check_password(password, person.password)
        PasswordEntry.objects.create(person_id=person_id, session=session, right=right, at=now)
    if not right:
        raise WrongPassword("That is not your password. Nothing was decided.")


def entered_at(person_id: int, session: str, now: datetime) -> datetime | None:
    """When this person last entered the right password in this session, if that still counts."""
    if not session:
        return None
    rows = PasswordEntry.objects.filter(
        person_id=person_id, session=session, right=True, at__gt=now - COUNTS_FOR
    )
    return rows.order_by("-at").values_list("at", flat=True).first()


def _still_allowed(person_id: int, now: datetime) -> None:
    tries = PasswordEntry.objects.filter(person_id=person_id, at__gt=now - WITHIN).order_by("-at", "-pk")
    latest = list(tries.values_list("right", "at")[:WRONG_TRIES])
    if len(latest) == WRONG_TRIES and not any(right for right, _ in latest):
        again = latest[-1][1] + WITHIN
        raise TooManyWrong(
            f"There were {WRONG_TRIES} wrong passwords. Try again after {again:%H:%M} UTC, or ask an admin."
        )
