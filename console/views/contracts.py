"""Contracts of receivers: what one says, its versions, and writing the next: a text, then its words, then one step."""

from __future__ import annotations

from dataclasses import dataclass, field

from django import forms
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods, require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from access.tenancy import reading
from dispatch import contract_text, queries
from dispatch.actions.receivers import ContractWrittenMeanwhile, write_contract
from dispatch.connectors.registry import faults_of
from dispatch.contracts import Contract
from dispatch.explaining import explain
from dispatch.models import ReceiverContract
from dispatch.presets import PRESETS, PUBLISHED, SIMULATED, Preset
from dispatch.queries import ReceiverView

VERSIONS_SHOWN = 20


class ContractForm(forms.Form):
    """The text of the next version, where its promises are written, and why it is written."""

    text = forms.CharField(
        label="The contract as text",
        max_length=contract_text.LONGEST,
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false", "class": "code"}),
        help_text="TOML; times are seconds. What is left out is at its default, which promises nothing.",
        error_messages={"required": "Say what it promises."},
        strip=False,
    )
    source = forms.CharField(
        label="Where the promise is written",
        max_length=500,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="The address or the document that you have compared this with.",
        error_messages={"required": "Say where it is written, so that others can compare."},
    )
    reason = forms.CharField(
        label="Reason, kept with the version",
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Say why; the version keeps it."},
    )


@dataclass
class Draft:
    """What one admin is writing, on which version, from which preset, and what is wrong with the text so far."""

    view: ReceiverView
    form: ContractForm
    expected: int
    preset: Preset | None = None
    faults: list[str] = field(default_factory=list)


@require_safe
@tenant_page()
def contract(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """What a receiver promises, in words and as text, and who wrote which version of it. `?version=` shows another."""
    view = queries.receiver(receiver_id)
    versions = list(ReceiverContract.objects.filter(receiver=view.receiver).order_by("-version"))
    asked = request.GET.get("version", "")
    shown = next((v for v in versions if str(v.version) == asked), versions[0] if versions else None)
    said = Contract.of(shown.terms) if shown is not None else None
    context = {
        "view": view,
        "shown": shown,
        "said": said,
        "terms": explain(said) if said is not None else [],
        "text": contract_text.write(said) if said is not None else "",
        "versions": versions[:VERSIONS_SHOWN],
        "older": len(versions) - VERSIONS_SHOWN,
        "may_write": Role.ADMIN in request.roles,
    }
    return render(request, "console/contract.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def write(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """GET shows the contract in force, or `?preset=`, to be edited; POST goes on from one step to the next (`do`)."""
    with reading(request.tenant.pk):
        draft = _draft(request, queries.receiver(receiver_id))
        if request.method != "POST":
            return _edit(request, draft)
        said = _read(draft)
        if said is None:
            return _edit(request, draft, 422)
        if request.POST.get("do") == "edit":
            return _edit(request, draft)
        if request.POST.get("do") != "write" or draft.expected != draft.view.version:
            return _preview(request, draft, said)
    return _write(request, draft, said)


def _draft(request: TenantRequest, view: ReceiverView) -> Draft:
    if request.method == "POST":
        given = request.POST.get("expected", "")
        expected = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
        return Draft(view, ContractForm(request.POST, use_required_attribute=False), expected)
    preset = PRESETS.get(request.GET.get("preset", ""))
    start = preset.contract if preset is not None else view.contract
    source = preset.source if preset is not None else view.kept.source if view.kept else ""
    initial = {"text": contract_text.write(start) if start is not None else "", "source": source}
    return Draft(view, ContractForm(initial=initial, use_required_attribute=False), view.version, preset)


def _read(draft: Draft) -> Contract | None:
    """What the form says; None where something is wrong, which then stands in the draft."""
    if not draft.form.is_valid():
        return None
    found = contract_text.read(draft.form.cleaned_data["text"].replace("\r\n", "\n"))
    if not isinstance(found, Contract):
        draft.faults = [fault.words for fault in found]
        return None
    draft.faults = faults_of(found)
    return None if draft.faults else found


def _edit(request: TenantRequest, draft: Draft, status: int = 200) -> HttpResponseBase:
    context = {"draft": draft, "published": PUBLISHED, "simulated": SIMULATED}
    return TemplateResponse(request, "console/contract_write.html", context, status=status).render()


def _preview(request: TenantRequest, draft: Draft, said: Contract) -> HttpResponseBase:
    """What it would mean. Where somebody else has written meanwhile, that is said, and it is compared with theirs."""
    before = draft.view.contract
    overtaken = draft.expected != draft.view.version
    context = {
        "draft": draft,
        "terms": explain(said),
        "differences": contract_text.changes(before, said) if before is not None else [],
        "same": before == said,
        "overtaken": overtaken,
        "next": draft.view.version + 1,
    }
    status = 409 if overtaken else 200
    return TemplateResponse(request, "console/contract_preview.html", context, status=status).render()


def _write(request: TenantRequest, draft: Draft, said: Contract) -> HttpResponseBase:
    receiver = draft.view.receiver
    try:
        made = write_contract(
            tenant_id=request.tenant.pk,
            receiver_id=receiver.pk,
            terms=said.model_dump(mode="json"),
            source=draft.form.cleaned_data["source"],
            reason=draft.form.cleaned_data["reason"],
            expected=draft.expected,
            person_id=request.person.pk,
            now=request.now,
        )
    except ContractWrittenMeanwhile:
        with reading(request.tenant.pk):
            draft.view = queries.receiver(receiver.pk)
            return _preview(request, draft, said)
    messages.success(request, f"Version {made.version} is in force. What is not settled keeps its own too.")
    return redirect("receiver-contract", request.tenant.slug, receiver.pk)
