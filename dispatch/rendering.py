"""From an operation's draft to the bytes that are frozen: rendered once, when the proposal is, and never again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from approvals.canonical import NotCanonical, write
from approvals.rendering import CannotRender, FrozenRequest
from dispatch.addresses import AddressRefused, check_url
from dispatch.contracts import Action, Contract, KeyLocation
from dispatch.models import Receiver, ReceiverContract
from workflows.authoring import OperationDraft
from workflows.authoring.values import check_decimals

BODY_LIMIT = 1_000_000
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def render_operation(draft: OperationDraft, key: str | None, now: datetime) -> FrozenRequest:
    """The exact request of one operation under the receiver's contract in force. Runs in the tenant's scope.

    A key that was made before is kept if the contract can carry it; otherwise one is made. Raises CannotRender.
    """
    receiver = Receiver.objects.filter(name=draft.receiver).first()
    if receiver is None:
        raise CannotRender(f'There is no receiver "{draft.receiver}" here.')
    row = latest_contract(receiver)
    if row is None:
        raise CannotRender(f'The receiver "{draft.receiver}" has no contract yet.')
    contract = Contract.model_validate(row.terms)
    action = contract.actions.get(draft.action)
    if action is None:
        known = ", ".join(sorted(contract.actions))
        raise CannotRender(f'"{draft.receiver}" has no action "{draft.action}"; its contract names {known}.')
    key = _key(contract, key)
    body = _body(draft, contract, key)
    return FrozenRequest(
        operation_key=key,
        receiver=receiver.name,
        contract_version=row.version,
        account=receiver.account,
        record=draft.record,
        title=draft.title,
        method=action.method,
        target=_target(receiver, action, draft.record, contract, key),
        headers=_headers(contract, key),
        body=body,
    )


def latest_contract(receiver: Receiver) -> ReceiverContract | None:
    """The version in force; what was frozen under an earlier one stays under that."""
    return ReceiverContract.objects.filter(receiver=receiver).order_by("-version").first()


def fill(path: str, **values: str) -> str:
    """A path template with its places filled, each as one path segment."""
    return _PLACEHOLDER.sub(lambda m: _segment(values.get(m.group(1), "")), path)


def local_path(receiver_url: str, target: str) -> str:
    """A target's path below the receiver's own."""
    return urlsplit(target).path.removeprefix(urlsplit(receiver_url).path.rstrip("/"))


def same_place(receiver_url: str, target: str) -> bool:
    """Whether a frozen target still lies at the receiver's address: same scheme, host, port and path's beginning."""
    here, there = urlsplit(receiver_url), urlsplit(target)
    below = there.path.startswith(here.path.rstrip("/") + "/")
    return (here.scheme, here.hostname, here.port) == (there.scheme, there.hostname, there.port) and below


def _segment(value: str) -> str:
    # A record called ".." would leave its collection, however it is escaped.
    if not value or value in (".", "..") or "\\" in value:
        raise CannotRender(f"{value!r} cannot be a part of an address.")
    return quote(value, safe="")


def _target(receiver: Receiver, action: Action, record: str, contract: Contract, key: str) -> str:
    try:
        check_url(receiver.base_url)
    except AddressRefused as refused:
        raise CannotRender(f'The address of "{receiver.name}" is refused: {refused}') from refused
    target = receiver.base_url.rstrip("/") + fill(action.path, record=record)
    if contract.key_location is KeyLocation.QUERY:
        target += "?" + urlencode({contract.key_name: key})
    if not same_place(receiver.base_url, target):
        raise CannotRender(f'{target} is not an address of "{receiver.name}".')
    return target


def _key(contract: Contract, key: str | None) -> str:
    if key is None:
        return contract.new_key()
    if not contract.takes_key(key):
        raise CannotRender(f"The operation key {key} does not fit the contract {contract.title}.")
    return key


def _headers(contract: Contract, key: str) -> dict[str, str]:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if contract.key_location is KeyLocation.HEADER:
        headers[contract.key_name] = key
    return headers


def _body(draft: OperationDraft, contract: Contract, key: str) -> bytes:
    content = _decimals_as_text(draft.body)
    if draft.amount is not None and draft.currency is not None:
        try:
            check_decimals(draft.amount, draft.currency)
        except ValueError as wrong:
            raise CannotRender(f"{wrong}.") from wrong
    if contract.key_location is KeyLocation.BODY:
        if contract.key_name in content:
            raise CannotRender(f"The body already has a field {contract.key_name}, where the key goes.")
        content = {**content, contract.key_name: key}
    try:
        body = write(content).encode()
    except NotCanonical as wrong:
        raise CannotRender(str(wrong)) from wrong
    if len(body) > BODY_LIMIT:
        raise CannotRender(f"The request has {len(body)} bytes; at most {BODY_LIMIT} are sent.")
    return body


def _decimals_as_text(value: Any) -> Any:
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise CannotRender(f"{value} is no number that can be sent.")
        return f"{value:f}"
    if isinstance(value, Mapping):
        return {name: _decimals_as_text(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_decimals_as_text(inner) for inner in value]
    return value
