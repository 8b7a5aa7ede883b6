"""Callbacks of a receiver: where it may send them, who signs them, and what came."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from access.doors import TenantRequest, tenant_page
from console.queries.callbacks import callbacks_of
from console.views.events import READERS
from dispatch import queries


@require_safe
@tenant_page(*READERS)
def callbacks(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """Newest first; `?before=` goes on from one."""
    text = request.GET.get("before", "")
    before = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    view = queries.receiver(receiver_id)
    address = reverse("api:callback", args=[view.receiver.public_id])
    context = {
        "view": view,
        "page": callbacks_of(view, before=before),
        "address": f"{settings.COUNTERFOIL_URL}{address}",
        "newest": not before,
    }
    return render(request, "console/callbacks.html", context)
