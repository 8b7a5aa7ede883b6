"""Forms made from models (a workflow's input, an answer): labels, help and limits come from the JSON schema.

The form only gathers: what is right and wrong is said by `submissions.check`, the same as for the API.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, QueryDict

from console.uploading import UploadInput, read_text
from workflows import submissions
from workflows.actions.keep_file import Kept
from workflows.authoring import Problem, Workflow
from workflows.titles import in_words

LONG_TEXT = 300
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_MISSING = object()
F = TypeVar("F", bound="TypedForm")


@dataclass(frozen=True, slots=True)
class Entry:
    """One field of the input model as a form shows it. `kind` says how its text becomes a value."""

    path: tuple[str, ...]
    kind: str
    required: bool
    schema: dict[str, Any]

    @property
    def name(self) -> str:
        return ".".join(self.path)


class TypedForm(forms.Form):
    """Built from a JSON schema. `groups` are (legend, bound fields); the fields at the top have no legend."""

    entries: list[Entry]

    @property
    def groups(self) -> list[tuple[str, list[forms.BoundField]]]:
        found: dict[str, list[forms.BoundField]] = {}
        for entry in self.entries:
            legend = in_words(entry.path[0]) if len(entry.path) > 1 else ""
            found.setdefault(legend, []).append(self[entry.name])
            if entry.kind == "file":
                found[legend].append(self[f"{entry.name}:file"])
        return list(found.items())

    def uploads(self) -> list[tuple[Entry, UploadedFile[Any] | None, str]]:
        """Every field that keeps a file: what was chosen for it, and the digest of what is kept from before."""
        return [
            (e, self.files.get(f"{e.name}:file"), str(self.data.get(self.add_prefix(e.name)) or ""))
            for e in self.entries
            if e.kind == "upload"
        ]

    def keep(self, entry: Entry, kept: Kept) -> None:
        """The field's value is a file that is kept by now: it need not be chosen again."""
        assert isinstance(self.data, QueryDict)
        data = self.data.copy()
        data[self.add_prefix(entry.name)] = kept.digest
        self.data = data
        widget = self.fields[entry.name].widget
        assert isinstance(widget, UploadInput)
        widget.kept = kept

    def value(self) -> dict[str, Any]:
        """What was filled in, as the JSON value that the API would be sent. Optional fields left empty are left out."""
        whole: dict[str, Any] = {}
        for entry in self.entries:
            value = self._value_of(entry)
            if value is _MISSING:
                continue
            inside = whole
            for part in entry.path[:-1]:
                inside = inside.setdefault(part, {})
            inside[entry.path[-1]] = value
        return whole

    def blame(self, problems: list[Problem]) -> None:
        """Put each problem at the field that it names; what names none goes to the top of the form."""
        for problem in problems:
            name = self._named(problem.field)
            inner = [e.name for e in self.entries if e.name.startswith(f"{problem.field}.")]
            if name is None and any(n in self.errors for n in inner):
                continue  # a group is missing whose fields say so themselves
            if name is None:
                self.add_error(
                    None, f"{problem.field}: {problem.message}" if problem.field else problem.message
                )
            elif name not in self.errors:
                inside = problem.field.removeprefix(name).lstrip(".")
                self.add_error(name, f"{_place(inside)}{problem.message}")

    def _named(self, field: str) -> str | None:
        names = [e.name for e in self.entries if f"{field}.".startswith(f"{e.name}.")]
        return max(names, key=len, default=None)

    def _value_of(self, entry: Entry) -> Any:
        raw = str(self.data.get(self.add_prefix(entry.name)) or "").replace("\r\n", "\n")
        uploaded = self.files.get(f"{entry.name}:file") if entry.kind == "file" else None
        if isinstance(uploaded, UploadedFile):
            raw = read_text(uploaded, entry.name)
        if entry.kind == "bool":
            return bool(raw)
        if entry.kind not in ("long", "file"):
            raw = raw.strip()
        if not raw.strip() and (not entry.required or entry.kind in ("lines", "choice", "int")):
            return [] if entry.kind == "lines" and entry.required else _MISSING
        return _read(entry.kind, raw)


class SubmitForm(TypedForm):
    """Built by `form_of`."""

    submission_key = forms.CharField(widget=forms.HiddenInput, required=False)


def form_of(workflow: Workflow, request: HttpRequest | None = None) -> SubmitForm:
    """The form of a workflow: fresh with a submission key of its own, or bound to what was posted."""
    made = _class_of(SubmitForm, workflow.input.model_json_schema())
    if request is not None:
        return made(request.POST, request.FILES, use_required_attribute=False)
    return made(initial={"submission_key": new_key()})


def form_for(schema: dict[str, Any], request: HttpRequest | None = None) -> TypedForm:
    """A form for a value of this JSON schema: fresh, or bound to what was posted. Nothing is chosen beforehand."""
    made = _class_of(TypedForm, schema)
    for entry in made.entries:
        if entry.kind == "choice" and entry.required:
            widget = made.base_fields[entry.name].widget
            widget.choices = [("", "Choose…"), *widget.choices]
    if request is not None:
        return made(request.POST, request.FILES, use_required_attribute=False)
    return made()


