"""Secrets that sign webhooks: a row holds where one is to be found, never the secret."""

from __future__ import annotations

from datetime import datetime

from access.secrets import References, SecretMissing
from access.signatures import SHORTEST_SECRET, is_secret
from outbox.models import Endpoint

SECRETS = References("WEBHOOK")


def secrets_of(endpoint: Endpoint, now: datetime) -> list[str]:
    """The secrets that sign now: after a rotation both, for a while. Raises SecretMissing, for the current one only."""
    signing = [_read(endpoint.secret_reference)]
    if endpoint.previous_until is not None and now < endpoint.previous_until:
        try:
            signing.append(_read(endpoint.previous_reference))
        except SecretMissing:  # taken away early: the current one alone signs
            pass
    return signing


def fault_of(reference: str) -> str:
    """What is wrong with the secret behind a reference, as this process sees it; empty where nothing is."""
    try:
        _read(reference)
    except SecretMissing as missing:
        return str(missing)
    return ""


def _read(reference: str) -> str:
    secret = SECRETS.read(reference)
    if not is_secret(secret):
        raise SecretMissing(f"{reference} holds no secret of {SHORTEST_SECRET} bytes or more in base64.")
    return secret
