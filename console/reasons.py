"""A reason that a person gives for what they do to a job or a receiver."""

from __future__ import annotations

from django import forms

from workflows.forms import attempts_field


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
