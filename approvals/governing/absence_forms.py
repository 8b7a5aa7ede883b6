"""What people say about their absences and what they lend. Times are those of their organisation's clock."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.http import QueryDict
from pydantic import ValidationError

from access import authority
from access.actions.delegations import LONGEST_REASON, Lending
from access.roles import Role
from access.spans import Span
from approvals.facts import all_in_force
from approvals.governing.moments import NoMoment, read_moment
from approvals.ruleset import Money
from workflows.wording import problems_in


def _moment(label: str, help_text: str = "") -> forms.CharField:
    return forms.CharField(
        label=label,
        max_length=30,
        help_text=help_text,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class SpanForm(forms.Form):
    """From when until when."""

    use_required_attribute = False
    begins = _moment("From", "A day, or a day and a time: 2026-12-24 14:30.")
    ends = _moment("Until", "A day is meant with its evening.")

    def __init__(self, data: QueryDict | None, *, zone: ZoneInfo, **more: Any) -> None:
        super().__init__(data, **more)
        self.zone = zone

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        for name in ("begins", "ends"):
            if name in given:
                try:
                    given[name] = read_moment(given[name], self.zone, end=name == "ends")
                except NoMoment as none:
                    self.add_error(name, str(none))
        return given

    @property
    def span(self) -> Span:
        return Span(self.cleaned_data["begins"], self.cleaned_data["ends"])


class LendForm(SpanForm):
    """To whom, for which policies, up to what, and why. As part of an absence it may be left empty."""

    taker = forms.ChoiceField(label="To")
    policies = forms.MultipleChoiceField(
        required=False,
        label="For these policies only",
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: for all of them.",
    )
    most = forms.CharField(
        required=False,
        max_length=40,
        label="Up to",
        help_text="Never above what you may approve yourself.",
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )
    currency = forms.CharField(required=False, max_length=10, widget=forms.TextInput(attrs={"size": 4}))
    reason = forms.CharField(max_length=LONGEST_REASON, widget=forms.Textarea(attrs={"rows": 2}))

    def __init__(self, data: QueryDict | None, *, giver_id: int, optional: bool = False, **more: Any) -> None:
        super().__init__(data, **more)
        others = [p for p in authority.people_with(Role.MANAGER) if p.pk != giver_id]
        first = "nobody" if optional else "Choose…"
        self.fields["taker"].choices = [("", first), *((str(p.pk), p.username) for p in others)]  # type: ignore[attr-defined]
        self.fields["policies"].choices = [(p.name, p.name) for p in all_in_force()]  # type: ignore[attr-defined]
        self.optional = optional
        if optional:
            self.fields["taker"].required = self.fields["reason"].required = False

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        amount, currency = given.get("most", "").strip(), given.get("currency", "").strip().upper()
        given["most"], given["currency"] = None, ""
        if amount or currency:
            try:
                money = Money.model_validate({"amount": amount, "currency": currency})
                given["most"], given["currency"] = Decimal(money.amount), str(money.currency)
            except ValidationError as invalid:
                for place, sentence in problems_in(invalid):
                    named = "currency" if place == "currency" else "most"
                    self.add_error(named, f"{sentence[:1].upper()}{sentence[1:]}.")
        if self.optional and given.get("taker") and not given.get("reason", "").strip():
            self.add_error("reason", "Say why: whoever reads a signature later has only your reason.")
        return given

    @property
    def lending(self) -> Lending | None:
        """What is lent, or None where it was left empty."""
        given = self.cleaned_data
        if not given["taker"]:
            return None
        return Lending(
            taker_id=int(given["taker"]),
            span=self.span,
            reason=given["reason"],
            policies=tuple(given["policies"]),
            most_amount=given["most"],
            most_currency=given["currency"],
        )
