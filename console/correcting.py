"""The form with which a person corrects what a stopped item works on, made from the types that its step declares.

The form only gathers: what is right and wrong is said by `workflows.corrections`. What was not touched goes back exactly
as it was, whatever a browser did to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.forms.utils import ErrorDict

from console import written
from console.forms import Entry, entries_of, field_of
from console.words import stage_title
from workflows import arguments
from workflows.authoring import Problem
from workflows.authoring.steps import Parameter, Step
from workflows.forms import attempts_field
from workflows.models import Job, WorkItem

EDITABLE = 100_000
"""Characters of one thing that a form can hold."""


@dataclass(frozen=True, slots=True)
class Given:
    """One thing that a step is given: where it comes from, and its value as it is now. `text` is empty where too long."""

    parameter: Parameter
    source: str
    size: int
    text: str

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def value(self) -> Any:
        return json.loads(self.text)

    @property
    def pretty(self) -> str:
        return json.dumps(self.value, indent=2, ensure_ascii=False) if self.text else ""


def given_to(*, job: Job, item: WorkItem, step: Step) -> list[Given]:
    """What can be corrected of an item: a fan-out's element, or every argument of a single step."""
    return [_given(job, item, step, p) for p in step.parameters if step.each is None or p.source == "element"]


def _given(job: Job, item: WorkItem, step: Step, parameter: Parameter) -> Given:
    size = arguments.size_of(job=job, item=item, step=step, parameter=parameter)
    text = arguments.text_of(job=job, item=item, step=step, parameter=parameter) if size <= EDITABLE else ""
    return Given(parameter, source_words(parameter), size, text)


def source_words(parameter: Parameter) -> str:
    """Where an argument comes from, in words."""
    return {
        "input": "the job’s input",
        "element": "this item’s own",
        "output": f"what “{stage_title(None, parameter.step)}” gave",
        "outputs": f"what the items of “{stage_title(None, parameter.step)}” gave",
    }[parameter.source]


class CorrectionForm(forms.Form):
    """Built by `form_of`. Its text is the JSON that the action takes."""

    entries: Sequence[Entry]
    givens: Sequence[Given]
    is_element: bool
    as_json: bool

    def full_clean(self) -> None:
        """Nothing is wrong before the step's own types have said so."""
        self._errors = ErrorDict()
        self.cleaned_data = {}

    @property
    def groups(self) -> list[tuple[str, list[forms.BoundField]]]:
        """(legend, fields): one group for each argument of a single step."""
        found: dict[str, list[forms.BoundField]] = {}
        for entry in self.entries:
            legend = "" if self.is_element else entry.path[0].replace("_", " ").capitalize()
            found.setdefault(legend, []).append(self[entry.name])
        return list(found.items())

    def text(self) -> str:
        """What was filled in, as the JSON text that corrects the item."""
        if self.as_json:
            return self._raw("whole")
        whole: dict[str, Any] = {}
        for entry in self.entries:
            value = self._value_of(entry)
            if value is not written.ABSENT:
                inside = whole
                for part in entry.path[:-1]:
                    inside = inside.setdefault(part, {})
                inside[entry.path[-1]] = value
        return json.dumps(whole["value"] if self._is_plain else whole)

    def blame(self, problems: Sequence[Problem]) -> None:
        """Put each problem at the field that it names; what names none goes to the top of the form."""
        for problem in problems:
            field = f"value.{problem.field}".rstrip(".") if self._is_plain else problem.field
            named = [e.name for e in self.entries if f"{field}.".startswith(f"{e.name}.")]
            name = "whole" if self.as_json else max(named, key=len, default=None)
            place = field if name in (None, "whole") else field.removeprefix(str(name)).lstrip(".")
            self.add_error(name, f"{place}: {problem.message}" if place else problem.message)

    @property
    def _is_plain(self) -> bool:
        """An element that is no object has one field, which is all of it."""
        return self.is_element and [e.path for e in self.entries] == [("value",)]

    def _raw(self, name: str) -> str:
        return str(self.data.get(self.add_prefix(name)) or "").replace("\r\n", "\n")

    def _value_of(self, entry: Entry) -> Any:
        before, raw = _at(self.givens, entry, self.is_element), self._raw(entry.name)
        if entry.kind == "bool":
            return bool(raw)
        if before is not written.ABSENT and raw == written.shown(entry.kind, before).replace("\r\n", "\n"):
            return before
        if not raw and not entry.required:
            return written.ABSENT
        return written.read(entry, raw)


