"""The way in for a receiver's callbacks: from its public address to its organisation, its terms and its secrets.

Whoever comes has no session. A function of the database's owner says to whom an address belongs, and nothing else;
from then on the organisation's own scope holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.db import connection

from access.tenancy import reading
from dispatch.callback_terms import Callbacks
from dispatch.callbacks.signing import read_message, secrets_of
from dispatch.callbacks.taking import Taken, take_callback
from dispatch.contracts import Contract
from dispatch.rendering import latest_contract


class NotTheirs(Exception):
    """No receiver that is known here has signed this; which of both it is is not told."""


def receive_callback(*, public_id: UUID, body: bytes, headers: Mapping[str, str], now: datetime) -> Taken:
    """Check who signed the raw body, then take it. Raises NotTheirs, BadMessageId and what `take_callback` raises."""
    found = _whose(public_id)
    terms = _terms(*found) if found is not None else None
    if found is None or terms is None:
        raise NotTheirs
    message = read_message(body, headers, terms, secrets_of(terms)[0], now)
    if message is None:
        raise NotTheirs
    tenant_id, receiver_id = found
    return take_callback(
        tenant_id=tenant_id, receiver_id=receiver_id, message=message, body=body, terms=terms, now=now
    )


def _whose(public_id: UUID) -> tuple[int, int] | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tenant_id, receiver_id FROM dispatch_receiver_of(%s)", [public_id])
        row: tuple[int, int] | None = cursor.fetchone()
        return row


def _terms(tenant_id: int, receiver_id: int) -> Callbacks | None:
    """By the contract in force: whoever changes a secret or a word writes a new version."""
    with reading(tenant_id):
        kept = latest_contract(receiver_id)
        return Contract.of(kept.terms).callbacks if kept is not None else None


def statements() -> str:
    """The function, which stays its owner's, so that row level security does not stand in its way."""
    return """
CREATE OR REPLACE FUNCTION dispatch_receiver_of(address uuid)
RETURNS TABLE (tenant_id bigint, receiver_id bigint) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
  SELECT r.tenant_id, r.id FROM dispatch_receiver r WHERE r.public_id = address
$$;
REVOKE ALL ON FUNCTION dispatch_receiver_of(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatch_receiver_of(uuid) TO counterfoil_app;
"""
