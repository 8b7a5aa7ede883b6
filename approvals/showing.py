"""What the room's pages are made of, and the journal's note that somebody who may decide has opened one."""

from __future__ import annotations

from typing import Any

from django.db import OperationalError

from access import doors, reentry
from access.doors import TenantRequest
from access.roles import Role
from approvals import desk, inbox
from approvals.actions.view import record_view
from approvals.asking import links_of
from approvals.inbox import Place
from approvals.proof.exporting import MAY_EXPORT
from approvals.sets import pages_of
from approvals.slips import Slip, slip
from workflows import rerunning
from workflows.states import JobState


def slip_context(request: TenantRequest, proposal_id: int) -> dict[str, Any]:
    shown = slip_of(request, proposal_id)
    place = place_of(request)
    view = desk.reading_of(
        shown,
        handle=request.person.username,
        now=request.now,
        may_propose_again=_may_propose_again(request, shown),
        may_export=bool(request.roles & set(MAY_EXPORT)),
        start=request.GET.get("from", ""),
    )
    return {
        "slip": shown,
        "view": view,
        "asks_password": shown.password_why and not entered(request),
        "links": links_of(shown, place),
        "pages": pages_of(view.part, lambda at: place.of("approval", proposal_id, **{"from": at}))
        if view.part
        else [],
    }


def _may_propose_again(request: TenantRequest, shown: Slip) -> bool:
    own = Role.SUBMITTER in request.roles and shown.initiator == request.person.username
    waits = shown.job_state == JobState.VALIDATED and rerunning.has_draft(shown.job_id)
    return (own or Role.OPERATOR in request.roles) and waits


def slip_of(request: TenantRequest, proposal_id: int) -> Slip:
    """The slip for whoever asks. Raises NoSuchProposal, CannotBeShown."""
    return slip(proposal_id, person_id=request.person.pk, now=request.now)


def session_of(request: TenantRequest) -> str:
    """The session that a password would have been entered in, as rows name it."""
    return reentry.session_digest(request.session.session_key)


def enter_again(request: TenantRequest) -> None:
    """Check the password that came with a form, if one did. Signing in counts as no entry: only this does."""
    password = request.POST.get("password", "")
    if password:
        reentry.enter(
            person_id=request.person.pk, password=password, session=session_of(request), now=request.now
        )


def entered(request: TenantRequest) -> bool:
    """Whether a password entry of this session still counts."""
    return reentry.entered_at(request.person.pk, session_of(request), request.now) is not None


def note_view(request: TenantRequest, proposal_id: int) -> bool:
    """Journals that a manager opened it; False where a lock could not be had, and then it is not shown."""
    if Role.MANAGER not in request.roles:
        return True
    try:
        record_view(tenant_id=request.tenant.pk, proposal_id=proposal_id, person_id=request.person.pk)
    except OperationalError as failed:
        if getattr(failed.__cause__, "sqlstate", None) not in doors.BUSY:
            raise
        return False
    return True


def inbox_of(request: TenantRequest, open_id: int = 0) -> inbox.Inbox:
    return inbox.inbox(
        place_of(request),
        person_id=request.person.pk,
        now=request.now,
        open_id=open_id,
        may_choose=Role.MANAGER in request.roles,
    )


def place_of(request: TenantRequest) -> Place:
    return inbox.place_of(request.tenant.slug, request.GET.get("tab", ""), request.GET.get("after", ""))


def number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
