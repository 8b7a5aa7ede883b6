"""One job: the page, its journal and its items."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from console.links import link
from console.queries import item as items
from console.queries import job as queries
from console.queries import journal, operations, steps
from console.queries import stage as stages
from console.queries.cases import open_case_of_item, open_cases_of
from console.queries.standing import sign_of_job
from console.queries.stopping import still_running
from console.queries.undoing import undoing_of
from console.queries.waits import waits_of
from dispatch.reversals import reversal_by
from reconciliation.restored import nothing_was_sent
from web.downloads import download
from web.htmx import STOP_POLLING, render_fragment, wants_fragment
from workflows import inputs
from workflows.files import file_of, files_of
from workflows.journal import refusal_of_input
from workflows.models import Job
from workflows.states import ENDED, JobState
from workflows.titles import workflow_title


@require_safe
@tenant_page()
def job(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """The page of a job. Its live part polls itself and stops with 286 once the job has ended, nothing
    of it runs on in vain and what it made is undone."""
    found = queries.job_of(job_id)
    context = job_context(request, found)
    status = STOP_POLLING if not context["moving"] and wants_fragment(request) else 200
    return render_fragment(request, "console/job.html#live", context, status)


def job_context(request: TenantRequest, found: Job) -> dict[str, Any]:
    """What the job's page says. The queries are those of the parts, however many items there are."""
    slug = request.tenant.slug
    proposals = queries.proposals_of(found)
    work = steps.work_of(found)
    undoing, stopping = undoing_of(found), still_running(found)
    cases, more_cases = open_cases_of(found)
    why = queries.why_waiting(found)
    latest = journal.latest(found)
    again = queries.runs_again(found, request.roles, request.person.pk)
    return {
        "job": found,
        "ended": found.state in ENDED,
        "moving": found.state not in ENDED or stopping > 0 or (undoing is not None and undoing.moving),
        "stopping": stopping,
        "undoing": undoing,
        "refused": refusal_of_input(found),
        "sign": sign_of_job(found),
        "workflow": workflow_title(found.workflow),
        "rail": queries.rail(found),
        "off_path": queries.off_path(found),
        "why": "" if any(c.label in why for c in cases) else why,
        "work": work,
        "waits": waits_of(found, request.roles),
        "operations": operations.operations_of(found),
        "files": files_of(found),
        "proposals": [(p, link("approval", slug, p.pk)) for p in proposals],
        "cases": [(c, link("case", slug, c.pk)) for c in cases],
        "more_cases": more_cases,
        "nothing_was_sent": partial(nothing_was_sent, found),
        "fates": [] if found.state in ENDED else queries.fates(found),
        "became": queries.became(found),
        "takes_back": reversal_by(found),
        "may_compensate": Role.OPERATOR in request.roles,
        "permissions": queries.permissions(found, request.roles, request.person.pk, again=again),
        "may_hold": queries.may_hold(request.roles) and found.state not in ENDED,
        "may_cancel": queries.may_cancel(found, request.roles, request.person.pk),
        "redriving": queries.redriving(found, request.roles),
        "may_migrate": queries.may_migrate(found, request.roles),
        "runs_again": again,
        "aside": queries.set_aside(found),
        "inputs": inputs.versions_of(found.pk),
        "cancel_is_final": found.state not in (JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION),
        "journal": latest,
        "entries": latest[0].entry.sequence,
    }


