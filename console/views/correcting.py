"""Correcting what a stopped item works on: what it was given, what went wrong, and a form beside it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from access.doors import TenantRequest, tenant_page
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import reading
from console.correcting import EDITABLE, CorrectionForm, Given, WhyForm, form_of, given_to
from console.queries import item as items
from console.queries import job as queries
from console.words import several
from workflows.actions.correct import Corrected, check, correct_item
from workflows.corrections import InvalidCorrection
from workflows.models import Job, StageKind, WorkItem
from workflows.stopped import step_of, why_not_correct


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.OPERATOR)
def correct(request: TenantRequest, slug: str, job_id: int, item_id: int) -> HttpResponseBase:
    """GET shows what the step works on, to be changed; POST keeps a new version of it and has the step tried again."""
    data = request.POST if request.method == "POST" else None
    with reading(request.tenant.pk):
        job = queries.job_of(job_id)
        item = items.work_item(job, item_id)
        refusal = why_not_correct(job, item)
        if refusal:
            return _page(request, job, item, refusal=refusal, status=409 if data else 200)
        givens = given_to(job=job, item=item, step=step_of(job, item))
        form = form_of(
            givens,
            is_element=item.stage.kind == StageKind.EACH,
            as_json=(data or request.GET).get("as") == "json",
            data=data,
        )
        why = WhyForm(data, initial={"seen": item.claim_no})
        if data is None:
            return _page(request, job, item, givens=givens, form=form, why=why)
    try:
        if why.is_valid():
            done = _correct(request, item_id, form, why)
            messages.success(
                request, f"Corrected. It is tried again, up to {several(done.attempts, 'more time')}."
            )
            return redirect("item", slug, job_id, item_id)
        with reading(request.tenant.pk):
            check(job=job, item=item, text=form.text())
    except InvalidCorrection as wrong:
        form.blame(wrong.problems)
    except Unprocessable as wrong:
        form.add_error(None, str(wrong))
    except Conflict as late:
        return _page(request, job, item, refusal=str(late), status=409)
    return _page(request, job, item, givens=givens, form=form, why=why, status=422)


def _correct(request: TenantRequest, item_id: int, form: CorrectionForm, why: WhyForm) -> Corrected:
    return correct_item(
        tenant_id=request.tenant.pk,
        item_id=item_id,
        person_id=request.person.pk,
        text=form.text(),
        attempts=why.cleaned_data["attempts"],
        reason=why.cleaned_data["reason"],
        seen=why.cleaned_data["seen"],
        now=timezone.now(),
    )


def _page(
    request: TenantRequest,
    job: Job,
    item: WorkItem,
    *,
    givens: list[Given] | None = None,
    form: CorrectionForm | None = None,
    why: WhyForm | None = None,
    refusal: str = "",
    status: int = 200,
) -> TemplateResponse:
    """Rendered in the organisation's scope, where the item's last error is read."""
    with reading(request.tenant.pk):
        shown = items.item_of(job, item.pk)
    context: dict[str, Any] = {
        "job": job,
        "shown": shown,
        "last": shown.row.attempts[-1] if shown.row.attempts else None,
        "givens": givens or [],
        "longest": EDITABLE,
        "form": form,
        "why": why,
        "refusal": refusal,
        "written": _written(request),
        "wrong": _wrong(form) + _wrong(why),
    }
    return TemplateResponse(request, "console/correct.html", context, status=status)


def _written(request: TenantRequest) -> list[tuple[str, str]]:
    """What was typed, by the fields' names, to be copied from a page on which it can no longer be sent."""
    typed = [(name.removeprefix("v-"), text) for name, text in request.POST.items() if name.startswith("v-")]
    why = request.POST.get("reason", "")
    return [(name, str(text)) for name, text in [*typed, ("What was wrong", why)] if str(text).strip()]


def _wrong(form: Form | None) -> int:
    return len([name for name in form.errors if name != "__all__"]) if form is not None else 0
