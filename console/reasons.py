"""A reason that a person gives for what they do to a job or a receiver."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django import forms

from workflows.forms import attempts_field
from workflows.rerunning import Choice


class ReasonForm(forms.Form):
    """A reason that the journal keeps."""

    reason = forms.CharField(
        label="Reason, kept in the journal",
        widget=forms.Textarea(attrs={"rows": 3}),
        max_length=1000,
        error_messages={"required": "Say why; the journal keeps it."},
    )


class RedriveForm(ReasonForm):
    """How often what was stopped is tried again, and why it should work now."""

    attempts = attempts_field("Attempts for each item")
    field_order = ("attempts", "reason")


class CompensateForm(ReasonForm):
    """How much is taken back, where there was an amount, and why. `key`: one press of one form."""

    amount = forms.CharField(
        label="How much is taken back",
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "off", "inputmode": "decimal"}),
        error_messages={"required": "Enter the amount in figures, such as 4800.00."},
    )
    reason = forms.CharField(
        label="Why it is taken back",
        help_text="Its approvers read this.",
        widget=forms.Textarea(attrs={"rows": 3}),
        max_length=1000,
        error_messages={"required": "Say why it is taken back."},
    )
    key = forms.CharField(widget=forms.HiddenInput, max_length=80)
    field_order = ("amount", "reason", "key")

    def __init__(self, data: Any, *, left: Decimal | None, currency: str, key: str) -> None:
        super().__init__(data, initial={"key": key, "amount": left})
        if left is None:
            del self.fields["amount"]
        else:
            self.fields["amount"].help_text = f"In {currency}, at most {left:f}."


class RunAgainForm(ReasonForm):
    """From which step on, and why. What cannot be chosen any more the action refuses. `seen`: the job's `reruns`."""

    first = forms.CharField(
        label="From this step on", max_length=80, error_messages={"required": "Choose the first step."}
    )
    seen = forms.IntegerField(widget=forms.HiddenInput, min_value=0, max_value=2**15)
    field_order = ("first", "reason", "seen")

    def __init__(self, data: Any, choices: Sequence[Choice] = (), seen: int = 0) -> None:
        super().__init__(data, initial={"seen": seen})
        steps = [(c.step.name, f"{c.step.ordinal + 1}. {c.step.title}") for c in choices if not c.why_not]
        self.fields["first"].widget = forms.Select(choices=steps)
