"""Groups: who is in them, which policies ask for them; an admin makes, renames and ends them and moves people in and out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from access import authority
from access.actions.groups import (
    NoSuchGroup,
    add_to_group,
    end_group,
    make_group,
    remove_from_group,
    rename_group,
    what_needs,
)
from access.directory import directory
from access.doors import TenantRequest, tenant_page
from access.models import Group, GroupMember, Person
from access.refusals import Conflict, NotFound, Refused, Unprocessable, status_of
from access.roles import Role
from access.tenancy import reading
from approvals.facts import all_in_force
from approvals.models import Policy
from approvals.naming import groups_in


@require_safe
@tenant_page()
def groups(request: TenantRequest, slug: str) -> HttpResponseBase:
    """Every group with its people."""
    return _page(request)


@require_POST
@tenant_page(Role.ADMIN)
def make(request: TenantRequest, slug: str) -> HttpResponseBase:
    """A new group, empty."""
    name = request.POST.get("name", "")

    def act() -> str:
        make_group(tenant_id=request.tenant.pk, name=name, person_id=request.person.pk)
        return "Made. It is empty: put people into it."

    return _done(request, act, name)


@require_POST
@tenant_page(Role.ADMIN)
def add(request: TenantRequest, slug: str, group_id: int) -> HttpResponseBase:
    """Puts a person into a group, by their handle."""
    handle = request.POST.get("person", "").strip()

    def act() -> str:
        with reading(request.tenant.pk):
            known = {m.handle: m.person_id for m in directory().members.values()}
        if handle not in known:
            raise Unprocessable(f'There is nobody called "{handle}" here.' if handle else "Say whom.")
        added = add_to_group(
            tenant_id=request.tenant.pk,
            group_id=group_id,
            member_id=known[handle],
            person_id=request.person.pk,
        )
        return f"{handle} is in the group." if added else f"{handle} was in the group already."

    return _done(request, act)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def remove(request: TenantRequest, slug: str, group_id: int, member_id: int) -> HttpResponseBase:
    """GET says what comes of it; POST takes a person out of a group."""
    if request.method == "POST":
        removed = remove_from_group(
            tenant_id=request.tenant.pk,
            group_id=group_id,
            member_id=member_id,
            person_id=request.person.pk,
            now=request.now,
        )
        messages.success(request, "Taken out." if removed else "They were not in the group any more.")
        return redirect("groups", slug)
    with reading(request.tenant.pk):
        group = _group(group_id)
        live = GroupMember.objects.filter(group=group, person_id=member_id, ended_at__isnull=True)
        member = live.select_related("person").first()
        if member is None:
            raise NotFound("They are not in this group.")
        context = {"group": group, "member": member.person, "named_by": _named_by()[group.name]}
        return TemplateResponse(request, "approvals/group_remove.html", context).render()


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def change(request: TenantRequest, slug: str, group_id: int) -> HttpResponseBase:
    """GET asks for another name or for the end of a group; POST does what `do` says, with its reason."""
    name, reason = request.POST.get("name", ""), request.POST.get("reason", "")
    who = {"tenant_id": request.tenant.pk, "group_id": group_id, "person_id": request.person.pk}
    refused: Refused | None = None
    if request.method == "POST":
        try:
            if request.POST.get("do") == "end":
                end_group(reason=reason, now=request.now, **who)
                messages.success(request, "Ended. Nobody is in it any more.")
            else:
                rename_group(name=name, reason=reason, **who)
                messages.success(request, "Renamed. Its people are the same.")
            return redirect("groups", slug)
        except (Unprocessable, Conflict) as failed:
            refused = failed
    with reading(request.tenant.pk):
        group = _group(group_id)
        context = {
            "group": group,
            "needing": what_needs(group.name),
            "refused": str(refused) if refused else "",
            "name": name if refused else group.name,
            "reason": reason,
        }
        status = status_of(refused) if refused else 200
        return TemplateResponse(request, "approvals/group_change.html", context, status=status).render()


def _group(group_id: int) -> Group:
    group = Group.objects.filter(pk=group_id, ended_at__isnull=True).first()
    if group is None:
        raise NoSuchGroup("There is no such group here.")
    return group


def _done(request: TenantRequest, act: Callable[[], str], name: str = "") -> HttpResponseBase:
    """Back to the list with what was done, or the list with why it was not."""
    try:
        messages.success(request, act())
    except (Unprocessable, Conflict) as refused:
        with reading(request.tenant.pk):
            return _page(request, refused, name)
    return redirect("groups", request.tenant.slug)


def _page(request: TenantRequest, refused: Refused | None = None, name: str = "") -> HttpResponseBase:
    rows = GroupMember.objects.filter(ended_at__isnull=True).select_related("person")
    members: dict[int, list[Person]] = defaultdict(list)
    for row in rows.order_by("person__username"):
        members[row.group_id].append(row.person)
    managers = {p.pk for p in authority.people_with(Role.MANAGER)}
    named = _named_by()
    context = {
        "groups": [
            (group, [(p, p.pk in managers) for p in members[group.pk]], named[group.name])
            for group in Group.objects.filter(ended_at__isnull=True).order_by("name")
        ],
        "people": sorted(m.handle for m in directory().members.values()),
        "may_change": Role.ADMIN in request.roles,
        "refused": str(refused) if refused else "",
        "name": name,
    }
    status = status_of(refused) if refused else 200
    return TemplateResponse(request, "approvals/groups.html", context, status=status).render()


def _named_by() -> dict[str, list[Policy]]:
    """By group: the policies in force that name it."""
    found: dict[str, list[Policy]] = defaultdict(list)
    for policy in all_in_force():
        for group in groups_in(policy.ruleset):
            found[group].append(policy)
    return found
