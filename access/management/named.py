"""The organisation and the person that a command names. CommandError says who is not there."""

from __future__ import annotations

from django.core.management.base import CommandError

from access.models import Person, Tenant


def organisation(slug: str) -> Tenant:
    """By the name that its addresses have; the error lists those that there are."""
    tenant = Tenant.objects.filter(slug=slug).first()
    if tenant is None:
        known = ", ".join(Tenant.objects.order_by("slug").values_list("slug", flat=True)) or "none"
        raise CommandError(f"There is no organisation {slug} here. There are: {known}.")
    return tenant


def person(handle: str) -> Person:
    """By handle. Whether they may do what is asked is for the action to say."""
    found = Person.objects.filter(username=handle).first()
    if found is None:
        raise CommandError(f"There is nobody called {handle} here.")
    return found
