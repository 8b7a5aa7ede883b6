"""The pages of matching: one line and what it could be, and how far the ladder goes for a receiver."""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from access.doors import TenantRequest, tenant_page
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import reading
from dispatch.settling import NotInDoubt, StillSending
from statements import attaching
from statements.locks import NoSuchStatement
from statements.matching import completeness, exporting, queries
from statements.matching.actions.matching import match_lines, set_matching, unmatch, walk_again
from statements.matching.actions.taking_back import take_back_aside
from statements.matching.completeness import Period
from statements.matching.forms import MatchForm, PeriodForm, SettingsForm, TakeBackForm, UnmatchForm
from statements.matching.sides import Scope

READERS = (Role.OPERATOR, Role.ADMIN, Role.AUDITOR)


@require_safe
@tenant_page(*READERS)
def line(request: TenantRequest, slug: str, line_id: int) -> HttpResponseBase:
    """One line: what it is matched with, or what it could be and why."""
    return _line_page(request, line_id)


@require_POST
@tenant_page(Role.OPERATOR)
def match(request: TenantRequest, slug: str, line_id: int) -> HttpResponseBase:
    """Matches it with what was chosen."""
    form = MatchForm(request.POST)
    if not form.is_valid():
        return _line_page(request, line_id, match_form=form, status=422)
    further, operations = form.cleaned_data["operations"]
    try:
        done = match_lines(
            tenant_id=request.tenant.pk,
            line_ids=[line_id, *further],
            operation_ids=operations,
            person_id=request.person.pk,
            reason=form.cleaned_data["reason"],
            now=request.now,
        )
    except (Unprocessable, Conflict) as refused:
        form.add_error("operations", str(refused))
        return _line_page(
            request, line_id, match_form=form, status=409 if isinstance(refused, Conflict) else 422
        )
    messages.success(request, done.sentence)
    return redirect("statement-line", slug, line_id)


@require_POST
@tenant_page(Role.OPERATOR)
def unmatch_line(request: TenantRequest, slug: str, line_id: int, match_id: int) -> HttpResponseBase:
    """Takes its match back."""
    form = UnmatchForm(request.POST)
    if not form.is_valid():
        return _line_page(request, line_id, unmatch_form=form, status=422)
    try:
        said = unmatch(
            tenant_id=request.tenant.pk,
            match_id=match_id,
            person_id=request.person.pk,
            reason=form.cleaned_data["reason"],
            now=request.now,
        )
    except (StillSending, NotInDoubt, Conflict) as refused:
        form.add_error("reason", str(refused))
        return _line_page(request, line_id, unmatch_form=form, status=409)
    messages.success(request, said)
    return redirect("statement-line", slug, line_id)


@require_POST
@tenant_page(Role.OPERATOR)
def take_back(request: TenantRequest, slug: str, line_id: int) -> HttpResponseBase:
    """Has a line that was set aside be looked at again."""
    form = TakeBackForm(request.POST)
    if not form.is_valid():
        return _line_page(request, line_id, take_back_form=form, status=422)
    take_back_aside(
        tenant_id=request.tenant.pk,
        line_id=line_id,
        person_id=request.person.pk,
        reason=form.cleaned_data["reason"],
        now=request.now,
    )
    messages.success(
        request, "Taken back. The line is unclaimed again, and a case asks about it in a moment."
    )
    return redirect("statement-line", slug, line_id)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(*READERS)
def receiver(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """How far the ladder goes for a receiver, its walks, and its statements with unclaimed lines. Admins change it."""
    with reading(request.tenant.pk):
        page = queries.receiver_page(receiver_id)
        form = SettingsForm(request.POST if request.method == "POST" else None, settings=page.settings)
        if request.method == "POST" and form.is_valid():
            pass
        else:
            context = {"page": page, "form": form, "may_set": Role.ADMIN in request.roles}
            context["may_work"] = Role.OPERATOR in request.roles
            status = 422 if request.method == "POST" else 200
            return render(request, "statements/matching.html", context, status=status)
    version = set_matching(
        tenant_id=request.tenant.pk,
        receiver_id=receiver_id,
        settings=form.settings(),
        person_id=request.person.pk,
        now=request.now,
    )
    messages.success(request, f"Kept as version {version}. It holds for walks that begin from now on.")
    return redirect("matching", slug, receiver_id)


@require_POST
@tenant_page(Role.OPERATOR)
def walk(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """Has every unclaimed line of the receiver looked at again."""
    walk_again(
        tenant_id=request.tenant.pk, receiver_id=receiver_id, person_id=request.person.pk, now=request.now
    )
    messages.success(request, "Workers walk over every unclaimed line. You need not wait for it.")
    return redirect("matching", slug, receiver_id)


@require_safe
@tenant_page(*READERS)
def complete(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """What the receiver booked against what was settled, with what makes the difference."""
    page = completeness.of_statement(statement_id)
    period_url = reverse("statement-period", args=(slug, page.statement.receiver_id))
    if page.scope is not None:
        period_url = f"{period_url}?{_query(page.scope)}"
    return render(request, "statements/completeness.html", {"page": page, "period_url": period_url})


@require_safe
@tenant_page(*READERS)
def period(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """The same over days of an account, with how its statements follow each other; what is no day is said."""
    form = PeriodForm(request.GET)
    page = _period(receiver_id, form)
    query = _query(page.scope) if page is not None else ""
    context = {"page": page, "form": form, "receiver": queries.receiver_of(receiver_id), "query": query}
    return render(request, "statements/period.html", context)


@require_safe
@tenant_page(*READERS)
def period_file(request: TenantRequest, slug: str, receiver_id: int) -> HttpResponseBase:
    """What makes the difference over days of an account, as CSV."""
    page = _period(receiver_id, PeriodForm(request.GET))
    if page is None:
        raise NoSuchStatement("No statement of these days is applied.")
    name = f"{page.receiver.name}-{page.scope.first}-{page.scope.last}-differences.csv"
    return attaching.csv(exporting.differences(request.tenant.pk, page.scope), name)


def _period(receiver_id: int, form: PeriodForm) -> Period | None:
    given = form.cleaned_data if form.is_valid() else {"account": form.cleaned_data.get("account")}
    return completeness.of_period(receiver_id, **given)


def _query(scope: Scope) -> str:
    return urlencode({"account": scope.account, "first": scope.first, "last": scope.last})


def _line_page(
    request: TenantRequest,
    line_id: int,
    *,
    match_form: MatchForm | None = None,
    unmatch_form: UnmatchForm | None = None,
    take_back_form: TakeBackForm | None = None,
    status: int = 200,
) -> HttpResponseBase:
    with reading(request.tenant.pk):
        context = {
            "page": queries.line_page(line_id),
            "match_form": match_form or MatchForm(),
            "unmatch_form": unmatch_form or UnmatchForm(),
            "take_back_form": take_back_form or TakeBackForm(),
            "may_work": Role.OPERATOR in request.roles,
        }
        return render(request, "statements/line_page.html", context, status=status)
