"""What workflows may use of this room: reading a record from a receiver, through the same careful client."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from access.tenancy import reading
from dispatch.classification import retry_after
from dispatch.comparison import Unreadable, read_json
from dispatch.contracts import Contract, Timeouts
from dispatch.models import Receiver
from dispatch.rendering import latest_contract, same_place
from dispatch.secrets import SecretMissing, secret_headers
from dispatch.wire import Exchange, Request, exchange
from workflows.authoring import Ctx, Permanent, Retryable

_PASSING = (408, 425, 429)


def read_record(ctx: Ctx, *, receiver: str, path: str) -> dict[str, Any]:
    """GET a JSON object from a receiver of the job's tenant. Changes nothing there; never inside a transaction.

    `path` is below the receiver's address and already escaped. Raises Retryable for what can pass (no connection, no
    answer, 408, 429, 5xx), Permanent for the rest (unknown receiver, refused address, other 4xx, not JSON).
    """
    request, timeouts = _request(ctx, receiver, path)
    seen = exchange(request, timeouts)
    if seen.status is None:
        _raise_without_answer(receiver, seen)
    if seen.status in _PASSING or (seen.status or 0) >= 500:
        after = retry_after(seen.headers.get("retry-after", ""), now=timezone.now(), longest=900)
        raise Retryable(f"{receiver} answered {seen.status}.", retry_after=after)
    if seen.status != 200:
        raise Permanent(f"{receiver} answered {seen.status} for {path}.")
    try:
        if seen.body_problem:
            raise Retryable(f"{receiver} answered with a body that is {seen.body_problem}.")
        content = read_json(seen.body)
    except Unreadable as unreadable:
        raise Permanent(f"{receiver} answered 200 for {path}, but {unreadable}.") from None
    return content


def _request(ctx: Ctx, name: str, path: str) -> tuple[Request, Timeouts]:
    with reading(ctx.tenant_id):
        row = Receiver.objects.filter(name=name).first()
        contract_row = latest_contract(row) if row is not None else None
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


def _raise_without_answer(name: str, seen: Exchange) -> None:
    if seen.exception in ("AddressRefused", "InvalidURL", "UnsupportedProtocol", "LocalProtocolError"):
        raise Permanent(f"{name} cannot be asked: {seen.message}")
    raise Retryable(f"{name} did not answer ({seen.exception}).")
