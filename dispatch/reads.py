"""Asking a tenant's receiver for a record on behalf of a workflow's step."""

from __future__ import annotations

from access.tenancy import reading
from dispatch.contracts import Contract, Timeouts
from dispatch.models import Receiver
from dispatch.rendering import latest_contract, same_place
from dispatch.secrets import SecretMissing, secret_headers
from dispatch.wire import Exchange, Request, exchange
from workflows.authoring import Ctx, Permanent, Retryable


def ask(ctx: Ctx, name: str, path: str) -> Exchange:
    """GET a path below a receiver of the ctx's tenant. Raises Permanent for what cannot be asked at all."""
    request, timeouts = _request(ctx, name, path)
    return exchange(request, timeouts)


def _request(ctx: Ctx, name: str, path: str) -> tuple[Request, Timeouts]:
    with reading(ctx.tenant_id):
        row = Receiver.objects.filter(name=name).first()
        contract_row = latest_contract(row.pk) if row is not None else None
    if row is None or contract_row is None:
        raise Permanent(f'There is no receiver "{name}" with a contract here.')
    contract = Contract.model_validate(contract_row.terms)
    url = f"{row.base_url.rstrip('/')}/{path.lstrip('/')}"
    if not same_place(row.base_url, url) or "/../" in f"{url}/":
        raise Permanent(f"{path} is not below the address of {name}.")
    try:
        secret = secret_headers(row.secret_reference, contract)
    except SecretMissing as missing:
        raise Retryable(str(missing)) from missing
    return Request("GET", url, {"Accept": "application/json"}, b"", secret), contract.timeouts