class WhyForm(forms.Form):
    """How often it is tried again and why, and the claim that was on the screen."""

    attempts = attempts_field("More attempts")
    reason = forms.CharField(
        label="What was wrong, kept in the journal",
        widget=forms.Textarea(attrs={"rows": 3}),
        max_length=1000,
        error_messages={"required": "Say what was wrong with it."},
    )
    seen = forms.IntegerField(widget=forms.HiddenInput, required=False)


def form_of(givens: Sequence[Given], *, is_element: bool, as_json: bool, data: Any = None) -> CorrectionForm:
    """The form of what can be corrected: fields, or (asked for, or where fields cannot hold it) one text of JSON."""
    editable = [g for g in givens if g.text]
    entries = list(_entries(editable, is_element))
    as_json = as_json or not _fits(editable, entries, is_element)
    fields: dict[str, Any] = {}
    if as_json:
        fields["whole"] = _json_field(editable, is_element)
    else:
        fields = {e.name: _field(e, _at(editable, e, is_element)) for e in entries}
    made = type(
        "CorrectionForm",
        (CorrectionForm,),
        {**fields, "entries": entries, "givens": editable, "is_element": is_element, "as_json": as_json},
    )
    return made(data, prefix="v", use_required_attribute=False)  # type: ignore[no-any-return]


def _entries(givens: Sequence[Given], is_element: bool) -> Iterator[Entry]:
    for given in givens:
        schema = given.parameter.adapter.json_schema()
        definitions = schema.get("$defs", {})
        whole = {"properties": {"value" if is_element else given.name: schema}, "required": []}
        if is_element and schema.get("type") == "object" and schema.get("properties"):
            whole = schema
        for entry in entries_of(whole, definitions):
            yield replace(entry, kind=written.kind_of(entry, _at([given], entry, is_element)))


def _fits(givens: Sequence[Given], entries: Sequence[Entry], is_element: bool) -> bool:
    """Whether the fields hold all that the values hold: a key that no field has would get lost."""
    known = {e.path for e in entries}
    return bool(entries) and all(
        path in known or any(path[: len(k)] == k for k in known)
        for given in givens
        for path in _paths(given, is_element, known)
    )


def _paths(given: Given, is_element: bool, known: set[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    start: tuple[str, ...] = () if is_element else (given.name,)
    if start in known or (is_element and known == {("value",)}):
        return
    value = given.value
    if not isinstance(value, dict):
        yield (*start, "")
        return
    for key, inner in value.items():
        deeper = isinstance(inner, dict) and (*start, key) not in known
        yield from ((*start, key, k) for k in inner) if deeper else [(*start, key)]


def _at(givens: Sequence[Given], entry: Entry, is_element: bool) -> Any:
    """The value that stands at an entry now."""
    path = entry.path if is_element else entry.path[1:]
    given = next((g for g in givens if is_element or g.name == entry.path[0]), None)
    if given is None:
        return written.ABSENT
    value = given.value
    if is_element and path == ("value",) and not isinstance(value, dict):
        return value
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return written.ABSENT
        value = value[part]
    return value


def _field(entry: Entry, value: Any) -> forms.Field:
    field = field_of(entry if entry.kind != "number" else replace(entry, kind="text"))
    if isinstance(field, forms.CharField):
        field.strip = False
    if value is not written.ABSENT:
        field.initial = value if entry.kind == "bool" else written.shown(entry.kind, value)
    return field


def _json_field(givens: Sequence[Given], is_element: bool) -> forms.Field:
    value = givens[0].value if is_element and givens else {g.name: g.value for g in givens}
    return forms.CharField(
        label="As JSON",
        strip=False,
        initial=json.dumps(value, indent=2, ensure_ascii=False),
        widget=forms.Textarea(attrs={"rows": 16, "spellcheck": "false"}),
    )
