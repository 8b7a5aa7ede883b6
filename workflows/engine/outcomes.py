"""What came of an attempt: classifying errors, spacing retries, and making an output storable."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from django.db import DatabaseError, InterfaceError
from pydantic import TypeAdapter, ValidationError

from workflows.authoring import Invalid, Permanent, Retry, Retryable, Usage
from workflows.claims import Claim
from workflows.kinds import AttemptOutcome
from workflows.states import ItemState

LARGEST_OUTPUT = 10_000_000
DEEPEST_OUTPUT = 100
LONGEST_MESSAGE = 2000
LONGEST_RETRY_AFTER = 24 * 3600.0
_RETRYABLE_STATUS = {408, 425, 429}


@dataclass(frozen=True, slots=True)
class Result:
    """One finished attempt, as the committer records it."""

    claim: Claim
    outcome: AttemptOutcome
    state: ItemState
    started_at: datetime
    ended_at: datetime
    output: str | None = None
    digest: str = ""
    error_class: str = ""
    error_message: str = ""
    wait_until: datetime | None = None
    reset_attempts: bool = False
    usage: Usage | None = None


class NotStorable(Permanent):
    """A handler returned something that cannot be kept; the message says what and where."""


def encode(adapter: TypeAdapter[Any], value: Any) -> tuple[str, str]:
    """A handler's result as canonical JSON text with its SHA-256, or NotStorable."""
    try:
        checked = adapter.validate_python(value)
        plain = adapter.dump_python(checked, mode="json")
        text = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        raw = text.encode()
    except ValidationError as error:
        raise NotStorable(f"The step returned something else than it declares: {_first(error)}") from error
    except UnicodeEncodeError as error:
        raise NotStorable("The step returned text with half a character pair (a lone surrogate).") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise NotStorable(f"The step returned something that cannot be written as JSON: {error}") from error
    if len(raw) > LARGEST_OUTPUT:
        raise NotStorable(f"The step returned {len(raw):,} bytes; at most {LARGEST_OUTPUT:,} can be kept.")
    if "null" in text and (path := _find_not_finite(adapter.dump_python(checked), "")) is not None:
        raise NotStorable(f"The step returned a number that is not finite, at {path or 'the top'}.")
    if "\\u0000" in text and (path := _find_nul(plain, "")) is not None:
        raise NotStorable(f"The step returned a NUL character, at {path or 'the top'}.")
    if text.count("[") + text.count("{") > DEEPEST_OUTPUT and _depth(plain) > DEEPEST_OUTPUT:
        raise NotStorable(f"The step returned something nested deeper than {DEEPEST_OUTPUT} levels.")
    return text, hashlib.sha256(raw).hexdigest()


def failed(
    claim: Claim, error: BaseException, *, retry: Retry, usage: Usage | None, started: datetime, now: datetime
) -> Result:
    """The result of an attempt that raised: again later, exhausted, or refused."""
    retryable = is_retryable(error)
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    base: dict[str, Any] = {
        "claim": claim,
        "started_at": started,
        "ended_at": now,
        "error_class": name[:200],
        "error_message": storable(str(error) or name)[:LONGEST_MESSAGE],
        "usage": usage,
    }
    if not retryable:
        return Result(outcome=AttemptOutcome.PERMANENT, state=ItemState.REFUSED, **base)
    if claim.attempt >= claim.attempts_limit:
        return Result(outcome=AttemptOutcome.RETRYABLE, state=ItemState.EXHAUSTED, **base)
    wait = pause(retry, claim.attempt, asked=retry_after(error, now))
    return Result(
        outcome=AttemptOutcome.RETRYABLE,
        state=ItemState.BACKING_OFF,
        wait_until=now + timedelta(seconds=wait),
        **base,
    )


def is_retryable(error: BaseException) -> bool:
    """Transport faults, 408, 425, 429, 5xx, invalid model output and unknown errors retry; other 4xx do not."""
    if isinstance(error, (Permanent, Invalid)):
        return False
    if isinstance(error, (Retryable, ValidationError, DatabaseError, InterfaceError)):
        return True
    status = getattr(error, "status_code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )
    if isinstance(status, int) and 400 <= status < 500:
        return status in _RETRYABLE_STATUS
    return True


def pause(retry: Retry, attempt: int, *, asked: float | None) -> float:
    """Seconds until the next try: what the other side asked for, else exponential with full jitter and a cap."""
    ceiling = min(retry.longest_wait, retry.first_wait * math.pow(2, min(attempt - 1, 30)))
    own = random.uniform(0, ceiling)  # noqa: S311 - spreads retries, keeps no secret
    if asked is None:
        return own
    return min(asked, LONGEST_RETRY_AFTER) + random.uniform(0, min(1.0, retry.first_wait))  # noqa: S311


def retry_after(error: BaseException, now: datetime) -> float | None:
    """Seconds that the error asks to wait: its own, or a Retry-After header in seconds or as a date."""
    if isinstance(error, Retryable):
        return error.retry_after
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    if not value:
        return None
    if value.strip().isdigit():
        return float(value.strip())
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def storable(text: str) -> str:
    """Text that PostgreSQL takes: NUL and lone surrogates are made visible."""
    return text.replace("\0", "\\u0000").encode("utf-8", "backslashreplace").decode()


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(p) for p in first['loc'])}: {first['msg']}"


def _find_nul(value: Any, path: str) -> str | None:
    return _find(value, path, lambda v: isinstance(v, str) and "\0" in v)


def _find_not_finite(value: Any, path: str) -> str | None:
    """Where an infinity or NaN stands, which pydantic would write as null."""
    return _find(value, path, lambda v: isinstance(v, float) and not math.isfinite(v))


def _find(value: Any, path: str, is_bad: Callable[[Any], bool]) -> str | None:
    """The path of the first bad leaf or key of a plain value, or None."""
    if is_bad(value):
        return path
    is_list = isinstance(value, (list, tuple, set, frozenset))
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if is_list else ()
    for key, inner in pairs:
        if is_bad(key):
            return path
        found = _find(inner, f"{path}.{key}".lstrip("."), is_bad)
        if found is not None:
            return found
    return None


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(v) for v in inner), default=0)
