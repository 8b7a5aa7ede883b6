"""Forms of statements: uploading a file, and saying how its columns are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import available_timezones

from django import forms
from pydantic import ValidationError

from dispatch.models import Receiver
from statements.dates import DateFormat
from statements.numbers import NumberFormat
from statements.terms import LABELS, Column, Terms

DELIMITERS = ((";", "semicolon ;"), (",", "comma ,"), ("\t", "tab"), ("|", "bar |"))
ENCODINGS = (
    ("windows-1252", "Windows-1252 (Western Europe)"),
    ("iso-8859-15", "ISO 8859-15"),
    ("cp850", "DOS 850"),
    ("mac-roman", "Mac Roman"),
)
OPEN = ("", "Say which")
NEEDED = {
    Column.BOOKED: "Needed: a line without its day is an error.",
    Column.AMOUNT: "Needed, unless paid in and paid out have columns of their own.",
    Column.PAID_IN: "In place of the amount, where what came in has its own column.",
    Column.PAID_OUT: "In place of the amount, where what went out has its own column.",
    Column.DIRECTION: "Needed where words and no minus say which way money went; write the words below.",
    Column.CURRENCY: "Needed where rows have several; else write the one currency below.",
}
FOUND_BY = {
    Column.REFERENCE: "Finds operations by their record or our key.",
    Column.RECEIVERS_ID: "Finds operations by their receipt, and knows the line when it comes again.",
}
BESIDE = {
    Column.VALUE: "Shown with the line.",
    Column.COUNTERPARTY: "Shown, and compared with recipients for suggestions.",
    Column.COUNTERPARTY_ACCOUNT: "Shown with the line.",
    Column.ACCOUNT: "A row of another account than the file is of is then an error.",
}
"""What each column is needed for, in the order in which people look for them."""


_WHY = {**NEEDED, **FOUND_BY, **BESIDE}


class UploadForm(forms.Form):
    """A receiver's file, and the account that it is of."""

    receiver = forms.ChoiceField(label="Receiver")
    account = forms.CharField(
        label="Account",
        max_length=200,
        required=False,
        help_text="As the receiver names it, with every nought. Leave it empty for the receiver's own.",
    )
    file = forms.FileField(label="File", help_text="A CSV table, a camt.053 or an MT940.")

    def __init__(self, *args: Any, receivers: Sequence[Receiver], **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "use_required_attribute": False})
        self._accounts = {r.pk: r.account for r in receivers}
        self.fields["receiver"].choices = [(str(r.pk), r.title) for r in receivers]  # type: ignore[attr-defined]
        self.fields["file"].error_messages["required"] = "Choose a file."

    @property
    def receiver_id(self) -> int:
        return int(self.cleaned_data["receiver"])

    @property
    def account_id(self) -> str:
        """What was typed, or else the receiver's own."""
        return self.cleaned_data["account"] or self._accounts[self.receiver_id]


class MappingForm(forms.Form):
    """How the columns of a file are read. `names`: what its header calls them, or their places."""

    delimiter = forms.ChoiceField(label="Columns are separated by", choices=DELIMITERS)
    header = forms.BooleanField(label="A row above the lines names the columns", required=False)
    dates = forms.ChoiceField(
        label="Dates are written", choices=[OPEN, *((f.value, f.value) for f in DateFormat)],
        error_messages={"required": "Say how dates are written: nothing is guessed from one of them."},
    )  # fmt: skip
    numbers = forms.ChoiceField(
        label="Amounts are written", choices=[OPEN, *((f.value, f.value) for f in NumberFormat)],
        error_messages={"required": "Say how amounts are written: 1.000 is one thousand, or one."},
    )  # fmt: skip
    positive = forms.ChoiceField(
        label="An amount without a minus",
        choices=(("in", "came in"), ("out", "went out")),
        initial="in",
        help_text="Seen from our account. A column that says in or out goes before.",
    )
    currency = forms.CharField(
        label="Currency",
        max_length=3,
        required=False,
        help_text="Three letters, needed where no column has it.",
    )
    texts = forms.MultipleChoiceField(
        label="Columns of free text",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Our key is looked for in them, and words that are alike.",
    )
    in_words = forms.CharField(
        label="Words for in",
        max_length=500,
        required=False,
        help_text="Needed with a column that says in or out. With commas between, as CR, Haben.",
    )
    out_words = forms.CharField(
        label="Words for out", max_length=500, required=False, help_text="Needed with it too, as DR, Soll."
    )
    left_out = forms.CharField(
        label="Rows that are no lines begin with",
        max_length=500,
        required=False,
        help_text="Needed where it has such rows. With commas between, as Total, Balance.",
    )
    encoding = forms.ChoiceField(
        label="Letters are, where they are not UTF-8", choices=ENCODINGS, initial="windows-1252"
    )
    time_zone = forms.ChoiceField(
        label="Its days are those of", choices=[(z, z) for z in sorted(available_timezones())]
    )

    def __init__(
        self, *args: Any, names: Sequence[tuple[str, str]], evidence: dict[str, str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **{**kwargs, "use_required_attribute": False})
        choices = list(names)
        for column in Column:
            self.fields[f"column_{column.value}"] = forms.ChoiceField(
                label=LABELS[column], choices=[("", "–"), *choices], required=False, help_text=_WHY[column]
            )
        self.fields["texts"].choices = choices  # type: ignore[attr-defined]
        for name, told in evidence.items():
            self.fields[name].help_text = told

    @property
    def needed(self) -> list[forms.BoundField]:
        """Columns without which no line can be read."""
        return [self[f"column_{column.value}"] for column in NEEDED]

    @property
    def found_by(self) -> list[forms.BoundField]:
        """Columns by which the machine finds operations."""
        return [self[f"column_{column.value}"] for column in FOUND_BY]

    @property
    def beside(self) -> list[forms.BoundField]:
        """What a file may have beside these."""
        return [self[f"column_{column.value}"] for column in BESIDE]

    @property
    def first(self) -> list[forms.BoundField]:
        return [self[name] for name in ("delimiter", "header")]

    @property
    def formats(self) -> list[forms.BoundField]:
        return [self[name] for name in ("dates", "numbers", "positive", "currency", "left_out")]

    @property
    def rest(self) -> list[forms.BoundField]:
        return [self[name] for name in ("in_words", "out_words", "encoding", "time_zone")]

    def terms(self) -> Terms | None:
        """What a valid form says; None with what does not fit together."""
        given = self.cleaned_data
        columns = {c: given[f"column_{c.value}"] for c in Column if given[f"column_{c.value}"]}
        same = ("delimiter", "header", "dates", "numbers", "positive", "texts", "encoding", "time_zone")
        values = {name: given[name] for name in same}
        values |= {name: _listed(given[name]) for name in ("in_words", "out_words", "left_out")}
        values |= {"columns": columns, "currency": given["currency"].strip().upper()}
        try:
            return Terms.model_validate(values)
        except ValidationError as wrong:
            for error in wrong.errors():
                self.add_error(None, error["msg"].removeprefix("Value error, "))
            return None


def initial_of(terms: Terms) -> dict[str, Any]:
    """A mapping as the values of the form."""
    values = terms.model_dump(mode="json")
    columns = values.pop("columns")
    for name in ("in_words", "out_words", "left_out"):
        values[name] = ", ".join(values[name])
    return {**values, **{f"column_{name}": of for name, of in columns.items()}}


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
