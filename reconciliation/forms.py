"""What a person posts about a case. The forms only gather and say what is missing; the actions decide.

Each carries the version of the case that was on the screen.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils import timezone
from django.utils.functional import lazy

from reconciliation.actions.carrying_out import BY_LOOKUP, BY_STATEMENT, SEND_AGAIN, STOP
from reconciliation.actions.comparing import Receipt
from reconciliation.actions.working import LONGEST
from reconciliation.papers import LARGEST_TEXT, LOOKS, Paper, PaperRefused, read_paper, too_large
from reconciliation.queries import CasePage
from statements.matching import candidates
from statements.matching.comparing import money
from statements.matching.models import DifferenceKind
from web import seeing
from workflows.forms import attempts_field

_LATEST_VERSION = 2**31 - 1


class CaseForm(forms.Form):
    """Nothing but the version. `free` is the field that a refusal of the action belongs to."""

    free = ""
    version = forms.IntegerField(min_value=0, max_value=_LATEST_VERSION, widget=forms.HiddenInput)

    def __init__(self, data: Any, page: CasePage, files: Any = None) -> None:
        super().__init__(
            data, files, auto_id="f-%s", initial={"version": page.version}, use_required_attribute=True
        )
        self.page = page
        self.fit(page)

    def fit(self, page: CasePage) -> None:
        """Make the fields those of this case."""

    @property
    def asked(self) -> bool:
        """Whether there is anything to fill in."""
        return bool(self.visible_fields())

    @property
    def forgotten(self) -> bool:
        """Whether a document was chosen that is not kept: no page can put it back into its field."""
        return bool(self.files)

    @property
    def typed(self) -> list[tuple[str, str]]:
        """What was posted in each visible field, to be shown where it can no longer be sent."""
        written = [b for b in self.visible_fields() if b.name != "file"]
        found = [(str(b.label), ", ".join(map(str, _listed(b.value())))) for b in written]
        return [(label, value) for label, value in found if value]

    def renewed(self, page: CasePage) -> None:
        """Take what is hidden as it is now and shown beside, so that what was typed can be sent again on purpose."""
        assert isinstance(self.data, QueryDict)
        data = self.data.copy()
        data["version"] = str(page.version)
        if "difference" in self.fields:
            data["difference"] = page.difference
        self.data = data


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _words(label: str, missing: str, *, rows: int = 3) -> forms.CharField:
    return forms.CharField(
        label=label,
        max_length=LONGEST,
        error_messages={"required": missing},
        widget=forms.Textarea(attrs={"rows": rows}),
    )


def _line(label: str, missing: str, *, longest: int = 200) -> forms.CharField:
    return forms.CharField(
        label=label,
        max_length=longest,
        error_messages={"required": missing},
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


def _moment(label: str, missing: str) -> forms.DateTimeField:
    """A time in the zone that the pages are written in."""
    return forms.DateTimeField(
        label=label,
        error_messages={"required": missing, "invalid": "Enter a date and a time."},
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M:%S", attrs={"type": "datetime-local", "step": "1"}),
    )


_ENDINGS = ",".join(ending for look in LOOKS.values() for ending in look.endings)


class PaperField(forms.FileField):
    """A document for the case; what comes of it is a Paper, or None. It has to be chosen anew where the form comes back."""

    widget = forms.FileInput(attrs={"accept": _ENDINGS})

    def __init__(self, label: str, help_text: str = "") -> None:
        super().__init__(label=label, required=False, help_text=_told_lazily(help_text))
        self.error_messages["empty"] = "The file is empty."

    def clean(self, data: Any, initial: Any = None) -> Any:
        given = super().clean(data, initial)
        return _paper(given) if given else None


def _told(before: str) -> str:
    """What may be uploaded, by the limit that holds when the form is shown."""
    most = f"{_in_mb(settings.COUNTERFOIL_LARGEST_FILE)} MB, a text {_in_mb(LARGEST_TEXT)} MB"
    told = f"A PDF, a picture (PNG, JPEG), a Word document or plain text; at most {most}."
    return f"{before} {told} It is kept for good and never changed.".strip()


def _in_mb(size: int) -> str:
    return f"{size / 1_000_000:.3g}"


_told_lazily = lazy(_told, str)


def _paper(uploaded: UploadedFile[Any]) -> Paper:
    limit = settings.COUNTERFOIL_LARGEST_FILE
    try:
        if (uploaded.size or 0) > limit:  # its content was thrown away while it came in
            raise too_large(limit)
        return read_paper(uploaded.name or "", uploaded.read())
    except PaperRefused as refused:
        raise forms.ValidationError(str(refused)) from refused


class ReasonForm(CaseForm):
    """A reason, kept in the journal. Each verb says what it is a reason for."""

    free = "reason"
    reason = _words("Reason, kept with the case", "Give a reason: it is kept with the case.")


class ResubmitForm(ReasonForm):
    reason = _words("Why it is sent again", "Say why it is sent again.")


class AcceptForm(ReasonForm):
    """`difference` is what was on the screen: that stands, and nothing that was told since."""

    difference = forms.CharField(max_length=2000, required=False, strip=False, widget=forms.HiddenInput)
    reason = _words("Why the difference can stand", "Say why the difference can stand.")

    def fit(self, page: CasePage) -> None:
        self.fields["difference"].initial = page.difference


class GoOnForm(ReasonForm):
    reason = _words("What has been put right", "Say what has been put right.")


class StopForm(ReasonForm):
    reason = _words("Why what was applied can stand alone", "Say why what was applied can stand alone.")


class GiveUpForm(ReasonForm):
    reason = _words("Why the job is given up", "Say why the job is given up.")


class SkipForm(ReasonForm):
    reason = _words("Why the job can go on without it", "Say why the job can go on without it.")


class CancelForm(ReasonForm):
    reason = _words("Why the job is cancelled", "Say why the job is cancelled.")


class DeclineForm(ReasonForm):
    reason = _words("Why not", "Say why not: whoever asked has only your reason.")


class RetryForm(ReasonForm):
    attempts = attempts_field("More attempts")
    reason = _words("Why it should work now", "Say why it should work now.")
    field_order = ("attempts", "reason")


class ReceiptForm(CaseForm):
    """What a receipt says, entered without being shown what it should say."""

    free = "note"
    receipt_id = forms.CharField(
        label="Receipt number",
        max_length=200,
        required=False,
        help_text="Not needed where the receipt itself is added.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    amount = _line("Amount on the receipt", "Enter the amount in figures, such as 4800.00.", longest=40)
    currency = _line("Currency on the receipt", "Enter the currency, such as EUR.", longest=3)
    record = _line(
        "Record or payee on the receipt", "Enter the record or payee that the receipt names.", longest=300
    )
    obtained_from = _line(
        "Who gave it, or where it was found", "Say who gave you the receipt, or where you found it."
    )
    obtained_at = _moment("When it was obtained", "Say when it was obtained.")
    file = PaperField("The receipt itself")
    note = forms.CharField(
        label="Note", max_length=1000, required=False, widget=forms.Textarea(attrs={"rows": 2})
    )

    def fit(self, page: CasePage) -> None:
        if page.amount is None:
            del self.fields["amount"], self.fields["currency"]

    def receipt(self) -> Receipt:
        """The receipt as it was entered."""
        given = self.cleaned_data
        return Receipt(
            receipt_id=given["receipt_id"],
            record=given["record"],
            obtained_from=given["obtained_from"],
            obtained_at=given["obtained_at"],
            amount=given.get("amount", ""),
            currency=given.get("currency", ""),
        )


class _AskedForSometimes(forms.TextInput):
    """Required or not by what else is chosen, so that a browser must not insist."""

    def use_required_attribute(self, initial: Any) -> bool:
        return False


class NotAppliedForm(CaseForm):
    """What shows that it did not happen, and what follows."""

    free = "evidence"
    basis = forms.ChoiceField(
        label="What shows it",
        choices=[
            (BY_STATEMENT, "The receiver says so in writing"),
            (BY_LOOKUP, "The last look-up found nothing, late enough to prove it"),
        ],
        initial=BY_STATEMENT,
        widget=forms.RadioSelect,
        error_messages={"required": "Say what shows it."},
    )
    source = forms.CharField(
        label="Whose statement, and where it can be found",
        max_length=200,
        help_text="A letter, a mail, a ticket. Not needed for a look-up.",
        error_messages={"required": "Say whose statement it is, and where it can be found."},
        widget=_AskedForSometimes(attrs={"autocomplete": "off"}),
    )
    evidence = _words("What it says", "Say what shows that it was not applied.")
    file = PaperField("The statement", "Needed, unless a look-up shows it.")
    then = forms.ChoiceField(
        label="What follows",
        choices=[
            (STOP, "Close it as not applied, send nothing"),
            (SEND_AGAIN, "Send it again with the same key, while its approval lives"),
        ],
        initial=STOP,
        widget=forms.RadioSelect,
        error_messages={"required": "Say what follows."},
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("basis") == BY_LOOKUP:
            self.errors.pop("source", None)
            given["source"] = ""
        return given


class OutcomeForm(CaseForm):
    """One of the outcomes of the case's kind, and what shows it."""

    free = "evidence"
    outcome = forms.ChoiceField(
        label="What became of it",
        widget=forms.RadioSelect,
        error_messages={"required": "Say what became of it."},
    )
    evidence = _words("What shows it", "Say what shows it.")
    source = _line("Where that can be found", "Say where that can be found: a receipt, a letter, a ticket.")
    file = PaperField("A document that shows it")

    def fit(self, page: CasePage) -> None:
        field = self.fields["outcome"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(o, o[:1].upper() + o[1:]) for o in page.outcomes]


