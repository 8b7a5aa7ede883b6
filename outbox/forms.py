"""Forms of the page of notifications."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms

from outbox import events
from outbox.secrets import SECRETS


class EndpointForm(forms.Form):
    """Where another system listens, what it is told of, and where its secret is to be found."""

    name = forms.CharField(
        max_length=100, label="Name", help_text="Lower case letters, digits and hyphens. It stays."
    )
    url = forms.CharField(max_length=2000, label="Address", help_text="http:// or https://, with its path.")
    secret_reference = forms.CharField(
        max_length=200, label="Secret", help_text=f"Where workers find it, never the secret: {SECRETS.forms}"
    )
    grace_hours = forms.IntegerField(
        label="Hours for which the secret before signs too",
        min_value=0,
        max_value=24 * 30,
        initial=24,
        required=False,
        help_text="Counts only where the secret above is another one now.",
    )
    chosen = forms.MultipleChoiceField(label="Told of", widget=forms.CheckboxSelectMultiple)

    def __init__(self, *args: Any, adding: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = self.fields["chosen"]
        assert isinstance(chosen, forms.MultipleChoiceField)
        chosen.choices = [(name, f"{name}: {meaning}") for name, meaning in events.declared().items()]
        del self.fields["grace_hours" if adding else "name"]

    @property
    def grace(self) -> timedelta:
        return timedelta(hours=self.cleaned_data.get("grace_hours") or 0)


class DisableForm(forms.Form):
    """Why an endpoint is told nothing more."""

    reason = forms.CharField(max_length=1000)
