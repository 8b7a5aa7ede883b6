"""The only place that locks rows of this room: a message, then its endpoint.

Whoever reports a message to a room above holds its job's lock before; nobody locks anything of theirs after.
"""

from __future__ import annotations

from access.refusals import NotFound
from outbox.models import Endpoint, Message


class NoSuchMessage(NotFound):
    """There is no such message in this tenant."""


class NoSuchEndpoint(NotFound):
    """There is no such endpoint in this tenant."""


def lock_message(message_id: int) -> Message:
    """The message, fresh and locked. Raises NoSuchMessage."""
    query = Message.objects.select_for_update(no_key=True, of=("self",))
    message = query.filter(pk=message_id).first()
    if message is None:
        raise NoSuchMessage(f"There is no message {message_id} here.")
    return message


def lock_endpoint(endpoint_id: int) -> Endpoint:
    """The endpoint, fresh and locked. Nothing is locked after it. Raises NoSuchEndpoint."""
    query = Endpoint.objects.select_for_update(no_key=True, of=("self",))
    endpoint = query.filter(pk=endpoint_id).first()
    if endpoint is None:
        raise NoSuchEndpoint("There is no such endpoint here.")
    return endpoint
