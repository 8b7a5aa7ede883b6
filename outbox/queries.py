"""What the page of notifications shows: endpoints with how they stand, messages newest first, one message whole."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, OuterRef, Q, Subquery

from access.models import Person
from outbox import events
from outbox.locks import NoSuchEndpoint, NoSuchMessage
from outbox.models import Endpoint, Message, MessageKind, Try

PAGE = 50
FILTERS: dict[str, tuple[str, Q]] = {
    "": ("All", Q()),
    "waiting": ("Waiting", Q(next_attempt_at__isnull=False)),
    "given-up": ("Given up", Q(given_up_at__isnull=False)),
}


@dataclass(frozen=True, slots=True)
class EndpointView:
    """An endpoint, how many messages wait for it, when one last arrived, and what the newest that failed came to."""

    endpoint: Endpoint
    waiting: int
    delivered_at: datetime | None
    last_error: str
    told_of: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message as a line: whom it is for, what it says, and how it stands (a code name and words of a state)."""

    message: Message
    recipient: str
    title: str
    link: str
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class MessagesPage:
    """Messages newest first; `older` is where the next page begins, 0 at the end."""

    rows: list[MessageRow]
    older: int


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message with every try. `unanswered`: so many claims ended without a word. `behind`: the message that it waits
    for, since that tells of the same job and was written before, or 0.
    """

    row: MessageRow
    payload: str
    tries: list[Try]
    unanswered: int
    behind: int


def endpoints() -> list[EndpointView]:
    """Every endpoint by name. Two queries."""
    newest = Message.objects.filter(endpoint=OuterRef("pk")).order_by("-pk")
    delivered, failed = newest.filter(delivered_at__isnull=False), newest.exclude(last_error="")
    rows = Endpoint.objects.order_by("name").annotate(
        last_delivered=Subquery(delivered.values("delivered_at")[:1]),
        newest_error=Subquery(failed.values("last_error")[:1]),
    )
    open_ones = Message.objects.filter(next_attempt_at__isnull=False, kind=MessageKind.WEBHOOK)
    waiting = dict(open_ones.values_list("endpoint").annotate(n=Count("pk")).order_by())
    return [
        EndpointView(
            e, waiting.get(e.pk, 0), e.last_delivered, e.newest_error or "",
            [(name, events.declared().get(name, "")) for name in e.events],
        )
        for e in rows
    ]  # fmt: skip


def endpoint_called(endpoint_id: int) -> Endpoint:
    """The endpoint, or NoSuchEndpoint."""
    endpoint = Endpoint.objects.filter(pk=endpoint_id).first()
    if endpoint is None:
        raise NoSuchEndpoint("There is no such endpoint here.")
    return endpoint


def messages(*, which: str, before: int, now: datetime) -> MessagesPage:
    """A page of messages, of those that `which` of FILTERS leaves."""
    rows = Message.objects.filter(FILTERS.get(which, FILTERS[""])[1]).select_related("person", "endpoint")
    rows = rows.filter(pk__lt=before) if before else rows
    found = list(rows.order_by("-pk")[: PAGE + 1])
    shown = found[:PAGE]
    return MessagesPage([_row(m, now) for m in shown], shown[-1].pk if len(found) > PAGE else 0)


def message(message_id: int, now: datetime) -> MessageView:
    """One message, or NoSuchMessage. Three queries."""
    found = Message.objects.select_related("person", "endpoint").filter(pk=message_id).first()
    if found is None:
        raise NoSuchMessage(f"There is no message {message_id} here.")
    tries = list(Try.objects.filter(message=found).order_by("pk"))
    under_way = 1 if found.claimed_by and found.next_attempt_at and found.next_attempt_at > now else 0
    payload = json.dumps(json.loads(found.payload), indent=2, ensure_ascii=False)
    return MessageView(
        _row(found, now), payload, tries, found.claim_no - len(tries) - under_way, _waits_for(found)
    )


def _waits_for(message: Message) -> int:
    if message.job_id is None or message.next_attempt_at is None:
        return 0
    return (
        message.of_the_same().filter(pk__lt=message.pk).order_by("pk").values_list("pk", flat=True).first()
        or 0
    )


def recipient_of(message: Message) -> str:
    """Who a message is for, as people name them."""
    person: Person | None = message.person
    return person.get_username() if person is not None else str(message.endpoint)


def _row(message: Message, now: datetime) -> MessageRow:
    told = json.loads(message.payload)["data"]
    state, words = _state(message, now)
    return MessageRow(message, recipient_of(message), told["title"], told["link"], state, words)


def _state(message: Message, now: datetime) -> tuple[str, str]:
    if message.delivered_at is not None:
        return "SUCCEEDED", "Delivered"
    if message.given_up_at is not None:
        return "EXHAUSTED", "Given up"
    if message.claimed_by and message.next_attempt_at and message.next_attempt_at > now:
        return "RUNNING", "Being sent"
    return ("BACKING_OFF", "Retry waiting") if message.attempts else ("READY", "Waiting")
