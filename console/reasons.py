"""A reason that a person gives for what they do to a job or a receiver."""

from __future__ import annotations

from django import forms

from workflows.stopped import MOST_ATTEMPTS


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

    attempts = forms.IntegerField(
        label="Attempts for each item",
        min_value=1,
        max_value=MOST_ATTEMPTS,
        initial=3,
        error_messages={"required": "Say how often it is tried again, 1 to 20."},
    )
    field_order = ("attempts", "reason")
