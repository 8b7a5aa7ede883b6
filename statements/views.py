"""The pages of statements: what receivers have sent, how it is read, and what a person decides about it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponseBase, QueryDict, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from access.doors import TenantRequest, tenant_page
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import reading
from dispatch.models import Receiver
from statements import attaching, drafting, exporting, keeping, queries
from statements.actions.mapping import read_statement
from statements.actions.settling import apply_statement, discard_statement, settle_repeats
from statements.actions.uploading import too_large, upload_statement
from statements.forms import UploadForm
from statements.matching import queries as matching
from statements.models import Format, StatementState, Verdict
from web.htmx import STOP_POLLING, render_fragment, wants_fragment
from web.uploads import takes_files_up_to

READERS = (Role.OPERATOR, Role.ADMIN, Role.AUDITOR)
PAGE = "statements/statement.html"
_ROW = re.compile("row-[0-9]{1,9}")


@require_safe
@tenant_page(*READERS)
def statements(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Statements, newest first: `?receiver=` and `?state=` leave some, `?before=` shows older ones."""
    state = request.GET.get("state", "")
    context = {
        "page": queries.statements(
            receiver_id=_number(request.GET, "receiver"), state=state, before=_number(request.GET, "before")
        ),
        "receivers": Receiver.objects.order_by("title", "pk"),
        "receiver": _number(request.GET, "receiver"),
        "states": [(s.value, queries.WORDS[s][0]) for s in StatementState],
        "state": state,
        "newest": not request.GET.get("before"),
        "may_work": Role.OPERATOR in request.roles,
    }
    return render(request, "statements/statements.html", context)


@takes_files_up_to("COUNTERFOIL_LARGEST_STATEMENT")
@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.OPERATOR, takes_files=True)
def upload(request: TenantRequest, slug: str) -> HttpResponseBase:
    """A receiver's file: kept as it is, and asked about next."""
    with reading(request.tenant.pk):
        receivers = list(Receiver.objects.order_by("title", "pk"))
    if request.method != "POST":
        initial = {"receiver": request.GET.get("receiver", "")}
        return _upload_page(request, UploadForm(receivers=receivers, initial=initial))
    form = UploadForm(request.POST, request.FILES, receivers=receivers)
    if not form.is_valid():
        return _upload_page(request, form, 422)
    file: UploadedFile[Any] = form.cleaned_data["file"]
    try:
        if file.file is None:  # over the limit: its bytes were thrown away
            raise too_large()
        made = upload_statement(
            tenant_id=request.tenant.pk,
            receiver_id=form.receiver_id,
            account=form.account_id,
            name=file.name or "",
            content=file.chunks,
            person_id=request.person.pk,
            now=request.now,
        )
    except (Unprocessable, Conflict) as refused:
        form.add_error("file", str(refused))
        return _upload_page(request, form, 409 if isinstance(refused, Conflict) else 422)
    if made.format != Format.CSV:
        return _begin(request, made.statement_id)
    return redirect("statement-map", slug, made.statement_id)


@require_safe
@tenant_page(*READERS)
def statement(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """One statement: how far it is read, what is wrong, what is asked, its lines. Its live part asks again while it is read."""
    show = request.GET.get("show", "")
    after = _number(request.GET, "after")
    page = queries.statement_page(statement_id, show=show, after=after)
    matched = matching.of_statement(page.statement)
    if show == "unclaimed" and matched is not None:
        lines, on = matching.unclaimed_lines(statement_id, after=after)
        page = replace(page, lines=lines, after=on)
    context = {"page": page, "s": page.statement, "show": show, "further": after, "matching": matched}
    context["may_work"] = Role.OPERATOR in request.roles
    context["live"] = page.live or (matched is not None and matched.walking)
    status = STOP_POLLING if not context["live"] and wants_fragment(request) else 200
    return render_fragment(request, f"{PAGE}#live", context, status)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.OPERATOR)