class ReopenForm(CaseForm):
    """What speaks against what was recorded."""

    free = "evidence"
    evidence = _words("What the new evidence shows", "Say what the new evidence shows.")
    source = _line("Where it comes from", "Say where it comes from.")
    taken_at = _moment("When it was taken", "Say when it was taken.")
    file = PaperField("A document that shows it")


class MatchLineForm(CaseForm):
    """Which unclaimed line, or which lines together, the operation is."""

    free = "lines"
    lines = forms.ChoiceField(
        label="The line",
        widget=forms.RadioSelect,
        error_messages={
            "required": "Choose a line.",
            "invalid_choice": "This line is not offered any more. Choose again.",
        },
    )
    part = forms.BooleanField(
        label="It is a part",
        required=False,
        help_text="What is left stays open, with this case, until another line comes to it.",
    )
    apart_as = forms.ChoiceField(
        label="What the difference is, where the amounts differ",
        required=False,
        choices=[("", "Nothing: they are equal"), *((k.value, k.value.capitalize()) for k in DifferenceKind)],
    )
    reason = forms.CharField(
        label="Why, where the amounts differ",
        max_length=LONGEST,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def fit(self, page: CasePage) -> None:
        field = self.fields["lines"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = _lines_of(page.operation_id) if page.operation_id is not None else []
        if not field.choices:
            field.help_text = "No unclaimed line is like it. That there is none proves nothing."

    @property
    def line_ids(self) -> list[int]:
        """The ids of what was chosen."""
        return [int(part) for part in self.cleaned_data["lines"].split(",")]


def _lines_of(operation_id: int) -> list[tuple[str, str]]:
    """Each candidate with its reasons, and with what tells it from the others."""
    offer = candidates.for_operation(operation_id)
    found: list[tuple[str, str]] = []
    for one in offer.suggestions:
        booked = one.booked
        said = " ".join(part for part in (booked.reference, booked.text, booked.counterparty) if part)
        apart = f" ({one.apart})" if one.apart else ""
        told = f"{money(booked.amount, booked.currency)} on {booked.booked_on:%-d %b %Y}, {said or 'without a text'}: {one.because}{apart}"
        found.append((str(booked.line_id), seeing.shown(told)))
    for several in offer.together:
        sums = " + ".join(money(line.amount, line.currency) for line in several.lines)
        found.append((",".join(str(line.line_id) for line in several.lines), f"{sums}: {several.because}"))
    return found


class AssignForm(CaseForm):
    """Who works on the case from now on; nobody named leaves it to its role."""

    free = "assignee"
    assignee = forms.TypedChoiceField(label="Who", required=False, coerce=int, empty_value=None)
    note = forms.CharField(
        label="Note for whoever has it next",
        required=False,
        max_length=LONGEST,
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def fit(self, page: CasePage) -> None:
        field = self.fields["assignee"]
        assert isinstance(field, forms.ChoiceField)
        people = [(p.pk, p.username) for p in page.assignable]
        field.choices = [("", f"Any {page.owner_role}"), *people]
        field.initial = page.assignee_id


class SnoozeForm(ReasonForm):
    free = "until"
    until = _moment("Put it off until", "Say until when.")
    reason = _words("What you wait for", "Say what you wait for.", rows=2)
    field_order = ("until", "reason")

    def fit(self, page: CasePage) -> None:
        self.fields["until"].help_text = f"Within 14 days, in {timezone.get_current_timezone_name()}."


class CommentForm(CaseForm):
    """What somebody thinks. The case's version does not matter: a comment never comes too late."""

    free = "body"
    body = _words("Comment", "Write something first.")

    def fit(self, page: CasePage) -> None:
        self.fields["version"].required = False


class EvidenceForm(CaseForm):
    """Something that a person has found. It settles nothing by itself."""

    free = "summary"
    summary = _words("What it shows", "Say what it shows.", rows=2)
    detail = forms.CharField(
        label="In full", max_length=100_000, required=False, widget=forms.Textarea(attrs={"rows": 4})
    )
    source = _line("Where it comes from", "Say where it comes from.")
    taken_at = _moment("When it was taken", "Say when it was taken.")
    file = PaperField("The document")

    def fit(self, page: CasePage) -> None:
        self.fields["version"].required = False
