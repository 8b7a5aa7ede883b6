"""Fields that several rooms' forms ask for the same thing."""

from __future__ import annotations

from django import forms

from workflows.stopped import MOST_ATTEMPTS


def attempts_field(label: str, *, what: str = "it") -> forms.IntegerField:
    """How often what was stopped is tried again."""
    how_often = f"Say how often {what} is tried again, 1 to {MOST_ATTEMPTS}."
    return forms.IntegerField(
        label=label,
        min_value=1,
        max_value=MOST_ATTEMPTS,
        initial=3,
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), how_often),
    )
