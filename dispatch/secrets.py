"""Secrets of receivers: a row holds where one is to be found, never the secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from access.secrets import References, SecretMissing

if TYPE_CHECKING:  # a contract names its own secrets, so it imports this
    from dispatch.contracts import Contract

__all__ = ["SecretMissing", "check_reference", "secret_headers"]
RECEIVERS = References("RECEIVER")


def check_reference(reference: str) -> bool:
    """Whether a reference is empty or of the two kinds that a tenant may name."""
    return not reference or RECEIVERS.allow(reference)


def secret_headers(reference: str, contract: Contract) -> dict[str, str]:
    """The authentication header of a receiver, made at the moment of sending. Raises SecretMissing."""
    if not reference:
        return {}
    scheme = f"{contract.auth_scheme} " if contract.auth_scheme else ""
    return {contract.auth_header: f"{scheme}{RECEIVERS.read(reference)}"}
