"""The page of saved views: keeping the filter of an address under a name, renaming, sharing, deleting."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from access.doors import TenantRequest, tenant_page
from access.refusals import Unprocessable
from access.tenancy import reading
from reconciliation.actions.saved_views import LONGEST, change_view, delete_view, save_view
from reconciliation.narrowing import Narrowing, faults_of
from reconciliation.viewing import kept_views


class ViewForm(forms.Form):
    """A name, and whether everybody sees it."""

    name = forms.CharField(
        label="Name", max_length=LONGEST, error_messages={"required": "Give the view a name."}
    )
    shared = forms.BooleanField(label="Share it with the organisation", required=False)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def saved_views(request: TenantRequest, slug: str) -> HttpResponseBase:
    """GET shows them, and asks for a name where the address narrows something; POST keeps that."""
    chosen = Narrowing.read(request.POST if request.method == "POST" else request.GET)
    form = ViewForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            save_view(
                tenant_id=request.tenant.pk,
                person_id=request.person.pk,
                name=form.cleaned_data["name"],
                chosen=chosen,
                shared=form.cleaned_data["shared"],
                now=timezone.now(),
            )
            messages.success(request, "Saved. It stands above the queue.")
            return redirect("saved-views", slug)
        except Unprocessable as wrong:
            form.add_error("name", str(wrong))
    with reading(request.tenant.pk):
        context = {
            "kept": kept_views(request.person.pk),
            "chosen": chosen.asked(),
            "faults": faults_of(chosen),
            "form": form,
        }
        status = 422 if form.is_bound else 200
        return TemplateResponse(request, "reconciliation/saved_views.html", context, status=status).render()


@require_POST
@tenant_page()
def change(request: TenantRequest, slug: str, view_id: int) -> HttpResponseBase:
    """Renames an own view, shares it, or keeps it to oneself again."""
    form = ViewForm(request.POST)
    if form.is_valid():
        try:
            change_view(
                tenant_id=request.tenant.pk,
                person_id=request.person.pk,
                view_id=view_id,
                name=form.cleaned_data["name"],
                shared=form.cleaned_data["shared"],
                now=timezone.now(),
            )
            messages.success(request, "Changed.")
        except Unprocessable as wrong:
            messages.error(request, str(wrong))
    else:
        messages.error(request, str(form.errors["name"][0]))
    return redirect("saved-views", slug)


@require_POST
@tenant_page()
def delete(request: TenantRequest, slug: str, view_id: int) -> HttpResponseBase:
    """Forgets it. Cases are as they were."""
    name = delete_view(tenant_id=request.tenant.pk, person_id=request.person.pk, view_id=view_id)
    messages.success(request, f"“{name}” is deleted.")
    return redirect("saved-views", slug)
