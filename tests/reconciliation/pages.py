"""Browsers in front of a desk: addresses of its cases, and forms filled in as the actions' tests fill theirs."""

from __future__ import annotations

from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from access.models import Person
from reconciliation.models import Case
from tests.reconciliation.world import Desk, now

HOSTILE = '<img src=x onerror="alert(1)">\u202etxt'
HTMX = {"HX-Request": "true"}


class Upload(SimpleUploadedFile):
    """A file that can be sent again and again."""

    @property
    def read(self) -> Any:
        self.file.seek(0)
        return self.file.read


def as_person(person: Person) -> Client:
    """A browser in which the person is signed in."""
    client = Client(headers={"host": "localhost"})
    client.force_login(person)
    return client


def address(desk: Desk, name: str, *args: Any) -> str:
    """The address of one of the room's pages in the desk's organisation."""
    return reverse(name, args=(desk.world.tenant.slug, *args))


def post(desk: Desk, person: Person, name: str, case: Case, *args: Any, **given: Any) -> HttpResponse:
    """A form sent without a script, with the version of the case as it was given."""
    values = {"version": case.version, **given}
    return as_person(person).post(address(desk, name, case.pk, *args), values)  # type: ignore[return-value]


def request_of(desk: Desk, case: Case) -> int:
    """The open request of a case."""
    (request,) = [r for r in desk.requests(case) if r.closed_at is None]
    return int(request.pk)


def html_of(response: Any) -> str:
    return str(response.content.decode())


def a_receipt(**changes: Any) -> dict[str, Any]:
    """What somebody types who holds the receipt of V-1."""
    values = {
        "receipt_id": "R-77",
        "record": "V-1",
        "obtained_from": "j.lindahl at the ERP desk",
        "obtained_at": now().strftime("%Y-%m-%dT%H:%M:%S.%f"),
        "note": "",
    }
    return {**values, **changes}


def a_statement(**changes: Any) -> dict[str, Any]:
    """What somebody types who has it in writing that nothing was applied."""
    values = {
        "basis": "statement",
        "source": "mail 14:02",
        "evidence": "It never arrived.",
        "file": Upload("mail.eml", b"We never received it.\n"),
        "then": "stop",
    }
    return {**values, **changes}
