"""Sources of events from outside: who they are, and the secrets that their signatures are checked with."""

from __future__ import annotations

import logging
from datetime import datetime

from access.secrets import References, SecretMissing
from access.signatures import SHORTEST_SECRET, is_secret
from workflows.models import EventSource

log = logging.getLogger(__name__)
SECRETS = References("EVENTS")


def secrets_of(name: str, now: datetime) -> list[str]:
    """The secrets that hold now for a source of the scope's tenant: none where it is unknown or has ended.

    After a rotation the one before holds for a while too. A secret that cannot be read here is logged and left out.
    """
    source = EventSource.objects.filter(name=name, ended_at__isnull=True).first()
    return [] if source is None else [s for r in _references(source, now) if (s := _read(source, r))]


def fault_of(reference: str) -> str:
    """What is wrong with the secret behind a reference, as this process sees it; empty where nothing is."""
    try:
        secret = SECRETS.read(reference)
    except SecretMissing as missing:
        return str(missing)
    if not is_secret(secret):
        return f"{reference} holds no secret of {SHORTEST_SECRET} bytes or more in base64."
    return ""


def _references(source: EventSource, now: datetime) -> list[str]:
    holds = source.previous_until is not None and now < source.previous_until
    return [source.secret_reference, *([source.previous_reference] if holds else [])]


def _read(source: EventSource, reference: str) -> str:
    fault = fault_of(reference)
    if fault:
        log.error("events of %s cannot be checked: %s", source.name, fault)
    return "" if fault else SECRETS.read(reference)
