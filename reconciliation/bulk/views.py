"""The pages of bulks. Choosing, confirming and stopping are posted; nothing is done by looking."""

from __future__ import annotations

from django.contrib import messages
from django.forms import Form
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from access.doors import TenantRequest, tenant_page
from access.refusals import Unprocessable
from access.roles import Role
from access.tenancy import reading
from dispatch.models import Receiver
from reconciliation.actions.bulk import confirm_bulk, plan_bulk, stop_bulk
from reconciliation.bulk import pages
from reconciliation.bulk.forms import ChooseForm, ConfirmForm
from reconciliation.bulk.pages import bulk_page
from reconciliation.bulk.verbs import terms_of
from reconciliation.models import Bulk
from web.htmx import STOP_POLLING, render_fragment, wants_fragment

PAGE = "reconciliation/bulk.html"


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.OPERATOR, Role.ADMIN)
def bulks(request: TenantRequest, slug: str) -> HttpResponseBase:
    """GET asks what is to be done to what; POST freezes what that finds and shows it, and does nothing to it yet."""
    posted = request.POST if request.method == "POST" else None
    with reading(request.tenant.pk):
        form = ChooseForm(
            posted,
            roles=request.roles,
            workflows=pages.workflows(),
            receivers=Receiver.objects.order_by("title", "pk").values_list("name", "title"),
            initial=request.GET.dict(),
        )
        latest = pages.latest()
    status = 200
    if posted is not None and form.is_valid():
        try:
            planned = plan_bulk(
                tenant_id=request.tenant.pk,
                person_id=request.person.pk,
                verb=form.cleaned_data["verb"],
                filters=form.filters(),
                now=timezone.now(),
            )
            return redirect("bulk", slug, planned.bulk_id)
        except Unprocessable as refused:
            form.add_error(None, str(refused))
    if posted is not None:
        status = 422
    context = {"form": form, "latest": latest}
    return TemplateResponse(request, "reconciliation/bulks.html", context, status=status)


@require_safe
@tenant_page()
def bulk(request: TenantRequest, slug: str, bulk_id: int) -> HttpResponseBase:
    """What was chosen, to be confirmed; or how far it is, and what came of each. Its live part asks again while it runs."""
    text = request.GET.get("after", "")
    after = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    page = bulk_page(bulk_id, request.roles, show=request.GET.get("show", ""), after=after)
    context = {
        "b": page,
        "form": ConfirmForm(None, page.terms),
        "show": request.GET.get("show", ""),
        "further": after,
    }
    status = STOP_POLLING if not page.running and wants_fragment(request) else 200
    return render_fragment(request, f"{PAGE}#live", context, status)


@require_POST
@tenant_page(Role.OPERATOR, Role.ADMIN)
def confirm(request: TenantRequest, slug: str, bulk_id: int) -> HttpResponseBase:
    """Has what was chosen done, once, with a reason."""
    with reading(request.tenant.pk):
        page = bulk_page(bulk_id, request.roles)
        form = ConfirmForm(request.POST, page.terms)
    if form.is_valid():
        try:
            confirm_bulk(
                tenant_id=request.tenant.pk,
                bulk_id=bulk_id,
                person_id=request.person.pk,
                reason=form.cleaned_data["reason"],
                attempts=form.cleaned_data.get("attempts"),
                now=timezone.now(),
            )
            messages.success(
                request, "Confirmed. The workers do one after the other; you need not wait for it."
            )
            return redirect("bulk", slug, bulk_id)
        except Unprocessable as wrong:
            form.add_error("reason", str(wrong))
    return _again(request, page, form)


@require_POST
@tenant_page(Role.OPERATOR, Role.ADMIN)
def stop(request: TenantRequest, slug: str, bulk_id: int) -> HttpResponseBase:
    """Leaves what has not been done yet."""
    left = stop_bulk(
        tenant_id=request.tenant.pk, bulk_id=bulk_id, person_id=request.person.pk, now=timezone.now()
    )
    with reading(request.tenant.pk):
        things = terms_of(Bulk.objects.values_list("verb", flat=True).get(pk=bulk_id)).things
    messages.success(request, f"Stopped. {left:,} {things} are left as they were; what was done stays done.")
    return redirect("bulk", slug, bulk_id)


def _again(request: TenantRequest, page: pages.BulkPage, form: Form) -> HttpResponseBase:
    context = {"b": page, "form": form, "show": "", "further": 0}
    return TemplateResponse(request, PAGE, context, status=422)
