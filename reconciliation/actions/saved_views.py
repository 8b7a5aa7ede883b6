"""Naming filters of the queue. A view is a person's own; shared, everybody sees it, and only its person changes it."""

from __future__ import annotations

from datetime import datetime

from access import authority
from access.refusals import NotFound, NotPermitted, Unprocessable
from access.roles import Role
from access.tenancy import acting
from reconciliation.models import SavedView
from reconciliation.narrowing import Narrowing
from workflows.locks import lock_name

MOST, LONGEST = 30, 60


class NoSuchView(NotFound):
    """There is no such view in this tenant, or it is somebody else's own."""


class BadView(Unprocessable):
    """The view has no name, one that is taken, or nothing to keep; the message says which."""


def save_view(
    *, tenant_id: int, person_id: int, name: str, chosen: Narrowing, shared: bool, now: datetime
) -> int:
    """Keep a filter under a name; its number. Any member, 30 each. Raises NotPermitted, BadView."""
    if not chosen.asked():
        raise BadView("This view narrows nothing: choose something first.")
    with acting(tenant_id):
        authority.require(person_id, *Role)
        lock_name("views", tenant_id, str(person_id))
        mine = SavedView.objects.filter(person=person_id)
        if mine.count() >= MOST:
            raise BadView(f"You have {MOST} views. Delete one first.")
        name = _free_name(name, person_id)
        view = SavedView.objects.create(
            tenant_id=tenant_id,
            person_id=person_id,
            name=name,
            asked=chosen.asked(),
            made_at=now,
            shared_at=now if shared else None,
        )
        return view.pk


def change_view(
    *, tenant_id: int, person_id: int, view_id: int, name: str, shared: bool, now: datetime
) -> None:
    """Rename an own view, share it or keep it to oneself. A repeat changes nothing. Raises NoSuchView, BadView."""
    with acting(tenant_id):
        authority.require(person_id, *Role)
        lock_name("views", tenant_id, str(person_id))
        view = SavedView.objects.filter(pk=view_id, person=person_id).first()
        if view is None:
            raise NoSuchView(f"You have no view {view_id} here.")
        view.name = _free_name(name, person_id, but=view.pk)
        view.shared_at = (view.shared_at or now) if shared else None
        view.save(update_fields=["name", "shared_at"])


def delete_view(*, tenant_id: int, person_id: int, view_id: int) -> str:
    """Forget a view; its name. One's own; an admin also what others share, since people leave. Raises NoSuchView, NotPermitted."""
    with acting(tenant_id):
        authority.require(person_id, *Role)
        view = SavedView.objects.filter(pk=view_id).first()
        if view is None or (view.person_id != person_id and view.shared_at is None):
            raise NoSuchView(f"You have no view {view_id} here.")
        if view.person_id != person_id:
            _require_admin(person_id)
        view.delete()
        return view.name


def _require_admin(person_id: int) -> None:
    try:
        authority.require(person_id, Role.ADMIN)
    except NotPermitted as refused:
        raise NotPermitted("Only who made a shared view, or an admin, deletes it.") from refused


def _free_name(name: str, person_id: int, *, but: int = 0) -> str:
    name = " ".join(name.replace("\x00", "").split())[:LONGEST]
    if not name:
        raise BadView("Give the view a name.")
    if SavedView.objects.filter(person=person_id, name=name).exclude(pk=but).exists():
        raise BadView(f"You have a view called “{name}” already.")
    return name
