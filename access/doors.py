"""The door of every page of an organisation: who comes in, in which scope the page runs, how a refusal is told.

    @tenant_page(Role.ADMIN)
    def receivers(request: TenantRequest, slug: str) -> HttpResponse: ...

GET and HEAD run inside `reading(tenant)`, rendering included. Anything else runs outside of a transaction: the action
opens its own, and a view that reads around it does so in `reading(request.tenant.pk)`. What an action refuses is
turned into content here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Concatenate, ParamSpec

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.response import SimpleTemplateResponse
from django.utils import timezone
from django.views.defaults import bad_request as plain_bad_request

from access import authority
from access.models import Person, Tenant
from access.refusals import Conflict, NotFound, NotPermitted, Refused, Unprocessable, status_of
from access.roles import Role
from access.tenancy import reading
from web import htmx
from web.addresses import came_from

P = ParamSpec("P")
SAFE = ("GET", "HEAD")
WRITTEN = ("summary", "detail", "body", "text", "words", "evidence", "note", "reason")
"""Fields of forms in which people write more than a word: every text area but those that a workflow's input makes."""
BUSY = frozenset({"55P03", "40P01"})
"""PostgreSQL's lock_not_available and deadlock_detected: somebody else holds what this needs."""


class TenantRequest(HttpRequest):
    """A request that has come through the door. For types only: the door adds these to Django's own request."""

    tenant: Tenant
    person: Person
    roles: frozenset[Role]
    now: datetime


View = Callable[Concatenate[TenantRequest, str, P], HttpResponseBase]
DoorView = Callable[Concatenate[HttpRequest, str, P], HttpResponseBase]


class Busy(Conflict):
    """A lock could not be had in time."""


def tenant_page(*roles: Role, takes_files: bool = False) -> Callable[[View[P]], DoorView[P]]:
    """A view `(request, slug, …)` for members of the organisation, holding one of `roles` if any are named.

    Sets `request.tenant`, `.person`, `.roles` and `.now`. Who is no member gets the same 404 as for an unknown
    address; a member without the roles gets 403 and is told who may. A body over the limit gets 413; with
    `takes_files` the view says itself what is wrong with a file.
    """

    def guard(view: View[P]) -> DoorView[P]:
        inner = view if takes_files else _small(view)

        @wraps(view)
        def door(request: HttpRequest, slug: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            inside = _admit(request, slug)
            with timezone.override(inside.tenant.time_zone):
                if request.method in SAFE:
                    with reading(inside.tenant.pk):
                        _identify(inside)
                        return _answer(
                            inside, lambda: _permitted(inner, roles, inside, slug, *args, **kwargs)
                        )
                with reading(inside.tenant.pk):
                    _identify(inside)
                return _answer(inside, lambda: _permitted(inner, roles, inside, slug, *args, **kwargs))

        return door  # type: ignore[return-value]  # wraps() keeps the types, not the names

    return guard


def find_tenant(slug: str) -> Tenant | None:
    """The organisation of an address, or None. Needs no scope."""
    return Tenant.objects.filter(slug=slug).first()


def too_large() -> Unprocessable:
    """What is said of a body over the limit; the status is 413."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return Unprocessable(f"It is larger than {limit:,} bytes, which is the most that is taken at once.")


def refused(request: HttpRequest, refusal: Refused, status: int = 0) -> HttpResponse:
    """A refusal as content: a page, or the fragment that htmx swaps. Inside a scope it carries the counts."""
    return htmx.render_conflict(
        request,
        htmx.Conflict(
            title=_title(refusal, status),
            not_done="Nothing was recorded and nothing was sent.",
            because=str(refusal),
            next_url=came_from(request),
            next_label="See how it is now" if isinstance(refusal, Conflict) else "Back",
            status=status or status_of(refusal),
            kept=_written(request) if status != 413 else "",
        ),
    )


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's 400, but 413 for a body over the limit, which middleware may notice before any view does."""
    if isinstance(exception, RequestDataTooBig):
        response = render(request, "413.html", {"limit": settings.DATA_UPLOAD_MAX_MEMORY_SIZE}, status=413)
        response.headers["Connection"] = "close"
        return response
    return plain_bad_request(request, exception)


def _written(request: HttpRequest) -> str:
    """What was typed into a form that was refused, in the order of its fields: it came in, and is not lost here."""
    texts = [text.strip() for name in WRITTEN for text in request.POST.getlist(name)]
    return "\n\n".join(text for text in texts if text)


def _admit(request: HttpRequest, slug: str) -> TenantRequest:
    tenant = find_tenant(slug)
    if tenant is None or not isinstance(request.user, Person):
        raise Http404
    inside: TenantRequest = request  # type: ignore[assignment]
    inside.tenant, inside.person, inside.now = tenant, request.user, timezone.now()
    return inside


def _identify(request: TenantRequest) -> None:
    request.roles = authority.roles_of(request.person.pk)
    if not request.roles:
        del request.tenant  # so that the page of the 404 is nobody's
        raise Http404


def _permitted(
    view: View[P],
    roles: tuple[Role, ...],
    request: TenantRequest,
    slug: str,
    *args: P.args,
    **kwargs: P.kwargs,
) -> HttpResponseBase:
    if roles and request.roles.isdisjoint(roles):
        raise NotPermitted(authority.who_may(*roles))
    return view(request, slug, *args, **kwargs)


def _small(view: View[P]) -> View[P]:
    def within(request: TenantRequest, slug: str, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        length = request.headers.get("Content-Length", "")
        if length.isdigit() and int(length) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig
        return view(request, slug, *args, **kwargs)

    return within


def _answer(request: TenantRequest, view: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Runs the view and renders its answer; every refusal of an action becomes content here."""
    try:
        response = view()
        if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
            with reading(request.tenant.pk):
                response.render()
        return response
    except Refused as error:
        refusal, status = error, status_of(error)
    except RequestDataTooBig:
        refusal, status = too_large(), 413
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) not in BUSY:
            raise
        refusal, status = Busy("Somebody else is at it at this moment. Look again and then repeat it."), 409
    with reading(request.tenant.pk):
        return refused(request, refusal, status)


def _title(refusal: Refused, status: int) -> str:
    if status == 413:
        return "This is too large"
    families: dict[type[Refused], str] = {
        NotPermitted: "You may not do this",
        NotFound: "There is no such thing here",
        Unprocessable: "This cannot be done as it was asked",
    }
    return next(
        (title for family, title in families.items() if isinstance(refusal, family)),
        "Somebody or something was first",
    )
