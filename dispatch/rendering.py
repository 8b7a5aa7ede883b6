"""From an operation's draft to the bytes that are frozen: rendered once, when the proposal is, and never again."""

from __future__ import annotations

from datetime import datetime

from access.statements import Select
from access.whereabouts import who_is
from approvals.rendering import CannotRender, FrozenRequest
from dispatch.connectors.registry import NoSuchConnector, connector
from dispatch.contracts import Contract
from dispatch.models import Receiver, ReceiverContract
from dispatch.requests import Place, fill, local_path, same_place
from workflows.authoring import OperationDraft

__all__ = ["fill", "latest_contract", "local_path", "render_operation", "same_place"]


def render_operation(draft: OperationDraft, key: str | None, now: datetime) -> FrozenRequest:
    """The exact request of one operation under the receiver's contract in force. Runs in the tenant's scope.

    A key that was made before is kept if the contract can carry it; otherwise one is made. Raises CannotRender.
    """
    receiver = _RECEIVER.first(draft.receiver)
    if receiver is None:
        raise CannotRender(f'There is no receiver "{draft.receiver}" here.')
    row = latest_contract(receiver.pk)
    if row is None:
        raise CannotRender(f'The receiver "{draft.receiver}" has no contract yet.')
    who = who_is(receiver.tenant_id, receiver.name)
    place = Place(receiver.name, receiver.base_url, receiver.account, row.version, who)
    contract = Contract.of(row.terms)
    try:
        return connector(contract.connector).render(draft, contract, place, key)
    except NoSuchConnector as missing:
        raise CannotRender(str(missing)) from missing


def latest_contract(receiver_id: int) -> ReceiverContract | None:
    """The version in force; what was frozen under an earlier one stays under that."""
    return _IN_FORCE.first(receiver_id)


_RECEIVER = Select(lambda name: Receiver.objects.filter(name=name))
_IN_FORCE = Select(
    lambda receiver: ReceiverContract.objects.filter(receiver=receiver).order_by("-version")[:1]
)
