"""A frozen operation's rows as what a connector is given. Nothing is rendered here: what was frozen is taken as it is."""

from __future__ import annotations

import json

from access.whereabouts import who_is
from dispatch.connectors.registry import connector
from dispatch.connectors.seam import Sending
from dispatch.contracts import Contract
from dispatch.models import Operation
from dispatch.requests import local_path
from dispatch.wire import Request


def sending_of(operation: Operation, contract: Contract, *, asks: bool = False) -> Sending:
    """What sending an operation needs, or asking about it (`asks`), its rows at hand. Raises SecretMissing, NoSuchConnector."""
    proposed, receiver = operation.proposed, operation.receiver
    secret = contract.reading_secret(receiver.secret_reference) if asks else receiver.secret_reference
    credentials = connector(contract.connector).credentials(secret, contract)
    credentials = credentials.at(who_is(receiver.tenant_id, receiver.name))
    request = Request(
        method=proposed.method,
        url=proposed.target,
        headers=json.loads(proposed.headers),
        body=bytes(proposed.body),
        secret_headers=credentials.headers,
        security=credentials.security,
    )
    action = contract.action_of(proposed.method, local_path(receiver.base_url, proposed.target))
    return Sending(
        request,
        contract,
        action,
        operation.operation_key,
        operation.record,
        receiver.base_url,
        operation.account,
        credentials,
    )
