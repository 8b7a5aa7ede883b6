"""Secrets of receivers: a row holds where one is to be found, never the secret."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dispatch.contracts import Contract
from web.redaction import remember

_REFERENCE = re.compile(r"(env:COUNTERFOIL_RECEIVER_[A-Z0-9_]{1,80}|file:/run/secrets/[A-Za-z0-9_.-]{1,80})")


class SecretMissing(Exception):
    """The reference names nothing that this process can read."""


def check_reference(reference: str) -> bool:
    """Whether a reference is empty or of the two kinds that a tenant may name.

    Other variables and files belong to the installation: a receiver could otherwise be sent the database's password.
    """
    return not reference or _REFERENCE.fullmatch(reference) is not None


def secret_headers(reference: str, contract: Contract) -> dict[str, str]:
    """The authentication header of a receiver, made at the moment of sending. Raises SecretMissing."""
    if not reference:
        return {}
    secret = _read(reference)
    scheme = f"{contract.auth_scheme} " if contract.auth_scheme else ""
    return {contract.auth_header: f"{scheme}{secret}"}


def _read(reference: str) -> str:
    if not check_reference(reference):
        raise SecretMissing(f"{reference} is no reference to a receiver's secret.")
    kind, _, name = reference.partition(":")
    try:
        value = os.environ.get(name, "") if kind == "env" else Path(name).read_text("utf-8")
    except OSError:
        value = ""
    if not value.strip():
        raise SecretMissing(f"{reference} is not set here.")
    remember(value.strip())
    return value.strip()
