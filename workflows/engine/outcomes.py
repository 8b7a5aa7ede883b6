"""What came of an attempt: classifying errors, spacing retries, and making an output storable."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, InterfaceError
from pydantic import TypeAdapter, ValidationError

from web.redaction import hide
from workflows.authoring import Invalid, Permanent, Retry, Retryable, Usage
from workflows.claims import Claim
from workflows.engine.traces import trace_of
from workflows.kinds import AttemptOutcome
from workflows.states import ItemState

if TYPE_CHECKING:
    from workflows.authoring.steps import Parameter

LARGEST_OUTPUT = 10_000_000
DEEPEST_OUTPUT = 100
LONGEST_MESSAGE = 2000
_RETRYABLE_STATUS = {408, 425, 429}
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Asked:
    """What an item waits for, as its expectation is inserted. Until a time, for some seconds, or without an end."""

    kind: str
    key: str = ""
    source: str = ""
    question: str = ""
    role: str = ""
    schema: str = "{}"
    until: datetime | None = None
    seconds: float | None = None


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
    trace: str = ""
    answer: str = ""
    wait_until: datetime | None = None
    wait_seconds: float | None = None
    """From when it is saved, by the database's clock; `wait_until` is for times that mean something to people."""
    closes_limit: float | None = None
    """Seconds for which the other side asked that nothing more be sent under this item's limit."""
    reset_attempts: bool = False
    usage: Usage | None = None
    asked: Asked | None = None
    settles: str = ""
    """How its expectation ended, where its time was up."""


class MadeByAnOlderVersion(Permanent):
    """What was saved under this revision is not of the type that a step takes now: trying again cannot help."""

    @classmethod
    def of(cls, parameter: Parameter, error: ValidationError) -> MadeByAnOlderVersion:
        """With a sentence that says what was saved, where it does not fit, and what to do."""
        what = {"input": "The job's input", "element": "What this item works on"}
        saved = what.get(parameter.source, f"What {parameter.step} saved")
        return cls(
            f"{saved} was made by an older version of the workflow, and is not what this step takes as"
            f" {parameter.name}: {_first(error)}. Put the type back, or give it a revision of its own with a migration."
        )


class NotStorable(Permanent):
    """A handler returned something that cannot be kept; the message says what and where."""


class TooLate(Exception):
    """The item's elapsed limit passed before this attempt could begin."""


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
    """The result of an attempt that raised: again later, exhausted, or refused. `now`: when it ended."""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    told = message_of(error) or name
    base: dict[str, Any] = {
        "claim": claim,
        "started_at": started,
        "ended_at": now,
        "error_class": name[:200],
        "trace": storable(hide(trace_of(error))),
        "answer": storable(hide(usage.answer)) if usage is not None else "",
        "usage": usage,
    }
    if not is_retryable(error, retry):
        return Result(outcome=AttemptOutcome.PERMANENT, state=ItemState.REFUSED, error_message=told, **base)
    asked = retry_after(error, now)
    base["closes_limit"] = asked if claim.limit_name else None
    wait = pause(retry, claim.attempt, asked=asked)
    gone = claim.elapsed_before + (now - started).total_seconds()
    if retry.elapsed is not None and gone + wait > retry.elapsed:
        told = f"{told[: LONGEST_MESSAGE - 200]} ({_too_late(retry.elapsed, gone, wait)})"
        return Result(outcome=AttemptOutcome.RETRYABLE, state=ItemState.EXHAUSTED, error_message=told, **base)
    if claim.attempt >= claim.attempts_limit:
        return Result(outcome=AttemptOutcome.RETRYABLE, state=ItemState.EXHAUSTED, error_message=told, **base)
    return Result(
        outcome=AttemptOutcome.RETRYABLE,
        state=ItemState.BACKING_OFF,
        wait_seconds=wait,
        error_message=told,
        **base,
    )


def _too_late(elapsed: float, gone: float, wait: float) -> str:
    return f"{gone:.0f} s have passed, and the next try in {wait:.0f} s would be later than {elapsed:g} s after the first"


def message_of(error: BaseException) -> str:
    """What an error says, without secrets, cut at 2,000 characters."""
    try:
        said = str(error)
    except Exception as worse:
        said = f"It cannot say what it is: its __str__ raised {type(worse).__qualname__}."
    return storable(hide(said[: 10 * LONGEST_MESSAGE]))[:LONGEST_MESSAGE]


def is_retryable(error: BaseException, retry: Retry) -> bool:
    """The stage's own rules first; then transport faults, 408, 425, 429, 5xx, invalid model output and unknown errors
    retry, other 4xx do not. `Permanent` and `Invalid` never do."""
    if isinstance(error, (Permanent, Invalid)):
        return False
    status = status_of(error)
    if _is_of(error, status, retry.stop_on):
        return False
    if _is_of(error, status, retry.retry_on):
        return True
    if isinstance(error, (Retryable, ValidationError, DatabaseError, InterfaceError)):
        return True
    return not (status is not None and 400 <= status < 500) or status in _RETRYABLE_STATUS


def status_of(error: BaseException) -> int | None:
    """The HTTP status that a client library's error carries, if it does."""
    for owner in (error, getattr(error, "response", None)):
        status = getattr(owner, "status_code", None)
        if isinstance(status, int) and not isinstance(status, bool):
            return int(status)
    return None


def _is_of(error: BaseException, status: int | None, rules: tuple[type[BaseException] | int, ...]) -> bool:
    return any(status == rule if isinstance(rule, int) else isinstance(error, rule) for rule in rules)


def pause(retry: Retry, attempt: int, *, asked: float | None) -> float:
    """Seconds until the next try: what the other side asked for, else exponential with full jitter and a cap.

    What was asked for is kept to and spread by a tenth of it, so that those who were told together do not come
    together.
    """
    ceiling = min(retry.longest_wait, retry.first_wait * math.pow(2, min(attempt - 1, 30)))
    if asked is None:
        return random.uniform(0, ceiling)  # noqa: S311 - spreads retries, keeps no secret
    spread = min(1.0, retry.first_wait) + min(asked / 10, 60.0)
    return min(asked, retry.longest_retry_after) + random.uniform(0, spread)  # noqa: S311


def retry_after(error: BaseException, now: datetime) -> float | None:
    """Seconds that the error asks to wait: its own, or a Retry-After header in seconds or as a date.

    A date is read against the other side's own clock (its Date header) where that is given. What cannot be read is
    as if it were not there. Source: RFC 9110, section 10.2.3.
    """
    if isinstance(error, Retryable):
        own = error.retry_after
        return None if own is None or not math.isfinite(own) else max(0.0, own)
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    value = str(headers.get("retry-after") or "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    at = _date(value)
    if at is None:
        return None
    return max(0.0, (at - (_date(str(headers.get("date") or "")) or now)).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


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
