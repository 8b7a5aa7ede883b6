"""The room's pages: the list of cases, one case, and a form for every verb. Nothing decides on GET."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from access.doors import DoorView, TenantRequest, tenant_page
from access.refusals import Conflict, Unprocessable
from access.tenancy import reading
from reconciliation import counting, desk, narrowing
from reconciliation.actions import outcomes, owning
from reconciliation.actions.comparing import DoesNotMatch
from reconciliation.actions.working import EvidenceMissing, StaleCase
from reconciliation.asking import Ask, Asked, perform
from reconciliation.expecting import expected_page
from reconciliation.figures import DAYS, figures
from reconciliation.forms import CaseForm
from reconciliation.incidents.pages import open_incidents
from reconciliation.links import link
from reconciliation.locks import NoSuchEvidence, NoSuchRequest
from reconciliation.models import Evidence, ResolutionRequest
from reconciliation.narrowing import Narrowing, faults_of
from reconciliation.papers import LOOKS, PaperKind
from reconciliation.queries import CasePage, case_page, cases_of, open_cases
from reconciliation.situation import SECONDERS
from reconciliation.tabs import EXPECTED, mark_of
from reconciliation.unclaimed import views as unclaimed
from reconciliation.viewing import views
from web.downloads import download
from web.htmx import render_fragment, wants_fragment

CASE, ASK = "reconciliation/case.html", "reconciliation/ask.html"


@require_safe
@tenant_page()
def cases(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Open cases, the nearest clock first, by keyset. What cannot be read in the query narrows nothing, and is named."""
    chosen = Narrowing.read(request.GET)
    context = {
        "counts": counting.counts(request.person.pk, now=request.now),
        "chosen": chosen,
        "views": views(chosen, request.person.pk),
        "here": urlencode(chosen.asked()),
        "further": bool(request.GET.get("after")),
        "me": request.person.username,
        "may_bulk": not request.roles.isdisjoint(SECONDERS),
    }
    if chosen.kind == EXPECTED:
        expected = expected_page(after=_number(request.GET.get("after", "")))
        context |= {"expected": expected, "after": expected.after}
        return render_fragment(request, "reconciliation/cases.html#list", context)
    page = open_cases(
        now=request.now, person_id=request.person.pk, chosen=chosen, after=request.GET.get("after", "")[:40]
    )
    context |= {
        "rows": [(row, mark_of(row.kind)) for row in page.rows],
        "after": page.after,
        "faults": faults_of(chosen),
        "narrowed": bool(chosen.asked()),
        "choices": narrowing.choices(chosen),
        "incidents": () if context["further"] else open_incidents(),
    }
    return render_fragment(request, "reconciliation/cases.html#list", context)


@require_safe
@tenant_page()
def figures_page(request: TenantRequest, slug: str) -> HttpResponseBase:
    """How often nobody knew, how long that took, and what answered it, by receiver."""
    context = {"figures": figures(request.now), "days": DAYS}
    return TemplateResponse(request, "reconciliation/figures.html", context)


@require_safe
@tenant_page()
def case(request: TenantRequest, slug: str, case_id: int) -> HttpResponseBase:
    """One case; its live part asks again while the case is open."""
    page = case_page(case_id, request.person.pk, now=request.now)
    return render_fragment(request, f"{CASE}#live", _case_context(request, slug, page))


@require_POST
@tenant_page()
def look_up(request: TenantRequest, slug: str, case_id: int) -> HttpResponseBase:
    """Asks the receiver. The answer is new evidence on the case's page, wherever the question came from."""
    seen = outcomes.look_up(
        tenant_id=request.tenant.pk,
        case_id=case_id,
        person_id=request.person.pk,
        version=_version(request.POST),
        now=timezone.now(),
    )
    if not wants_fragment(request):
        messages.info(request, seen.sentence)
        return redirect("case", slug, case_id)
    with reading(request.tenant.pk):
        page = case_page(case_id, request.person.pk, now=timezone.now())
        context = {**_case_context(request, slug, page), "said": seen.sentence}
        return render_fragment(request, f"{CASE}#answered", context)


@require_safe
@tenant_page()
def evidence_file(request: TenantRequest, slug: str, case_id: int, evidence_id: int) -> HttpResponse:
    """A document of a case, to be saved and never shown: what it holds came from anybody."""
    row = Evidence.objects.select_related("file").filter(pk=evidence_id, case=case_id).first()
    if row is None or row.file is None:
        raise NoSuchEvidence("This case has no such document.")
    return download(
        name=row.file_name, media_type=LOOKS[PaperKind(row.file.kind)].media_type, content=row.file.content
    )


@require_POST
@tenant_page()
def take(request: TenantRequest, slug: str, case_id: int) -> HttpResponseBase:
    """The case is the reader's own from now on."""
    done = owning.take(
        tenant_id=request.tenant.pk,
        case_id=case_id,
        person_id=request.person.pk,
        version=_version(request.POST),
        now=timezone.now(),
    )
    return _done(request, slug, case_id, done.sentence)


