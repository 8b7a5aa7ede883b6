"""Every refusal of the API as RFC 9457 problem+json, made here and nowhere else."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.defaults import page_not_found
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from access import doors, outages
from access.doors import BUSY
from access.outages import is_outage
from access.refusals import Refused, Unprocessable, status_of
from api import kinds
from workflows.actions.keep_file import FileTooLarge
from workflows.actions.receive_event import InvalidEvent, TooManyUnused
from workflows.actions.submit import ReferenceTaken
from workflows.authoring import Problem
from workflows.expectations import Misfit
from workflows.registry import NoSuchWorkflow, RevisionMissing
from workflows.submissions import InvalidSubmission, NotJson

TITLES = {
    400: "The request cannot be read",
    401: "Not signed in, or not signed",
    403: "Not permitted",
    404: "Not found",
    405: "Not asked for in this way",
    409: "Somebody or something was first",
    413: "The body is too large",
    422: "The submission has wrong fields",
    429: "As many as may be kept are kept",
    503: "Not available at this moment",
}
NOWHERE = "There is nothing at this address."
UNKNOWN_HOST = "Nothing is served here under the host name of this request."
UNREADABLE = (
    "This is no form that can be read here: it is cut off or malformed, or has too many fields or files."
)
AWAY = "The database cannot be reached. Send it again with the same key."


class NotSigned(Exception):
    """An event whose signature does not hold, or whose source or organisation is unknown: which of them is not told."""


class WrongBody(Unprocessable):
    """The body has members that are missing, not known, or of another kind. Nothing was done."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("Nothing was done: see errors.")
        self.problems = problems


class TooLarge(Exception):
    """The body is larger than this address takes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"A body may hold {limit} bytes here.")


class BadRequest(Exception):
    """Something is missing that is not in the body, such as a header; the message says what to send."""


def problem(
    status: int,
    detail: str,
    *,
    errors: Sequence[Problem] = (),
    kind: kinds.Kind | None = None,
    **more: object,
) -> HttpResponse:
    """One problem document. Without a `kind`, the status says it (about:blank), and the detail what to do."""
    body: dict[str, object] = {
        "type": kinds.address(kind) if kind else "about:blank",
        "title": kind.title if kind else TITLES.get(status, "Refused"),
        "status": status,
        "detail": detail,
        **more,
    }
    if errors:
        body["errors"] = [{"field": e.field, "detail": e.message} for e in errors]
    return HttpResponse(
        json.dumps(body, ensure_ascii=False), status=status, content_type="application/problem+json"
    )


def install(api: NinjaAPI) -> None:
    """Register the one mapping from exceptions to problems."""

    def told(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
        assert isinstance(error, Exception)
        return _problem_of(request, error)

    for kind in (
        BadRequest,
        NotSigned,
        TooLarge,
        RevisionMissing,
        NotJson,
        RequestDataTooBig,
        NoSuchWorkflow,
        Refused,
        Http404,
        AuthenticationError,
        ValidationError,
        HttpError,
        OperationalError,
        InternalError,
        InterfaceError,
    ):
        api.add_exception_handler(kind, told)


def not_allowed(methods: str) -> HttpResponse:
    """405 for an address of the API that is asked for in another way than it knows. `methods`: those it knows."""
    response = problem(405, f"This address takes {methods} only.")
    response.headers["Allow"] = methods
    return response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400: what it refuses before a view of the API could is a problem like every other."""
    if not _is_ours(request):
        return doors.bad_request(request, exception)
    if isinstance(exception, DisallowedHost):
        return problem(400, UNKNOWN_HOST)
    return _too_large() if isinstance(exception, RequestDataTooBig) else problem(400, UNREADABLE)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404: an address below the API's that no view has is a problem like every other."""
    if _is_ours(request):
        return problem(404, NOWHERE)
    return page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: what failed before a view of the API had the request is a problem like every other."""
    if _is_ours(request) and is_outage(sys.exc_info()[1]):
        return problem(503, AWAY)
    return outages.server_error(request)


def _problem_of(request: HttpRequest, error: Exception) -> HttpResponse:
    match error:
        case Misfit():
            told = "This is not what is waited for under this key: see errors. The wait goes on."
            return problem(422, told, errors=[Problem(_inside(e.field), e.message) for e in error.problems])
        case InvalidEvent():
            return problem(422, "The event was not taken: see errors.", errors=error.problems)
        case WrongBody():
            return problem(422, str(error), errors=error.problems, kind=kinds.WRONG_BODY)
        case TooManyUnused():
            return problem(429, str(error))
        case InvalidSubmission():
            return problem(422, "Nothing was submitted: see errors.", errors=error.problems)
        case ReferenceTaken():
            return problem(409, str(error), job=_job_url(request, error.job_id))
        case FileTooLarge():
            return problem(413, str(error))
        case Refused():
            return problem(status_of(error), str(error), kind=kinds.kind_of(error))
        case OperationalError() if getattr(error.__cause__, "sqlstate", None) in BUSY:
            return problem(409, "Somebody else is at it at this moment. Nothing was done; send it again.")
        case _ if is_outage(error):
            return problem(503, AWAY)
        case DatabaseError():
            raise error
        case RevisionMissing():
            return problem(
                503, "This server does not have the revision that waits for it. Send it again later."
            )
        case TooLarge():
            return problem(413, str(error))
        case NotSigned():
            return problem(
                401, "No source that is known here has signed this request in the last five minutes."
            )
        case NoSuchWorkflow():
            return problem(404, str(error))
        case RequestDataTooBig():
            return _too_large()
        case AuthenticationError():
            return problem(401, "Sign in; the API takes the session of the console.")
        case HttpError():
            return problem(error.status_code, _plain(error))
        case ValidationError() | Http404():
            return problem(404, NOWHERE)
        case _:
            return problem(400, str(error))


def _is_ours(request: HttpRequest) -> bool:
    return request.path.startswith(reverse("api:api-root"))


def _too_large() -> HttpResponse:
    body, file = settings.DATA_UPLOAD_MAX_MEMORY_SIZE, settings.COUNTERFOIL_LARGEST_FILE
    return problem(413, f"A body may hold {body:,} bytes, and a file in a form {file:,}.")


def _inside(field: str) -> str:
    return f"value.{field}" if field else "value"


def _plain(error: HttpError) -> str:
    if error.status_code == 403:
        return "The request carries no valid CSRF token: send the cookie's value as X-CSRFToken."
    return str(error)


def _job_url(request: HttpRequest, job_id: int) -> str:
    slug = request.resolver_match.kwargs["slug"] if request.resolver_match else ""
    return reverse("api:job", args=[slug, job_id])
