"""A rule set as a form: its plain rules, and rows for levels, limits, sums, rates, reminders and escalation.

The forms only gather; what is right and wrong is said by the rule set itself, the same as for a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django import forms
from django.http import QueryDict

from access.roles import Role
from approvals.policy_text import Fault, faults_in
from approvals.ruleset import RuleSet

ROLES = [
    ("manager", "any manager"),
    *((r.value, f"who is also {r.value}") for r in Role if r is not Role.MANAGER),
]


def _text(label: str, **attrs: Any) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "off", **attrs})
    return forms.CharField(label=label, required=False, max_length=200, widget=widget)


def _number(label: str) -> forms.CharField:
    return _text(label, inputmode="numeric", size=6)


def _time(label: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"type": "time"})
    return forms.CharField(label=label, required=False, max_length=20, widget=widget)


class PlainRules(forms.Form):
    """The rules that are no lists."""

    use_required_attribute = False
    four_eyes = forms.BooleanField(
        label="Nobody signs what they started, corrected or had a hand in", required=False
    )
    bulk = forms.BooleanField(label="It may be approved together with others", required=False)
    waives_approval = forms.BooleanField(label="Nobody is asked: the policy itself approves", required=False)
    expires_after_minutes = _number("Minutes after it is asked")
    expires_days = _number("or days later")
    expires_at = _time("at")
    reauthenticate = forms.ChoiceField(
        label="Whoever approves enters their password again",
        choices=[("never", "never"), ("above", "above an amount"), ("always", "always")],
        required=False,
    )
    above_amount = _text("Above", inputmode="decimal")
    above_currency = _text("Currency", size=4)

    def value(self) -> dict[str, Any]:
        """The values that were filled in."""
        given = {n: str(self.data.get(self.add_prefix(n)) or "").strip() for n in self.fields}
        flags = ("four_eyes", "bulk", "waives_approval")
        value: dict[str, Any] = {flag: bool(given[flag]) for flag in flags}
        for name in ("expires_after_minutes", "expires_days", "expires_at", "reauthenticate"):
            if given[name]:
                value[name] = given[name]
        money = {"amount": given["above_amount"], "currency": given["above_currency"]}
        if any(money.values()):
            value["reauthenticate_above"] = {k: v for k, v in money.items() if v}
        return value


class Row(forms.Form):
    """One row of a list. Where all that matters in it is empty it says nothing."""

    use_required_attribute = False
    matters: ClassVar[tuple[str, ...]] = ()

    def value(self) -> dict[str, Any]:
        """What was filled in; empty for a row that says nothing."""
        given = {n: str(self.data.get(self.add_prefix(n)) or "").strip() for n in self.fields}
        if not any(given[name] for name in self.matters):
            return {}
        flags = [n for n, f in self.fields.items() if isinstance(f, forms.BooleanField)]
        return {n: bool(v) if n in flags else v for n, v in given.items() if v}


class LevelRow(Row):
    matters = ("quorum", "group", "name")
    quorum = _number("Signatures")
    group = _text("Of the group", list="known-groups")
    role = forms.ChoiceField(label="By", choices=ROLES, required=False)
    name = _text("Called")


class LimitRow(Row):
    matters = ("amount", "currency", "person", "group")
    amount = _text("Up to", inputmode="decimal")
    currency = _text("Currency", size=4)
    person = _text("For the person", list="known-people")
    group = _text("or the group", list="known-groups")
    workflow = _text("In the workflow", list="known-workflows")


class RateRow(Row):
    matters = ("pair", "rate")
    pair = _text("Pair, as in USD/EUR")
    rate = _text("1 of the first is", inputmode="decimal")


class SumRow(Row):
    matters = ("amount", "currency")
    amount = _text("At most", inputmode="decimal")
    currency = _text("Currency", size=4)
    per = forms.ChoiceField(
        label="Of",
        choices=[
            ("policy", "all approvals"),
            ("recipient", "what one recipient gets"),
            ("approver", "what one person approves"),
        ],
        required=False,
    )
    days = _number("In days")


class ReminderRow(Row):
    matters: ClassVar[tuple[str, ...]] = ("after_minutes", "before_expiry_minutes", "days", "at")
    after_minutes = _number("Minutes after it is asked")
    before_expiry_minutes = _number("or minutes before it expires")
    days = _number("or days later")
    at = _time("at")


class EscalationRow(ReminderRow):
    matters: ClassVar[tuple[str, ...]] = (*ReminderRow.matters, "person", "group", "role")
    person = _text("To the person", list="known-people")
    group = _text("or the group", list="known-groups")
    role = forms.ChoiceField(
        label="or every", choices=[("", "–"), *((r.value, r.value) for r in Role)], required=False
    )
    may_decide = forms.BooleanField(label="They may sign from then on", required=False)


ROWS: dict[str, tuple[str, type[Row], int]] = {
    "levels": ("Levels, which sign in this order", LevelRow, 5),
    "limits": ("Limits: what one person approves at most; the narrowest that fits holds", LimitRow, 200),
    "rates": ("Rates: without one, amounts of two currencies are never compared", RateRow, 100),
    "sums": ("Sums: what approvals add up to at most", SumRow, 20),
    "reminders": ("Reminders", ReminderRow, 20),
    "escalation": ("Escalation", EscalationRow, 20),
}


class RulesForm:
    """All of it: the plain rules and one formset for each list."""

    def __init__(self, data: QueryDict | None = None, rules: RuleSet | None = None) -> None:
        shown = _initial(rules or RuleSet())
        self.plain = PlainRules(data, initial=shown, auto_id="id_%s")
        self.lists = {
            name: forms.formset_factory(row, extra=1, max_num=most, absolute_max=most)(
                data, prefix=name, initial=shown[name]
            )
            for name, (_, row, most) in ROWS.items()
        }
        self.errors: list[str] = []

    @property
    def sections(self) -> list[tuple[str, str, Any]]:
        """Name, heading and formset of each list, as the template goes through them."""
        return [(name, ROWS[name][0], rows) for name, rows in self.lists.items()]

    def read(self) -> RuleSet | None:
        """The rule set, or None with each fault at the field that it is about."""
        rows = {name: [form.value() for form in rows.forms] for name, rows in self.lists.items()}
        value = {**self.plain.value(), **{n: [r for r in all_ if r] for n, all_ in rows.items() if any(all_)}}
        if "rates" in value:
            value["rates"] = {r.get("pair", ""): r.get("rate", "") for r in value["rates"]}
        found = faults_in(value)
        if isinstance(found, RuleSet):
            return found
        for fault in found:
            self._blame(fault, rows)
        return None

    def _blame(self, fault: Fault, rows: Mapping[str, list[dict[str, Any]]]) -> None:
        match fault.place:
            case (str(name), int(index), *rest) if name in self.lists:
                filled = [number for number, row in enumerate(rows[name]) if row]
                form = self.lists[name].forms[filled[index]]
                field = rest[0] if rest and rest[0] in form.fields else None
                _add(form, field, fault.sentence)
            case ("rates", pair, *_):
                number = next((n for n, row in enumerate(rows["rates"]) if row.get("pair", "") == pair), 0)
                _add(self.lists["rates"].forms[number], None, fault.sentence)
            case ("reauthenticate_above", *rest):
                _add(self.plain, f"above_{rest[0]}" if rest else "above_amount", fault.sentence)
            case (str(name), *_) if name in self.plain.fields:
                _add(self.plain, name, fault.sentence)
            case _:
                self.errors.append(fault.words)


def with_another_row(data: QueryDict, name: str) -> QueryDict:
    """What was posted with one more empty row in a list, as far as the list goes."""
    changed, total = data.copy(), f"{name}-TOTAL_FORMS"
    number = str(changed.get(total, ""))
    if name in ROWS and number.isascii() and number.isdigit() and len(number) < 5:
        changed[total] = str(min(int(number) + 1, ROWS[name][2]))
    return changed


def _add(form: forms.Form, field: str | None, sentence: str) -> None:
    """At a field the sentence goes on from its label; at a row it stands by itself."""
    form.add_error(field, f"{sentence[:1].upper()}{sentence[1:]}.")


def _initial(rules: RuleSet) -> dict[str, Any]:
    """A rule set as the forms show it."""
    value = rules.model_dump(mode="json")
    above = value.pop("reauthenticate_above") or {}
    shown: dict[str, Any] = {k: v for k, v in value.items() if not isinstance(v, list | dict)}
    shown |= {"above_amount": above.get("amount"), "above_currency": above.get("currency")}
    for name in ("expires_at",):
        shown[name] = _clock(shown[name])
    if rules.expires_at is not None:
        shown["expires_after_minutes"] = None
    for name in ROWS:
        shown[name] = list(_rows(value[name]))
    return shown


def _rows(value: Any) -> Iterable[dict[str, Any]]:
    if isinstance(value, dict):
        return [{"pair": pair, "rate": rate} for pair, rate in sorted(value.items())]
    return [{**row, "at": _clock(row["at"])} if "at" in row else row for row in value]


def _clock(text: str | None) -> str | None:
    """A time of day as a field of that kind takes it."""
    return text[:5] if text and text.endswith(":00") else text
