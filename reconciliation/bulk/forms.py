"""The forms of a bulk: the filter that chooses, and the reason that confirms."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import forms

from access.roles import Role
from reconciliation.bulk.selecting import Filters
from reconciliation.bulk.verbs import TERMS, Terms
from reconciliation.words import kind_choices, standing_words
from workflows.forms import attempts_field


def _line(label: str, help_text: str = "") -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        max_length=300,
        help_text=help_text,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


def _moment(label: str, help_text: str = "") -> forms.DateTimeField:
    """A time in the zone that the pages are written in."""
    return forms.DateTimeField(
        label=label,
        required=False,
        help_text=help_text,
        error_messages={"invalid": "Enter a date and a time."},
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
    )


class ChooseForm(forms.Form):
    """What is to be done, and to what. Only what this person may do is offered."""

    verb = forms.ChoiceField(label="What to do", widget=forms.RadioSelect)
    workflow = forms.ChoiceField(label="Workflow", required=False)
    job = _line("Job", "Such as JOB-12, for the items of one job.")
    step = _line("Step", "Its name as the workflow writes it, such as write-rule.")
    error = _line("Last error", "A class such as TimeoutError, or how it ended: worker died, lease lost.")
    state = forms.ChoiceField(label="State", required=False)
    kind = forms.ChoiceField(label="Kind of case", required=False)
    receiver = forms.ChoiceField(label="Receiver, of cases", required=False)
    incident = _line("Incident, of cases", "Such as INC-3.")
    since = _moment("From", "When it stopped, failed, was opened (a case) or submitted (other jobs).")
    until = _moment("Until")

    def __init__(
        self,
        data: Any,
        *,
        roles: frozenset[Role],
        workflows: Iterable[tuple[str, str]],
        receivers: Iterable[tuple[str, str]],
        **more: Any,
    ) -> None:
        super().__init__(data, **more)
        may = [(verb.value, terms.title) for verb, terms in TERMS.items() if terms.role in roles]
        states = dict.fromkeys(state for terms in TERMS.values() for state in terms.states)
        for name, choices in (
            ("verb", may),
            ("workflow", [("", "Any"), *workflows]),
            (
                "state",
                [("", "Any that it can be done to"), *((s, standing_words(s)) for s in states)],
            ),
            ("kind", [("", "Any, or none"), *kind_choices()]),
            ("receiver", [("", "Any"), *receivers]),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = choices
        self.fields["verb"].error_messages["required"] = "Say what is to be done."

    def filters(self) -> Filters:
        """What was chosen, times with their zone."""
        given = {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in self.cleaned_data.items()
        }
        return Filters.read(given)


class ConfirmForm(forms.Form):
    """A reason that every one of them keeps, and how often each is tried again where that is asked."""

    attempts = attempts_field("Attempts for each item", what="each")
    reason = forms.CharField(
        label="Reason, kept in every journal",
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Say why: every one of them keeps it."},
    )

    def __init__(self, data: Any, terms: Terms) -> None:
        super().__init__(data)
        if not terms.wants_attempts:
            del self.fields["attempts"]