def _class_of(base: type[F], schema: dict[str, Any]) -> type[F]:
    entries = list(entries_of(schema, schema.get("$defs", {})))
    fields: dict[str, Any] = {}
    for entry in entries:
        fields[entry.name] = field_of(entry)
        if entry.kind == "file":
            fields[f"{entry.name}:file"] = forms.FileField(
                label="or a text file",
                required=False,
                help_text="UTF-8 text; it takes the place of what is written.",
            )
    made: type[F] = type(base.__name__, (base,), fields)
    made.entries = entries  # afterwards, since a field may have this name too
    return made


def new_key() -> str:
    """One intent, one key."""
    return f"form-{secrets.token_hex(16)}"


def entries_of(
    schema: dict[str, Any], definitions: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[Entry]:
    """The fields of an object's schema in their order; those of an object in it, once, as fields of their own."""
    needed = schema.get("required", [])
    for name, raw in schema.get("properties", {}).items():
        field, nullable = _resolved(raw, definitions)
        required = name in needed and not nullable
        if field.get("type") == "object" and field.get("properties") and not path:
            yield from entries_of(field, definitions, (name,))
        else:
            yield Entry((*path, name), _kind(field, definitions), required, field)


def _resolved(raw: dict[str, Any], definitions: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A field's schema with its reference followed and "or null" taken off; the field's own words win."""
    choices = [c for c in raw.get("anyOf", []) if c.get("type") != "null"]
    nullable = len(choices) < len(raw.get("anyOf", []))
    inner = choices[0] if len(choices) == 1 else raw
    if "$ref" in inner:
        inner = definitions.get(inner["$ref"].rpartition("/")[2], {})
    own = {k: v for k, v in raw.items() if k not in ("anyOf", "$ref")}
    return {**inner, **own}, nullable


def _kind(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    if field.get("widget") in ("file", "upload"):
        return str(field["widget"])
    if "enum" in field or "const" in field:
        return "choice"
    kind = field.get("type")
    if kind == "array":
        items, _ = _resolved(field.get("items", {}), definitions)
        return "lines" if items.get("type") == "string" else "json"
    if kind == "string":
        wide = field.get("widget") == "textarea" or field.get("maxLength", 0) > LONG_TEXT
        return "long" if wide else "text"
    return {"boolean": "bool", "integer": "int"}.get(str(kind), "json")


def field_of(entry: Entry) -> forms.Field:
    """A form field with the label, the help and the limits of its schema."""
    schema = entry.schema
    label = schema.get("title") or in_words(entry.path[-1])
    help_text = schema.get("description", "")
    default = schema.get("default")
    if entry.kind == "bool":
        return forms.BooleanField(label=label, help_text=help_text, required=False, initial=default)
    return forms.CharField(
        label=_sentence_case(label),
        help_text=help_text or _HELP.get(entry.kind, _example(schema)),
        required=entry.required and entry.kind != "file",
        error_messages={"required": "Choose a file."} if entry.kind == "upload" else None,
        widget=_widget(entry),
        initial=_shown(default) if default is not None else None,
        strip=entry.kind not in ("long", "file"),
    )


_HELP = {"lines": "One a line.", "json": "As JSON."}


def _widget(entry: Entry) -> forms.Widget:
    schema, kind = entry.schema, entry.kind
    if kind == "choice":
        options = schema.get("enum", [schema.get("const")])
        blank = [] if entry.required else [("", "–")]
        return forms.Select(choices=[*blank, *((str(o), in_words(str(o))) for o in options)])
    if kind == "upload":
        return UploadInput(accept=schema.get("accept", []))
    if kind in ("long", "lines", "json", "file"):
        return forms.Textarea(attrs={"rows": 8 if kind == "file" else 4, "spellcheck": "false"})
    if kind == "int":
        return forms.NumberInput(attrs={"step": 1, "inputmode": "numeric"})
    attrs: dict[str, Any] = {"autocomplete": "off"}
    if "maxLength" in schema:
        attrs["maxlength"] = schema["maxLength"]
    if schema.get("examples") and r"\d" in schema.get("pattern", ""):
        attrs["inputmode"] = "decimal"
    return forms.TextInput(attrs=attrs)


def _example(schema: dict[str, Any]) -> str:
    return f"For example {schema['examples'][0]}." if schema.get("examples") else ""


def _sentence_case(title: str) -> str:
    """Pydantic writes Credit Limit; abbreviations keep their capitals."""
    first, *rest = title.split(" ")
    return " ".join([first, *(w.lower() if w.istitle() else w for w in rest)])


def _read(kind: str, raw: str) -> Any:
    if kind == "int":
        return int(raw) if _WHOLE.fullmatch(raw) else raw
    if kind == "lines":
        return [line.strip() for line in raw.split("\n") if line.strip()]
    if kind == "json":
        try:
            return submissions.parse(raw.encode())
        except submissions.NotJson:
            return raw
    return raw


def _shown(default: Any) -> str:
    if isinstance(default, list) and all(isinstance(v, str) for v in default):
        return "\n".join(default)
    return default if isinstance(default, str) else json.dumps(default)


def _place(inside: str) -> str:
    """Where in a field of several lines: counted as people count."""
    number = inside.partition(".")[0]
    return f"Line {int(number) + 1}: " if number.isdigit() else f"{inside}: " if inside else ""
