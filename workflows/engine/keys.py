"""Keys of a fan-out's items: looked at before the result that they come from is saved, so that it can be asked anew."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from workflows.authoring import Retryable, Workflow
from workflows.authoring.steps import Step

LONGEST_KEY = 200
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")


class UnusableKeys(Retryable):
    """The elements that a fan-out would map over cannot be told apart by their keys."""


def check(workflow: Workflow, step: Step, output: str) -> None:
    """UnusableKeys unless every element that a later step maps over has a key of its own.

    A key is text of 1 to 200 printable characters, or a whole number.
    """
    for later in workflow.steps:
        if later.each is None or not later.key or later.each.step != step.name or not later.each.field:
            continue
        seen: dict[str, int] = {}
        for number, element in enumerate(json.loads(output)[later.each.field], start=1):
            key = _key(element, later.key, number)
            if key in seen:
                raise UnusableKeys(
                    f"Elements {seen[key]} and {number} of {later.each.field} both have the {later.key} {key!r};"
                    f" {later.name} needs a different one for each."
                )
            seen[key] = number


def printable(key: str) -> str:
    """A key as it can stand in a header: itself if it is plain, else a digest of it."""
    return key if _PLAIN.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()[:32]


def _key(element: Any, name: str, number: int) -> str:
    value = element.get(name) if isinstance(element, dict) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise UnusableKeys(f"Element {number} has no {name}; give each one a {name} that is not empty.")
    if len(value) > LONGEST_KEY:
        raise UnusableKeys(
            f"The {name} of element {number} has {len(value):,} characters; a key has at most {LONGEST_KEY}."
        )
    if not value.isprintable():
        raise UnusableKeys(f"The {name} of element {number} holds a character that cannot be printed.")
    return value
