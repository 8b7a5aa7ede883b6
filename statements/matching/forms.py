"""What a person posts about lines. The forms only gather; the actions decide."""

from __future__ import annotations

from typing import Any

from django import forms

from statements.matching.actions.matching import LONGEST_REASON
from statements.matching.settings import LARGEST_GROUP, Settings


class Numbers(forms.CharField):
    """Ids with commas between them, from a choice on the page."""

    def clean(self, value: Any) -> list[int]:
        text = super().clean(value)
        parts = text.split(",")
        if not all(p.isascii() and p.isdigit() and len(p) < 18 for p in parts) or len(parts) > LARGEST_GROUP:
            raise forms.ValidationError("Choose what the line is.")
        return [int(p) for p in parts]


def _reason(label: str, missing: str = "") -> forms.CharField:
    return forms.CharField(
        label=label,
        required=bool(missing),
        max_length=LONGEST_REASON,
        error_messages={"required": missing},
        widget=forms.Textarea(attrs={"rows": 2}),
    )


class Sides(Numbers):
    """Operations; and, before a colon, further lines that are these operations together with the page's own."""

    def clean(self, value: Any) -> Any:
        further, colon, operations = str(value or "").rpartition(":")
        return super().clean(further) if colon else [], super().clean(operations)


class MatchForm(forms.Form):
    """The operation, or the operations, that a line is, or that it is with further lines."""

    operations = Sides(error_messages={"required": "Choose what the line is."})
    reason = _reason("Why (kept with the match)")


class UnmatchForm(forms.Form):
    """Why a match is taken back."""

    reason = _reason("Why it is not this line", "Say why it is not this line.")


class TakeBackForm(forms.Form):
    """Why a line that was set aside is looked at again."""

    reason = _reason("Why it is to be looked at again", "Say why the line is to be looked at again.")


class PeriodForm(forms.Form):
    """An account and days; what is empty is that of the latest statement."""

    account = forms.CharField(label="Account", required=False, max_length=200, empty_value=None, strip=False)
    first = forms.DateField(label="From", required=False)
    last = forms.DateField(label="To", required=False)


class SettingsForm(forms.Form):
    """How far the ladder goes for a receiver."""

    direction = forms.ChoiceField(
        label="Operations move money",
        choices=[("out", "out of the statement’s account"), ("in", "into the statement’s account")],
    )
    takes_references = forms.BooleanField(
        label="The machine takes an equal reference and amount",
        required=False,
        help_text="Only where exactly one line and one operation have them.",
    )
    tolerance = forms.IntegerField(
        label="Amounts may differ by",
        min_value=0,
        max_value=10**12,
        help_text="In the smallest unit (cents), either way: for suggestions, and for matches that two people make.",
    )
    window_days = forms.IntegerField(label="Days after the send", min_value=0, max_value=90)
    likeness = forms.DecimalField(
        label="Share of words that must be alike", min_value=0.3, max_value=1, decimal_places=2, max_digits=3
    )
    largest_group = forms.IntegerField(label="Tried together, at most", min_value=2, max_value=LARGEST_GROUP)
    alone_up_to = forms.IntegerField(
        label="Set aside by one person up to",
        min_value=0,
        max_value=10**15,
        help_text="In the smallest unit (cents), a line. Above it a second person has to agree; 0: always.",
    )

    def __init__(self, data: Any, *, settings: Settings) -> None:
        super().__init__(data, initial=settings.model_dump(), auto_id="f-%s")

    def settings(self) -> Settings:
        """What was entered, as one value."""
        return Settings.model_validate(
            {**self.cleaned_data, "likeness": float(self.cleaned_data["likeness"])}
        )
