"""Writing a policy: a form or a text, then what it would change and what it would do, then one deliberate step.

The revision that was in force when the page was opened comes along: of two admins at once one is told of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods

from access import authority
from access.directory import directory
from access.doors import TenantRequest, tenant_page
from access.models import Group
from access.roles import Role
from access.tenancy import reading
from approvals.comparing import compare
from approvals.facts import newest as newest_of
from approvals.foreseeing import foresee
from approvals.governing import queries
from approvals.governing.forms import RulesForm, with_another_row
from approvals.models import Policy
from approvals.names_gone import warnings
from approvals.policies import BadPolicy, PolicyWrittenMeanwhile, check_rules, write_policy
from approvals.policy_text import LONGEST, read
from approvals.policy_text import write as text_of
from approvals.ruleset import RuleSet
from approvals.telling import told


@dataclass
class Draft:
    """What one admin is writing: on which revision, in which way, and what is wrong with it so far."""

    base: Policy | None
    name: str
    expected: int
    way: str = "form"
    form: RulesForm | None = None
    text: str = ""
    faults: list[str] = field(default_factory=list)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def write(request: TenantRequest, slug: str, policy_id: int = 0) -> HttpResponseBase:
    """GET shows a revision (or a first one) to be changed; POST goes on from one step to the next (`do`)."""
    with reading(request.tenant.pk):
        draft = _draft(request, policy_id)
        if request.method != "POST":
            return _edit(request, draft)
        asked = request.POST.get("do", "preview")
        if asked.startswith("add:"):
            draft.form = RulesForm(with_another_row(request.POST, asked.removeprefix("add:")))
            return _edit(request, draft)
        rules = _read(request, draft)
        if rules is None:
            return _edit(request, draft, 422)
        if asked in ("form", "text"):
            draft.way, draft.form, draft.text = asked, RulesForm(rules=rules), text_of(rules)
            return _edit(request, draft)
        if asked != "write" or not draft.name:
            return _preview(request, draft, rules)
    return _write(request, draft, rules)


def _draft(request: TenantRequest, policy_id: int) -> Draft:
    base = queries.policy_of(policy_id) if policy_id else None
    name = base.name if base else request.POST.get("name", request.GET.get("name", ""))[:200].strip()
    newest = newest_of(name.replace("\0", "")) if name else None
    way = request.POST.get("way") or request.GET.get("way") or "form"
    draft = Draft(base, name, newest.revision if newest and base else 0, "text" if way == "text" else "form")
    if request.method == "POST":
        given = request.POST.get("expected", "") if base else ""
        draft.expected = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
        draft.text = request.POST.get("text", "").replace("\r\n", "\n")[: LONGEST + 1]
        return draft
    rules = base.ruleset if base else RuleSet()
    draft.form, draft.text = RulesForm(rules=rules), text_of(rules)
    return draft


def _read(request: TenantRequest, draft: Draft) -> RuleSet | None:
    """What was given, in either way; None where something is wrong, which then stands in the draft."""
    if draft.way == "text":
        found = read(draft.text)
        if not isinstance(found, RuleSet):
            draft.faults = [fault.words for fault in found]
            return None
        rules: RuleSet | None = found
    else:
        draft.form = RulesForm(request.POST)
        rules = draft.form.read()
        draft.faults = draft.form.errors or ([] if rules else ["Something below is not right yet."])
    if rules is None:
        return None
    try:
        check_rules(draft.name, rules)
    except BadPolicy as wrong:
        draft.faults = [str(wrong)]
        return None
    if draft.base is None and (there := newest_of(draft.name)) is not None:
        was = "was a policy" if there.end_reason else "is a policy"
        draft.faults = [f'There {was} "{there.name}" already. Write a revision of it from its page.']
        return None
    return rules


def _edit(request: TenantRequest, draft: Draft, status: int = 200) -> HttpResponseBase:
    context = {
        "draft": draft,
        "form": draft.form or RulesForm(),
        "people": sorted(m.handle for m in directory().members.values()),
        "groups": Group.objects.filter(ended_at__isnull=True).order_by("name").values_list("name", flat=True),
        "workflows": [w.name for w in queries.installed()],
    }
    return TemplateResponse(request, "approvals/policy_write.html", context, status=status).render()


def _preview(request: TenantRequest, draft: Draft, rules: RuleSet) -> HttpResponseBase:
    newest = newest_of(draft.name)
    if newest is not None and newest.revision != draft.expected:
        return _overtaken(request, draft, rules, newest)
    context = {
        "draft": draft,
        "text": text_of(rules),
        "rules": told(rules),
        "before": newest,
        "differences": compare(newest.ruleset, rules) if newest else [],
        "same": newest is not None and not newest.end_reason and newest.ruleset == rules,
        "next": draft.expected + 1,
        "outlook": foresee(draft.name, rules),
        "warnings": warnings(rules),
    }
    return TemplateResponse(request, "approvals/policy_preview.html", context).render()


def _overtaken(request: TenantRequest, draft: Draft, rules: RuleSet, newest: Policy) -> HttpResponseBase:
    """Somebody else was first: theirs beside what was in force, this one beside theirs, and nothing lost."""
    looked_at = Policy.objects.filter(name=draft.name, revision=draft.expected).first()
    context = {
        "draft": draft,
        "text": text_of(rules),
        "newest": newest,
        "theirs": compare(looked_at.ruleset, newest.ruleset) if looked_at else [],
        "mine": compare(newest.ruleset, rules),
    }
    return TemplateResponse(request, "approvals/policy_overtaken.html", context, status=409).render()


def _write(request: TenantRequest, draft: Draft, rules: RuleSet) -> HttpResponseBase:
    with reading(request.tenant.pk):
        actor = authority.require(request.person.pk, Role.ADMIN)
    try:
        made = write_policy(
            tenant_id=request.tenant.pk,
            name=draft.name,
            rules=rules,
            created_by=actor,
            now=request.now,
            expected=draft.expected,
        )
    except PolicyWrittenMeanwhile:
        with reading(request.tenant.pk):
            newest = newest_of(draft.name)
            assert newest is not None
            return _overtaken(request, draft, rules, newest)
    messages.success(
        request, f"Revision {made.revision} is written and in force. Open proposals keep theirs too."
    )
    return redirect("policy", request.tenant.slug, made.pk)
