"""Asking a tenant's receiver for a record on behalf of a workflow's step."""

from __future__ import annotations

from access.tenancy import reading
from access.whereabouts import who_is
from dispatch.connectors.http import HttpConnector
from dispatch.connectors.registry import connectors
from dispatch.contracts import Contract
from dispatch.models import Receiver
from dispatch.rendering import latest_contract, same_place
from dispatch.secrets import SecretMissing
from dispatch.wire import Exchange
from workflows.authoring import Ctx, Permanent, Retryable


def ask(ctx: Ctx, name: str, path: str) -> Exchange:
    """GET a path below a receiver of the ctx's tenant. Raises Permanent for what cannot be asked at all."""
    with reading(ctx.tenant_id):
        row = Receiver.objects.filter(name=name).first()
        contract_row = latest_contract(row.pk) if row is not None else None
        who = who_is(ctx.tenant_id, name) if row is not None else ""
    if row is None or contract_row is None:
        raise Permanent(f'There is no receiver "{name}" with a contract here.')
    contract = Contract.of(contract_row.terms)
    if not same_place(row.base_url, f"{row.base_url.rstrip('/')}/{path.lstrip('/')}") or "/../" in f"{path}/":
        raise Permanent(f"{path} is not below the address of {name}.")
    http = connectors().get(contract.connector)
    if not isinstance(http, HttpConnector):
        raise Permanent(f"{name} is not reached over HTTP, so no record can be read from it.")
    try:
        credentials = http.credentials(contract.reading_secret(row.secret_reference), contract)
    except SecretMissing as missing:
        raise Retryable(str(missing)) from missing
    return http.get(path, row.base_url, contract, credentials.at(who))
