"""Limits: what each allows and how it stands; an admin sets and drops them."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from access.tenancy import reading
from web.htmx import render_fragment
from workflows.actions.limits import (
    LARGEST,
    LARGEST_COST,
    BadLimit,
    NoSuchLimit,
    Terms,
    drop_limit,
    set_limit,
)
from workflows.limit_figures import standings
from workflows.models import Limit


class LimitForm(forms.Form):
    """A limit's name and terms; an empty term is not limited."""

    name = forms.CharField(max_length=100, label="Name", help_text="As workflows name it, such as model-a.")
    concurrency = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LARGEST,
        label="At once",
        help_text="Steps that run together, on all hosts.",
    )
    requests_per_minute = forms.IntegerField(
        required=False, min_value=1, max_value=LARGEST, label="Starts a minute"
    )
    tokens_per_minute = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LARGEST,
        label="Tokens a minute",
        help_text="Known only afterwards: can be passed by what was running when it was reached.",
    )
    cost_per_day = forms.DecimalField(
        required=False,
        min_value=0,
        max_value=LARGEST_COST,
        max_digits=14,
        decimal_places=6,
        label="Cost a day",
        help_text="In the currency of costs, by days of UTC; can be passed likewise.",
    )

    def terms(self) -> Terms:
        data = self.cleaned_data
        return Terms(
            data["concurrency"], data["requests_per_minute"], data["tokens_per_minute"], data["cost_per_day"]
        )


@require_safe
@tenant_page()
def limits(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Every limit that holds here, and those that workflows name and nobody has set."""
    context = {"limits": standings(timezone.now()), "may_set": Role.ADMIN in request.roles}
    return render(request, "console/limits.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def edit(request: TenantRequest, slug: str) -> HttpResponseBase:
    """GET shows the terms of `?name=`; POST sets them."""
    form = LimitForm(request.POST if request.method == "POST" else None, initial=_initial(request))
    if request.method == "POST" and form.is_valid():
        try:
            set_limit(
                tenant_id=request.tenant.pk,
                name=form.cleaned_data["name"],
                terms=form.terms(),
                person_id=request.person.pk,
                now=timezone.now(),
            )
        except BadLimit as bad:
            form.add_error(None, str(bad))
        else:
            messages.success(request, "Set. It holds from the next step on that is started.")
            return redirect("limits", slug)
    with reading(request.tenant.pk):
        status = 422 if form.is_bound else 200
        return TemplateResponse(request, "console/limit.html", {"form": form}, status=status).render()


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def drop(request: TenantRequest, slug: str) -> HttpResponseBase:
    """GET says what dropping the limit of `?name=` means; POST drops it, if it is as it was when that was said."""
    if request.method != "POST":
        return render_fragment(request, "console/drop.html#dialog", _about(request.GET.get("name", "")))
    drop_limit(
        tenant_id=request.tenant.pk,
        name=request.POST.get("name", "").replace("\0", ""),
        person_id=request.person.pk,
        as_of=request.POST.get("as_of", ""),
    )
    messages.success(request, "Dropped. What names it is no longer limited by it.")
    return redirect("limits", slug)


def _about(name: str) -> dict[str, object]:
    named = [s for s in standings(timezone.now()) if s.name == name and s.terms is not None]
    own = next((s for s in named if not s.shared), None)
    if own is None or own.terms is None:
        raise NoSuchLimit(f"There is no limit {name}; it may have been taken away already.")
    return {"limit": own, "as_of": own.terms.changed_at.isoformat(), "shared_stays": len(named) > 1}


def _initial(request: TenantRequest) -> dict[str, object]:
    name = request.GET.get("name", "").replace("\0", "")
    with reading(request.tenant.pk):
        limit = Limit.objects.filter(name=name).first()
    if limit is None:
        return {"name": name}
    fields = ("name", "concurrency", "requests_per_minute", "tokens_per_minute")
    cost = None if limit.cost_per_day is None else f"{limit.cost_per_day.normalize():f}"
    return {**{field: getattr(limit, field) for field in fields}, "cost_per_day": cost}
