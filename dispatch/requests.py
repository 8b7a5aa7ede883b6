"""The exact request of an operation under a contract. Pure, but for the key that is made where there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from access.addresses import AddressRefused, check_url
from approvals.rendering import CannotRender, FrozenRequest
from dispatch.bodies import CONTENT_TYPES, content_of, encode
from dispatch.contracts import Action, Contract, KeyLocation
from dispatch.templates import as_text, places, values_of
from workflows.authoring import OperationDraft
from workflows.authoring.values import check_decimals

BODY_LIMIT = 1_000_000
_VERSION = re.compile(r'(W/)?"[!#-~]*"|[!#-~]+')
_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_.-]+)\}")


@dataclass(frozen=True, slots=True)
class Place:
    """Which receiver, where, for which account, under which version of its contract."""

    name: str
    base_url: str
    account: str = ""
    contract_version: int = 1
    who: str = ""
    """As COUNTERFOIL_INTERNAL_RECEIVERS names it."""


def request_of(draft: OperationDraft, contract: Contract, place: Place, key: str | None) -> FrozenRequest:
    """The request of one operation. A key that was made before is kept if the contract can carry it; otherwise one is
    made. Raises CannotRender."""
    action, key = action_for(draft, contract, place), key_for(contract, key)
    values = values_of(draft, place.account, key)
    return frozen(
        draft,
        action,
        place,
        key,
        target=_target(place, action, contract, values),
        headers=_headers(draft, action, contract, values),
        body=_body(draft, action, contract, values),
    )


def action_for(draft: OperationDraft, contract: Contract, place: Place) -> Action:
    """The action that a draft names. Raises CannotRender."""
    action = contract.actions.get(draft.action)
    if action is None:
        known = ", ".join(sorted(contract.actions))
        raise CannotRender(f'"{place.name}" has no action "{draft.action}"; its contract names {known}.')
    return action


def frozen(
    draft: OperationDraft, action: Action, place: Place, key: str, *, target: str, headers: dict[str, str], body: bytes
) -> FrozenRequest:  # fmt: skip
    """What was rendered, with what every request says of its operation."""
    return FrozenRequest(
        operation_key=key,
        receiver=place.name,
        contract_version=place.contract_version,
        account=place.account,
        record=draft.record,
        title=draft.title,
        method=action.method,
        target=target,
        headers=headers,
        body=body,
    )


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


def _target(place: Place, action: Action, contract: Contract, values: Mapping[str, Any]) -> str:
    try:
        check_url(place.base_url, place.who)
    except AddressRefused as refused:
        raise CannotRender(f'The address of "{place.name}" is refused: {refused}') from refused
    segments = {name: as_text(f"{{{name}}}", values) for name in places(action.path)}
    target = place.base_url.rstrip("/") + fill(action.path, **segments)
    query = {name: as_text(template, values) for name, template in action.query.items()}
    if contract.key_location is KeyLocation.QUERY:
        query[contract.key_name] = values["operation_key"]
    target += "?" + urlencode(query) if query else ""
    if not same_place(place.base_url, target):
        raise CannotRender(f'{target} is not an address of "{place.name}".')
    return target


def key_for(contract: Contract, key: str | None) -> str:
    """The key that was made before, if the contract takes it, or a new one. Raises CannotRender."""
    if key is None:
        return contract.new_key()
    if not contract.takes_key(key):
        raise CannotRender(f"The operation key {key} does not fit the contract {contract.title}.")
    return key


def _headers(
    draft: OperationDraft, action: Action, contract: Contract, values: Mapping[str, Any]
) -> dict[str, str]:
    headers = {"Accept": "application/json", "Content-Type": CONTENT_TYPES[action.body_as]}
    if action.body_as == "none":
        del headers["Content-Type"]
    if action.precondition == "if_none_match":
        headers["If-None-Match"] = "*"
    if action.precondition == "if_match":
        headers["If-Match"] = _version(draft)
    if contract.key_location is KeyLocation.HEADER:
        headers[contract.key_name] = values["operation_key"]
    own = {name.lower() for name in action.headers}
    kept = {name: value for name, value in headers.items() if name.lower() not in own}
    return kept | {name: as_text(template, values) for name, template in action.headers.items()}


def _version(draft: OperationDraft) -> str:
    version = draft.record_version
    if not version:
        raise CannotRender(f'"{draft.action}" changes one version of {draft.record}; the draft names none.')
    if not _VERSION.fullmatch(version):
        raise CannotRender(f"{version!r} cannot be sent as the version of a record.")
    return version if version.startswith(('"', 'W/"')) else f'"{version}"'


def _body(draft: OperationDraft, action: Action, contract: Contract, values: Mapping[str, Any]) -> bytes:
    if draft.amount is not None and draft.currency is not None:
        try:
            check_decimals(draft.amount, draft.currency)
        except ValueError as wrong:
            raise CannotRender(f"{wrong}.") from wrong
    content = content_of(action, values)
    if contract.key_location is KeyLocation.BODY:
        content = _with_key(content, contract.key_name, values["operation_key"])
    body = encode(action, content)
    if len(body) > BODY_LIMIT:
        raise CannotRender(f"The request has {len(body)} bytes; at most {BODY_LIMIT} are sent.")
    return body


def _with_key(content: dict[str, Any], place: str, key: str) -> dict[str, Any]:
    """The body with the key at its place; what is on the way there is copied, since the draft is not ours to change."""
    name, _, rest = place.partition(".")
    there = content.get(name)
    if there is not None and not (rest and isinstance(there, dict)):
        raise CannotRender(f"The body already has a field {place}, where the key goes.")
    return {**content, name: _with_key(there or {}, rest, key) if rest else key}
