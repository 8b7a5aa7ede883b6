"""Setting lines aside from the page of their case."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from access.doors import TenantRequest, tenant_page
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import reading
from reconciliation import desk
from reconciliation.actions.setting_aside import set_lines_aside
from reconciliation.asking import COMMENTERS
from reconciliation.queries import CasePage, case_page, cases_of_statement
from reconciliation.situation import SECONDERS
from reconciliation.tabs import mark_of
from reconciliation.unclaimed.choosing import Chosen
from reconciliation.unclaimed.forms import AsideForm
from reconciliation.unclaimed.pages import lines_page
from statements.matching.models import AsideKind

ASIDE = "aside"
"""`?show=` of the lines that were set aside."""


@require_POST
@tenant_page(Role.OPERATOR)
def set_aside(request: TenantRequest, slug: str, case_id: int) -> HttpResponseBase:
    """Sets the ticked lines aside, or all that the filter leaves; or shows the case again with what stands in the way."""
    form = AsideForm(request.POST)
    if not form.is_valid():
        return _again(request, slug, case_id, form, 422)
    try:
        done = set_lines_aside(
            tenant_id=request.tenant.pk,
            case_id=case_id,
            person_id=request.person.pk,
            now=timezone.now(),
            **form.asked(request.POST.getlist("line")),
        )
    except Unprocessable as wrong:
        form.add_error("words" if form.cleaned_data["kind"] == AsideKind.OTHER else "which", str(wrong))
        return _again(request, slug, case_id, form, 422)
    except Conflict as late:
        form.add_error("which", str(late))
        return _again(request, slug, case_id, form, 409)
    messages.success(request, done.sentence)
    for why in done.refused:
        messages.warning(request, why)
    return redirect("case", slug, case_id)


def lines_context(request: TenantRequest, page: CasePage, form: AsideForm | None = None) -> dict[str, Any]:
    """What the page of such a case shows beyond other cases."""
    assert page.statement_id is not None
    given = request.POST if form is not None else request.GET
    chosen, show = Chosen.read(given), request.GET.get("show", "")
    lines = lines_page(
        page.statement_id, chosen, after=request.GET.get("after", "")[:40], show_aside=show == ASIDE
    )
    initial = {"version": page.version, "seen": lines.seen}
    return {
        "lines": lines,
        "aside_form": form or AsideForm(None, initial),
        "show": show,
        "further": bool(request.GET.get("after")),
        "others": [
            r for r in cases_of_statement(page.statement_id, now=request.now) if r.case_id != page.case_id
        ],
        "may_set_aside": Role.OPERATOR in request.roles and not page.resolved and page.request is None,
    }


def case_context(request: TenantRequest, slug: str, page: CasePage) -> dict[str, Any]:
    """What every case's page shows, of one without a job."""
    return {
        "c": page,
        "mark": mark_of(page.kind),
        "due_near": desk.is_near(page.due_at, request.now),
        "asked_for": desk.asked_for(page),
        "mine": page.assignee_id == request.person.pk,
        "may_comment": not request.roles.isdisjoint(COMMENTERS),
        "may_add": not request.roles.isdisjoint(SECONDERS),
    }


def _again(request: TenantRequest, slug: str, case_id: int, form: AsideForm, status: int) -> HttpResponseBase:
    with reading(request.tenant.pk):
        page = case_page(case_id, request.person.pk, now=request.now)
        lines = lines_context(request, page, form)
        renewed = request.POST.copy()
        renewed["version"], renewed["seen"] = str(page.version), lines["lines"].seen
        form.data = renewed
        context = {**case_context(request, slug, page), **lines, "ticked": set(request.POST.getlist("line"))}
        return render(request, "reconciliation/case.html", context, status=status)
