"""The list of jobs."""

from __future__ import annotations

from django.http import HttpResponseBase
from django.views.decorators.http import require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from console.queries import jobs as queries
from console.queries.jobs import HELD, Filter
from web.htmx import render_fragment
from web.vocabulary import sign_of
from workflows import registry
from workflows.states import ENDED, JobState

LARGEST_ID = 2**63 - 1


@require_safe
@tenant_page()
def jobs(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Jobs, newest first, by keyset. What cannot be read in the query narrows nothing."""
    chosen = _chosen(request)
    page = queries.page(chosen, request.now, before=_id(request, "before"), after=_id(request, "after"))
    context = {
        "counts": queries.counts(request.now),
        "page": page,
        "chosen": chosen,
        "states": [(s.value, sign_of(s.value).words) for s in JobState] + [(HELD, "Held")],
        "workflows": sorted({(w.name, w.title or w.name) for w in registry.workflows().values()}),
        "may_submit": Role.SUBMITTER in request.roles,
        "in_bulk": _in_bulk(chosen, request.roles),
    }
    return render_fragment(request, "console/jobs.html#list", context)


def _in_bulk(chosen: Filter, roles: frozenset[Role]) -> list[tuple[str, str]]:
    """What can be done in bulk to what the list is narrowed to: the verb, and its word. By words nothing is chosen there."""
    if chosen.q or chosen.state == HELD:
        return []
    open_or_any = chosen.state not in ENDED and chosen.any
    offers = (
        ("cancel", "Cancel", Role.ADMIN, open_or_any),
        ("redrive", "Redrive", Role.OPERATOR, chosen.state == JobState.FAILED),
        ("compensate", "Compensate", Role.OPERATOR, chosen.state in ENDED),
    )
    return [(verb, word) for verb, word, role, fits in offers if role in roles and fits]


def _chosen(request: TenantRequest) -> Filter:
    state = request.GET.get("state", "")
    return Filter(
        state=state if state == HELD or state in list(JobState) else "",
        workflow=request.GET.get("workflow", "")[:100].replace("\0", ""),
        q=request.GET.get("q", "").strip()[:200].replace("\0", ""),
    )


def _id(request: TenantRequest, name: str) -> int:
    text = request.GET.get(name, "")
    return (
        int(text) if text.isascii() and text.isdigit() and len(text) < 19 and int(text) <= LARGEST_ID else 0
    )
