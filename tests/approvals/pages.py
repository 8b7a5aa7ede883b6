"""Asking for the room's pages as somebody, as a browser or as htmx does."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from access.models import Person
from approvals.models import Proposal
from tests.approvals.world import World

HTMX = {"hx-request": "true"}
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def as_person(person: Person) -> Client:
    """A browser in which the person is signed in."""
    client = Client(headers={"host": "localhost"})
    client.force_login(person)
    return client


def at(world: World, name: str, proposal: Proposal | int | None = None) -> str:
    """The address of a page of the room."""
    pk = proposal.pk if isinstance(proposal, Proposal) else proposal
    return reverse(name, args=[world.tenant.slug] if pk is None else [world.tenant.slug, pk])


def decide(
    world: World,
    proposal: Proposal,
    person: Person,
    verdict: str = "approve",
    htmx: bool = False,
    **more: Any,
) -> HttpResponse:
    """Posts a decision as the desk or the dialog does."""
    data = {"verdict": verdict, "digest": proposal.digest, "reason": "because", **more}
    response: Any = as_person(person).post(
        at(world, "decision", proposal), data, headers=HTMX if htmx else {}
    )
    return response  # type: ignore[no-any-return]


def text(response: Any) -> str:
    """What came back."""
    body: str = response.content.decode()
    return body
