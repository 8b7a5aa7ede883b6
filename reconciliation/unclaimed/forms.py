"""What a person posts to set lines aside. The form only gathers; the action decides."""

from __future__ import annotations

from typing import Any

from django import forms

from reconciliation.actions.setting_aside import MOST_TICKED
from reconciliation.actions.working import LONGEST
from reconciliation.unclaimed.choosing import Chosen
from statements.matching.models import AsideKind

TICKED, ALL = "ticked", "all"
_KINDS = [(kind.value, kind.value[:1].upper() + kind.value[1:]) for kind in AsideKind]


class AsideForm(forms.Form):
    """Which lines, what they are, and the case's version and the sums as they were on the screen."""

    version = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)
    seen = forms.CharField(required=False, max_length=2000, widget=forms.HiddenInput)
    which = forms.ChoiceField(
        choices=[(TICKED, "ticked"), (ALL, "all")], error_messages={"required": "Choose which lines."}
    )
    kind = forms.ChoiceField(
        label="What they are",
        choices=[("", "Choose"), *_KINDS],
        error_messages={"required": "Say what they are."},
    )
    words = forms.CharField(
        label="In your words",
        required=False,
        max_length=LONGEST,
        help_text="Needed for “other”. Kept with the case and each line.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def __init__(self, data: Any, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial, auto_id="f-%s")

    def asked(self, ticked: list[str]) -> dict[str, Any]:
        """What the action is called with beside the case and the person."""
        given = self.cleaned_data
        lines = [int(t) for t in ticked[:MOST_TICKED] if t.isascii() and t.isdigit() and len(t) < 19]
        which: dict[str, Any] = {"ticked": lines}
        if given["which"] == ALL:
            which = {"chosen": Chosen.read(self.data), "seen": given["seen"]}
        return {
            "version": given["version"],
            "kind": AsideKind(given["kind"]),
            "words": given["words"],
            **which,
        }
