"""Reading policies: the list, one revision in words, two beside each other. Everybody reads; admins write."""

from __future__ import annotations

from django.http import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from approvals.comparing import compare
from approvals.facts import all_in_force, newest
from approvals.governing import queries
from approvals.models import Policy, Proposal
from approvals.names_gone import warnings
from approvals.policy_text import write as text_of
from approvals.telling import in_a_line, told


@require_safe
@tenant_page()
def policies(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Every policy in its newest revision."""
    listed = queries.newest_policies(request.GET.get("after", "")[:100].replace("\0", ""))
    context = {
        "policies": listed,
        "may_write": Role.ADMIN in request.roles,
        "unwritten": _unwritten(),
    }
    return render(request, "approvals/policies.html", context)


@require_safe
@tenant_page()
def policy(request: TenantRequest, slug: str, policy_id: int) -> HttpResponseBase:
    """One revision in words, what it names that is gone, and the revisions before and after it."""
    shown = queries.policy_of(policy_id)
    found = queries.revisions(shown.name, _number(request.GET.get("before", "")))
    context = {
        "policy": shown,
        "rules": told(shown.ruleset),
        "text": text_of(shown.ruleset),
        "newest": newest(shown.name),
        "warnings": warnings(shown.ruleset),
        "workflows": queries.workflows_under(shown.name),
        "open": Proposal.objects.filter(policy__name=shown.name, closed_at__isnull=True).count(),
        "revisions": _with_changes(found)[: queries.PAGE],
        "older": found[queries.PAGE - 1].revision if len(found) > queries.PAGE else 0,
        "may_write": Role.ADMIN in request.roles,
    }
    return render(request, "approvals/policy.html", context)


@require_safe
@tenant_page()
def compared(request: TenantRequest, slug: str, policy_id: int) -> HttpResponseBase:
    """A revision beside another of the same policy: `?with=<revision>`, without it the one before."""
    after = queries.policy_of(policy_id)
    wanted = _number(request.GET.get("with", "")) or max(after.revision - 1, 1)
    before = Policy.objects.filter(name=after.name, revision=wanted).first()
    if before is None:
        raise queries.NoSuchPolicy(f"There is no revision {wanted} of this policy.")
    context = {
        "before": before,
        "after": after,
        "differences": compare(before.ruleset, after.ruleset),
        "was": f"Revision {before.revision}",
        "now_is": f"Revision {after.revision}",
        "revisions": queries.revisions(after.name)[: queries.PAGE],
    }
    return render(request, "approvals/policy_compare.html", context)


def _with_changes(found: list[Policy]) -> list[tuple[Policy, str, int]]:
    """Each revision with its heart, and in how many rules it differs from the one before; -1 for the first."""
    rows = []
    for newer, older in zip(found, [*found[1:], None], strict=True):
        changed = len(compare(older.ruleset, newer.ruleset)) if older else -1
        rows.append((newer, in_a_line(newer.ruleset), changed))
    return rows


def _unwritten() -> list[str]:
    """Policies that workflows name and that are not in force: nothing of theirs can be approved."""
    named = {w.approval_policy for w in queries.installed() if w.approval_policy}
    return sorted(named - {p.name for p in all_in_force()})


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