def asks(ask: Ask) -> DoorView[...]:
    """The view of one question: GET asks, as a page or as a dialog; POST does it, or asks again with what was typed."""

    @require_http_methods(["GET", "HEAD", "POST"])
    @tenant_page(takes_files=True)
    def view(request: TenantRequest, slug: str, case_id: int, request_id: int = 0) -> HttpResponseBase:
        with reading(request.tenant.pk):
            page = case_page(case_id, request.person.pk, now=request.now)
            _refuse_strange(case_id, request_id)
            posted = (request.POST, request.FILES) if request.method == "POST" else (None, None)
            form = ask.form(posted[0], page, posted[1])
            if not form.is_bound:
                return _ask(request, slug, ask, page, form, request_id)
        if not form.is_valid():
            return _ask(request, slug, ask, page, form, request_id, status=422)
        try:
            goes_on, said = perform(ask, _asked(request, case_id, request_id, form))
            return _done(request, slug, goes_on, said)
        except Unprocessable as wrong:
            named = wrong.field if isinstance(wrong, DoesNotMatch | EvidenceMissing) else ""
            field = named or form.free
            form.add_error(field if field in form.fields else None, str(wrong))
            return _ask(request, slug, ask, page, form, request_id, status=422)
        except Conflict as late:
            return _too_late(request, slug, ask, form, request_id, late)

    return view


def _asked(request: TenantRequest, case_id: int, request_id: int, form: CaseForm) -> Asked:
    return Asked(
        tenant_id=request.tenant.pk,
        case_id=case_id,
        request_id=request_id,
        person_id=request.person.pk,
        now=timezone.now(),
        form=form,
    )


def _too_late(
    request: TenantRequest, slug: str, ask: Ask, form: CaseForm, request_id: int, late: Conflict
) -> HttpResponseBase:
    """What was typed is kept beside how the case is now, and can be sent again where that still makes sense."""
    with reading(request.tenant.pk):
        page = case_page(form.page.case_id, request.person.pk, now=timezone.now())
    form.renewed(page)
    title = "This cannot be done now"
    if isinstance(late, StaleCase):
        title = f"{page.label} is resolved" if page.resolved else f"{page.label} has changed"
    conflict = {"title": title, "because": str(late)}
    return _ask(request, slug, ask, page, form, request_id, status=409, conflict=conflict)


def _ask(
    request: TenantRequest,
    slug: str,
    ask: Ask,
    page: CasePage,
    form: CaseForm,
    request_id: int,
    *,
    status: int = 200,
    conflict: dict[str, str] | None = None,
) -> HttpResponseBase:
    answered = page.request is None or page.request.request_id != request_id
    place = (slug, page.case_id, request_id) if request_id else (slug, page.case_id)
    verb = next((v for v in page.verbs if v.name is ask.verb), None)
    context = {
        "ask": ask,
        "c": page,
        "form": form,
        "verb": verb,
        "asked": None if answered else page.request,
        "asked_for": desk.asked_for(page),
        "lead": ask.lead or (verb.sentence if verb else ""),
        "refusal": ask.refusal(page, request.roles) or _no_answer(ask, page, request_id),
        "conflict": conflict,
        "url": reverse(ask.url_name, args=place),
    }
    name = f"{ASK}#dialog" if wants_fragment(request) else ASK
    response = TemplateResponse(request, name, context, status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def _refuse_strange(case_id: int, request_id: int) -> None:
    if request_id and not ResolutionRequest.objects.filter(pk=request_id, case=case_id).exists():
        raise NoSuchRequest(f"There is no request {request_id} here.")


def _no_answer(ask: Ask, page: CasePage, request_id: int) -> str:
    """Why this person does not answer a request, or nothing."""
    if not request_id:
        return ""
    if page.request is None or page.request.request_id != request_id:
        return "This request has been answered already."
    if ask.path == "withdraw":
        return "" if page.request.may_withdraw else "Only whoever asked takes it back; you can decline it."
    return page.request.why_not


def _done(request: TenantRequest, slug: str, case_id: int, sentence: str) -> HttpResponseBase:
    messages.success(request, sentence)
    if wants_fragment(request):
        return HttpResponseClientRedirect(reverse("case", args=(slug, case_id)))
    return redirect("case", slug, case_id)


def _case_context(request: TenantRequest, slug: str, page: CasePage) -> dict[str, Any]:
    if page.statement_id is not None:
        return {**unclaimed.case_context(request, slug, page), **unclaimed.lines_context(request, page)}
    assert page.job_id is not None
    return {
        **unclaimed.case_context(request, slug, page),
        "ladder": desk.ladder(page, slug),
        "window": desk.window(page, request.now),
        "others": [row for row in cases_of(page.job_id, now=request.now) if row.case_id != page.case_id],
        "slip_url": link("approval", slug, page.proposal_id) if page.proposal_id else "",
        "item_url": link("item", slug, page.job_id, page.item_id) if page.item_id else "",
        "job_url": link("job", slug, page.job_id),
    }


def _version(data: QueryDict) -> int:
    text = data.get("version", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