def mapping(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """How the columns are read, with the first rows as they would be; `do=read` has workers read all of it so."""
    posted = request.POST if request.method == "POST" else None
    with reading(request.tenant.pk):
        draft = drafting.draft(statement_id, posted, request.tenant.time_zone)
        if draft.statement.format != Format.CSV:
            return redirect("statement", slug, statement_id)
        asked = posted is not None and posted.get("do") == "read"
        if not (asked and draft.terms is not None and not draft.missing):
            status = 422 if posted is not None and (draft.terms is None or (asked and draft.missing)) else 200
            return render(request, "statements/map.html", {"d": draft, "s": draft.statement}, status=status)
    read_statement(
        tenant_id=request.tenant.pk,
        statement_id=statement_id,
        terms=draft.terms,
        person_id=request.person.pk,
        now=request.now,
    )
    messages.success(
        request, "The workers read it now, as you have mapped it. Nothing counts until it is applied."
    )
    return redirect("statement", slug, statement_id)


@require_POST
@tenant_page(Role.OPERATOR)
def read_again(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """Has a file read whose format needs no mapping."""
    return _begin(request, statement_id)


@require_POST
@tenant_page(Role.OPERATOR)
def apply(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """Has the lines count."""
    lines = apply_statement(
        tenant_id=request.tenant.pk,
        statement_id=statement_id,
        reading_no=_number(request.POST, "reading"),
        person_id=request.person.pk,
        now=request.now,
    )
    messages.success(request, f"Applied: {lines:,} line{'s count' if lines != 1 else ' counts'} from now on.")
    return redirect("statement", slug, statement_id)


@require_POST
@tenant_page(Role.OPERATOR)
def discard(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """Puts it away."""
    discard_statement(
        tenant_id=request.tenant.pk, statement_id=statement_id, person_id=request.person.pk, now=request.now
    )
    messages.success(request, "Discarded. Its file stays here; the same file can be uploaded again.")
    return redirect("statement", slug, statement_id)


@require_POST
@tenant_page(Role.OPERATOR)
def settle(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """Takes answers: `row-…` with `same` or `another`; `all` for every row that has none yet."""
    rows = {
        int(name.removeprefix("row-")): Verdict(said)
        for name, said in request.POST.items()
        if _ROW.fullmatch(name) and said in (Verdict.SAME, Verdict.ANOTHER)
    }
    every = request.POST.get("all", "")
    if every in (Verdict.SAME, Verdict.ANOTHER):
        with reading(request.tenant.pk):
            rows = dict.fromkeys(queries.rows_in_question(statement_id), Verdict(every))
    if not rows:
        raise Unprocessable("Choose an answer for at least one row.")
    count = settle_repeats(
        tenant_id=request.tenant.pk,
        statement_id=statement_id,
        reading_no=_number(request.POST, "reading"),
        rows=rows,
        person_id=request.person.pk,
        now=request.now,
    )
    messages.success(
        request,
        f"{count:,} answer{'s are' if count != 1 else ' is'} kept. They can be changed until it is applied.",
    )
    return redirect("statement", slug, statement_id)


@require_safe
@tenant_page(*READERS)
def errors_file(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """Everything that is wrong with its rows, as CSV."""
    found = queries.statement(statement_id)
    return attaching.csv(exporting.errors(found), f"{found.label}-errors.csv")


@require_safe
@tenant_page(*READERS)
def lines_file(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """Its lines, as CSV."""
    found = queries.statement(statement_id)
    return attaching.csv(exporting.lines(found), f"{found.label}-lines.csv")


@require_safe
@tenant_page(*READERS)
def file(request: TenantRequest, slug: str, statement_id: int) -> HttpResponseBase:
    """The file as it came, to be saved and never shown."""
    found = queries.statement(statement_id)
    response = StreamingHttpResponse(keeping.content_of(found), content_type="application/octet-stream")
    return attaching.attached(response, found.name)


def _begin(request: TenantRequest, statement_id: int) -> HttpResponseBase:
    read_statement(
        tenant_id=request.tenant.pk,
        statement_id=statement_id,
        terms=None,
        person_id=request.person.pk,
        now=request.now,
    )
    messages.success(request, "The workers read it now. Nothing counts until it is applied.")
    return redirect("statement", request.tenant.slug, statement_id)


def _upload_page(request: TenantRequest, form: UploadForm, status: int = 200) -> TemplateResponse:
    return TemplateResponse(request, "statements/upload.html", {"form": form}, status=status)


def _number(given: QueryDict, name: str) -> int:
    text = given.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
