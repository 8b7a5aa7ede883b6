"""Receivers: what each promises, in words, and the pause switch."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from access.tenancy import reading
from console.reasons import ReasonForm
from console.views.events import READERS
from dispatch import queries
from dispatch.actions.receivers import pause_receiver, resume_receiver
from dispatch.locks import NoSuchReceiver
from dispatch.models import Receiver
from statements.views import READERS as STATEMENT_READERS
from web.htmx import render_fragment


@require_safe
@tenant_page()
def receivers(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Every receiver with its contract in force."""
    context = {
        "receivers": queries.receivers(),
        "may_pause": Role.ADMIN in request.roles,
        "may_read_statements": not request.roles.isdisjoint(STATEMENT_READERS),
        "may_read_events": not request.roles.isdisjoint(READERS),
    }
    return render(request, "console/receivers.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def pause(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """GET says what a pause stops and asks for a reason; POST pauses."""
    form = ReasonForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        pause_receiver(
            tenant_id=request.tenant.pk,
            receiver_id=receiver_id,
            person_id=request.person.pk,
            reason=form.cleaned_data["reason"],
            now=timezone.now(),
        )
        messages.success(request, "Paused. Nothing is sent to it until it is resumed; look-ups go on.")
        incident = request.POST.get("incident", "")
        return (
            redirect("incident", slug, int(incident)) if _is_number(incident) else redirect("receivers", slug)
        )
    with reading(request.tenant.pk):
        receiver = Receiver.objects.filter(pk=receiver_id).first()
        if receiver is None:
            raise NoSuchReceiver(f"There is no receiver {receiver_id} here.")
        came_from = (request.POST if form.is_bound else request.GET).get("incident", "")
        context = {"receiver": receiver, "form": form, "incident": came_from if _is_number(came_from) else ""}
        if form.is_bound:
            return TemplateResponse(request, "console/pause.html", context, status=422).render()
        return render_fragment(request, "console/pause.html#dialog", context)


@require_POST
@tenant_page(Role.ADMIN)
def resume(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """Lets sends go on."""
    resume_receiver(
        tenant_id=request.tenant.pk,
        receiver_id=receiver_id,
        person_id=request.person.pk,
        now=timezone.now(),
    )
    messages.success(request, "Resumed. What waited is sent after its checks.")
    return redirect("receivers", slug)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
