"""Questions that steps ask: the list, and one question with the form that is made from the type of its answer."""

from __future__ import annotations

import json

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from access.authority import who_may
from access.doors import TenantRequest, tenant_page
from access.refusals import Conflict
from access.roles import Role
from access.tenancy import reading
from console.forms import TypedForm, form_for
from console.queries import questions as queries
from workflows.actions.answer import answer_question
from workflows.expectations import Misfit
from workflows.registry import RevisionMissing


@require_safe
@tenant_page()
def questions(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Open questions: those that the reader may answer, or all."""
    counts = queries.counts(request.roles)
    everything = request.GET.get("all") == "1"
    text = request.GET.get("after", "")
    after = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    page = queries.page(request.roles, yours=not everything, after=after)
    context = {
        "counts": counts,
        "all": everything,
        "rows": page.rows,
        "after": page.after,
        "further": bool(after),
    }
    return TemplateResponse(request, "console/questions.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def question(request: TenantRequest, slug: str, question_id: int) -> HttpResponseBase:
    """One question. GET shows it with its form, or with what became of it; POST answers."""
    with reading(request.tenant.pk):
        shown = queries.question_of(question_id)
    schema = json.loads(shown.question.schema)
    if request.method != "POST":
        return _page(request, shown, form_for(schema))
    form = form_for(schema, request)
    form.full_clean()
    try:
        answered = answer_question(
            tenant_id=request.tenant.pk,
            expectation_id=question_id,
            person_id=request.person.pk,
            value=form.value(),
            now=timezone.now(),
        )
    except Misfit as misfit:
        form.blame(misfit.problems)
        return _page(request, shown, form, status=422)
    except (Conflict, RevisionMissing) as refusal:
        with reading(request.tenant.pk):
            fresh = queries.question_of(question_id)
        return _page(request, fresh, form, status=409, note=_because(refusal))
    messages.success(
        request,
        "You had answered this already."
        if answered.repeated
        else f"Answered. {shown.question.job.label} goes on.",
    )
    with reading(request.tenant.pk):
        more = queries.counts(request.roles).yours
    return redirect("questions", slug) if more else redirect("job", slug, answered.job_id)


def _because(refusal: Exception) -> str:
    if isinstance(refusal, RevisionMissing):
        return f"This server cannot check it: {refusal} It can be answered where that revision is."
    return str(refusal)


def _page(
    request: TenantRequest, shown: queries.Shown, form: TypedForm, *, status: int = 200, note: str = ""
) -> TemplateResponse:
    """Rendered by the door, in the organisation's scope."""
    role = Role(shown.question.role)
    context = {
        "shown": shown,
        "question": shown.question,
        "job": shown.question.job,
        "form": form,
        "may": role in request.roles,
        "who_may": who_may(role),
        "wrong": sum(1 for name in form.errors if name != "__all__") if form.is_bound else 0,
        "note": note,
    }
    return TemplateResponse(request, "console/question.html", context, status=status)