@require_safe
@tenant_page()
def job_operations(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """Every operation of a job, fifty at a time, all or those in one state."""
    found = queries.job_of(job_id)
    state, after = request.GET.get("state", ""), _number(request.GET.get("after", ""))
    page = operations.page_of(found, state, after=after)
    return render(
        request,
        "console/operations.html",
        {
            "job": found,
            "operations": page,
            "state": state,
            "further": bool(after),
            "may_compensate": Role.OPERATOR in request.roles,
        },
    )


@require_safe
@tenant_page()
def item(request: TenantRequest, slug: str, job_id: int, item_id: int) -> HttpResponseBase:
    """One work item: what it was given, what it gave, and every attempt."""
    found = queries.job_of(job_id)
    shown = items.item_of(found, item_id)
    case = open_case_of_item(item_id)
    return render(
        request,
        "console/item.html",
        {"job": found, "shown": shown, "case": case, "case_url": link("case", slug, case.pk) if case else ""},
    )


@require_safe
@tenant_page()
def item_input(request: TenantRequest, slug: str, job_id: int, item_id: int, version: int) -> HttpResponse:
    """What a version of an item's input holds, to the byte."""
    text = items.input_text(queries.job_of(job_id), item_id, version)
    return _to_be_saved(text, f"item-{item_id}-input-{version}")


@require_safe
@tenant_page()
def item_output(request: TenantRequest, slug: str, job_id: int, item_id: int, version: int) -> HttpResponse:
    """What an item gave, to the byte: its SHA-256 is the output digest."""
    text = items.output_text(queries.job_of(job_id), item_id, version)
    return _to_be_saved(text, f"item-{item_id}-output-{version}")


@require_safe
@tenant_page()
def stage(request: TenantRequest, slug: str, job_id: int, stage_id: int) -> HttpResponseBase:
    """The items of one step, fifty at a time in input order, all or those that something became of."""
    found = queries.job_of(job_id)
    show = request.GET.get("show", "")
    after = _number(request.GET.get("after", ""), digits=9)
    page = stages.page_of(found, stages.stage_of(found, stage_id), show, after=after)
    return render(
        request,
        "console/stage.html",
        {
            "job": found,
            "page": page,
            "show": show,
            "further": bool(after),
            "may_bulk": not request.roles.isdisjoint({Role.OPERATOR, Role.ADMIN}),
        },
    )


def _number(text: str, *, digits: int = 18) -> int:
    """What a page's address says to begin at; the beginning for what is no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else 0


def _to_be_saved(text: str, name: str) -> HttpResponse:
    response = HttpResponse(text, content_type="application/json; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.json"'
    return response


@require_safe
@tenant_page()
def journal_page(request: TenantRequest, slug: str, job_id: int) -> HttpResponseBase:
    """Every entry, newest first, a hundred at a time."""
    found = queries.job_of(job_id)
    before = _number(request.GET.get("before", ""))
    lines, older = journal.page(found, before)
    return render(
        request,
        "console/journal.html",
        {"job": found, "lines": lines, "older": older, "newest": not before},
    )


@require_safe
@tenant_page()
def journal_export(request: TenantRequest, slug: str, job_id: int) -> HttpResponse:
    """The whole journal as JSON, with what its hashes are made of."""
    found = queries.job_of(job_id)
    body = {
        "job": found.label,
        "workflow": found.workflow,
        "revision": found.revision,
        "version": found.version,
        "head": bytes(found.head).hex(),
        "entries": list(journal.export(found)),
    }
    response = JsonResponse(body, json_dumps_params={"ensure_ascii": False, "indent": 1})
    response.headers["Content-Disposition"] = f'attachment; filename="{found.label}-journal.json"'
    return response


@require_safe
@tenant_page()
def job_file(request: TenantRequest, slug: str, job_id: int, digest: str) -> HttpResponse:
    """A file that the job names, to be saved and never shown: what it holds came from anybody."""
    file = file_of(queries.job_of(job_id), digest)
    return download(name=file.name, media_type=file.media_type, content=file.content)


@require_safe
@tenant_page()
def job_input(request: TenantRequest, slug: str, job_id: int) -> HttpResponse:
    """The input exactly as it was accepted, whose SHA-256 is the input digest; or a later version of it."""
    found = queries.job_of(job_id)
    version = _number(request.GET.get("version", ""), digits=4)
    later = next((v for v in inputs.versions_of(found.pk) if v.version == version), None)
    if later is not None:
        return _to_be_saved(later.value, f"{found.label}-input-{version}")
    return _to_be_saved(found.input, f"{found.label}-input")
