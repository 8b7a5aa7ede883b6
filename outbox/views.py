"""The pages of notifications: what was told to whom, what waits or was given up, and the endpoints that are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages as news
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from access.tenancy import reading
from outbox import queries
from outbox.actions import endpoints as deeds
from outbox.actions.messages import send_again
from outbox.forms import DisableForm, EndpointForm
from outbox.models import Endpoint
from web.htmx import render_fragment

READERS = (Role.ADMIN, Role.OPERATOR, Role.AUDITOR)
SENDERS = (Role.ADMIN, Role.OPERATOR)


@require_safe
@tenant_page(*READERS)
def notifications(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Endpoints, and messages newest first: `?show=waiting` or `given-up`, `?before=` for older ones."""
    which = request.GET.get("show", "")
    text = request.GET.get("before", "")
    before = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    context = {
        "endpoints": queries.endpoints(),
        "page": queries.messages(which=which, before=before, now=request.now),
        "filters": [(name, label) for name, (label, _) in queries.FILTERS.items()],
        "show": which if which in queries.FILTERS else "",
        "newest": not before,
        "mail_is_set": bool(settings.EMAIL_HOST),
        "may_write": Role.ADMIN in request.roles,
        "may_send": not request.roles.isdisjoint(SENDERS),
    }
    return render(request, "outbox/notifications.html", context)


@require_safe
@tenant_page(*READERS)
def message(request: TenantRequest, slug: str, message_id: int) -> HttpResponseBase:
    """One message: what it says, to whom, and every try."""
    found = queries.message(message_id, request.now)
    may_send = not request.roles.isdisjoint(SENDERS) and found.row.message.delivered_at is None
    return render(request, "outbox/message.html", {"view": found, "row": found.row, "may_send": may_send})


@require_POST
@tenant_page(*SENDERS)
def again(request: TenantRequest, slug: str, message_id: int) -> HttpResponseBase:
    """Has one message tried now."""
    send_again(
        tenant_id=request.tenant.pk, message_id=message_id, person_id=request.person.pk, now=request.now
    )
    news.success(request, "It is tried now. The recipient can tell a repeat by its id.")
    return redirect("notification", slug, message_id)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def add(request: TenantRequest, slug: str) -> HttpResponseBase:
    """The form of a new endpoint."""
    form = EndpointForm(request.POST if request.method == "POST" else None, adding=True)

    def write() -> None:
        deeds.add_endpoint(
            tenant_id=request.tenant.pk, name=form.cleaned_data["name"], person_id=request.person.pk,
            now=request.now, **_what(form),
        )  # fmt: skip

    return _edit(request, form, write, "It is told of what happens from now on.", None)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def change(request: TenantRequest, slug: str, endpoint_id: int) -> HttpResponseBase:
    """The form of an endpoint that there is."""
    with reading(request.tenant.pk):
        endpoint = queries.endpoint_called(endpoint_id)
    initial = {
        "url": endpoint.url,
        "secret_reference": endpoint.secret_reference,
        "chosen": endpoint.events,
    }
    form = EndpointForm(request.POST if request.method == "POST" else None, adding=False, initial=initial)

    def write() -> None:
        deeds.change_endpoint(
            tenant_id=request.tenant.pk, endpoint_id=endpoint_id, grace=form.grace,
            person_id=request.person.pk, now=request.now, **_what(form),
        )  # fmt: skip

    return _edit(
        request, form, write, "Changed. What waits for it goes out by what stands here now.", endpoint
    )


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def disable(request: TenantRequest, slug: str, endpoint_id: int) -> HttpResponseBase:
    """Asks for the reason, then has the endpoint told nothing more."""
    form = DisableForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        deeds.disable_endpoint(
            tenant_id=request.tenant.pk, endpoint_id=endpoint_id, person_id=request.person.pk,
            reason=form.cleaned_data["reason"], now=request.now,
        )  # fmt: skip
        news.success(request, "Disabled. It is told nothing more, and what waited for it is given up.")
        return redirect("notifications", slug)
    with reading(request.tenant.pk):
        context = {"form": form, "endpoint": queries.endpoint_called(endpoint_id)}
        if form.is_bound:
            return TemplateResponse(request, "outbox/disable.html", context, status=422).render()
        return render_fragment(request, "outbox/disable.html#dialog", context)


@require_POST
@tenant_page(Role.ADMIN)
def enable(request: TenantRequest, slug: str, endpoint_id: int) -> HttpResponseBase:
    """Has the endpoint told again."""
    deeds.enable_endpoint(
        tenant_id=request.tenant.pk, endpoint_id=endpoint_id, person_id=request.person.pk, now=request.now
    )
    news.success(request, "Enabled. It is told of what happens from now on.")
    return redirect("notifications", slug)


@require_POST
@tenant_page(*SENDERS)
def test(request: TenantRequest, slug: str, endpoint_id: int) -> HttpResponseBase:
    """Sends the endpoint a message that tells of nothing."""
    deeds.send_test(
        tenant_id=request.tenant.pk, endpoint_id=endpoint_id, person_id=request.person.pk, now=request.now
    )
    news.success(request, "A test is on its way. What came of it stands in the list below.")
    return redirect("notifications", slug)


def _what(form: EndpointForm) -> dict[str, Any]:
    return {key: form.cleaned_data[key] for key in ("url", "secret_reference", "chosen")}


def _edit(
    request: TenantRequest,
    form: EndpointForm,
    write: Callable[[], None],
    done: str,
    endpoint: Endpoint | None,
) -> HttpResponseBase:
    """Writes what was posted and goes back to the list; else the form, with what is wrong with it."""
    if request.method == "POST" and form.is_valid():
        try:
            write()
        except (deeds.BadEndpoint, deeds.EndpointExists) as bad:
            form.add_error(None, str(bad))
        else:
            news.success(request, done)
            return redirect("notifications", request.tenant.slug)
    with reading(request.tenant.pk):
        context = {"form": form, "endpoint": endpoint}
        status = 422 if form.is_bound else 200
        return TemplateResponse(request, "outbox/endpoint.html", context, status=status).render()
