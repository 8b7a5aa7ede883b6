"""The page of due times: every kind with its own, and what the organisation has written for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from access.doors import TenantRequest, tenant_page
from access.refusals import Conflict, NotPermitted, Unprocessable
from access.roles import Role
from access.tenancy import reading
from dispatch.models import Receiver
from reconciliation.actions.due_times import write_due_time
from reconciliation.due_times import last_written, table
from reconciliation.words import kind_choices


class DueTimeForm(forms.Form):
    """A kind, a receiver or all of them, and hours; no hours go back to the kind's own."""

    kind = forms.ChoiceField(label="Kind", choices=kind_choices)
    receiver = forms.TypedChoiceField(label="Receiver", required=False, coerce=int, empty_value=None)
    hours = forms.DecimalField(
        label="Due after, in hours",
        required=False,
        max_digits=7,
        decimal_places=2,
        help_text="Such as 4 or 0.5. Empty: as the kind itself says.",
    )
    seen = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    def __init__(self, data: Any, **more: Any) -> None:
        super().__init__(data, initial={"seen": last_written()}, **more)
        field = self.fields["receiver"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [
            ("", "Every receiver"),
            *Receiver.objects.order_by("title", "pk").values_list("pk", "title"),
        ]

    def after(self) -> timedelta | None:
        """The time that was typed."""
        hours = self.cleaned_data["hours"]
        return None if hours is None else timedelta(minutes=round(hours * 60))


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def due_times(request: TenantRequest, slug: str) -> HttpResponseBase:
    """GET shows them; POST writes one, as an admin."""
    if request.method == "POST" and Role.ADMIN not in request.roles:
        raise NotPermitted("Only an admin of this organisation says when cases are due.")
    status, posted = 200, request.POST if request.method == "POST" else None
    with reading(request.tenant.pk):
        form = DueTimeForm(posted)
        valid = posted is not None and form.is_valid()
    if valid:
        try:
            write_due_time(
                tenant_id=request.tenant.pk,
                person_id=request.person.pk,
                kind=form.cleaned_data["kind"],
                receiver_id=form.cleaned_data["receiver"],
                after=form.after(),
                seen=form.cleaned_data["seen"],
                now=timezone.now(),
            )
            messages.success(request, "Written. It holds for cases that open from now on.")
            return redirect("due-times", slug)
        except Conflict as late:
            status = 409
            form.add_error(None, str(late))
        except Unprocessable as wrong:
            form.add_error("hours", str(wrong))
    if posted is not None and status == 200:
        status = 422
    with reading(request.tenant.pk):
        context = {"kinds": table(), "form": form, "may": Role.ADMIN in request.roles, "seen": last_written()}
        return TemplateResponse(request, "reconciliation/due_times.html", context, status=status).render()
