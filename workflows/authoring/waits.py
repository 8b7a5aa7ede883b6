"""What a step returns instead of a result when it has to wait: for a time, an event from outside, a person's answer.

    @orders.step()
    def shipped(ctx: Ctx, order: Order) -> Event[Shipment]:
        return Event(key=f"shipment {order.reference}", within=timedelta(days=3))

Later steps take a `Shipment`. While it waits no worker is held, and it outlives every restart. A step that knows the
answer already can return it: `-> Event[Shipment] | Shipment`.
"""

from __future__ import annotations

import json
import re
import types
import typing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, RootModel

from workflows.authoring.errors import Permanent
from workflows.authoring.policies import BadDefinition

T = TypeVar("T", bound=BaseModel)

LONGEST_KEY = 200
LONGEST_SOURCE = 100
LONGEST_QUESTION = 2000
LONGEST_WAIT = timedelta(days=3660)
LAST_YEAR = 9990
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
ANSWERING = ("submitter", "manager", "operator", "admin")


class BadWait(Permanent):
    """The step asked to wait for something that cannot be waited for; the message says what is wrong with it."""


class Woken(BaseModel):
    """The result of a step that slept: the time that it waited for."""

    model_config = ConfigDict(frozen=True)

    at: AwareDatetime


@dataclass(frozen=True, slots=True)
class Sleep:
    """Go on at a time (aware), or after a while from now, by the database's clock. A time that is past is now."""

    until: datetime | timedelta

    def __post_init__(self) -> None:
        if isinstance(self.until, timedelta):
            if self.until > LONGEST_WAIT:
                raise BadWait(f"Sleep: {self.until} is longer than {LONGEST_WAIT.days} days.")
        elif self.until.tzinfo is None:
            raise BadWait("Sleep: say the time with its zone.")
        elif self.until.year > LAST_YEAR:
            raise BadWait(f"Sleep: {self.until:%Y} is too far away.")


# Without slots: Event[Shipment](…) sets an attribute, and typing minds only the error of a frozen class without them.
@dataclass(frozen=True)
class Event(Generic[T]):
    """Go on when a signed event of this key comes from outside, whose value is a `T`.

    `key`: what the sender names, 1 to 200 printable characters, unique in the tenant while it is waited for. An event
    that came before anybody waited counts. `within`: after that nobody waits any longer, the item stops and a case
    opens. `source`: the one source whose event counts, by its name of up to 100 characters; any of the tenant's where
    it is empty.
    """

    key: str
    within: timedelta | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if not is_key(self.key):
            raise BadWait(
                f"Event: the key is 1 to {LONGEST_KEY} printable characters, not {self.key!r:.300}."
            )
        if len(self.source) > LONGEST_SOURCE or not self.source.isprintable():
            raise BadWait(
                f"Event: a source is named in 1 to {LONGEST_SOURCE} printable characters, not {self.source!r:.300}."
            )
        _check_within("Event", self.within)


@dataclass(frozen=True)
class Question(Generic[T]):
    """Go on when a person of the tenant answers; the form is made from `T`.

    `text`: 1 to 2,000 characters. `role`: who may answer (submitter, manager, operator or admin). `within`: as with
    Event. Whoever answers has had a hand in the job, and cannot approve what it proposes where the policy asks for
    four eyes.
    """

    text: str
    role: str = "operator"
    within: timedelta | None = None

    def __post_init__(self) -> None:
        if not self.text.strip() or len(self.text) > LONGEST_QUESTION:
            raise BadWait(f"Question: ask something, in at most {LONGEST_QUESTION:,} characters.")
        if _UNSTORABLE.search(self.text):
            raise BadWait("Question: the text holds a character that cannot be stored, NUL or half a pair.")
        if self.role not in ANSWERING:
            raise BadWait(f"Question: {', '.join(ANSWERING)} may answer, not {self.role!r:.100}.")
        _check_within("Question", self.within)


Wait = Sleep | Event[BaseModel] | Question[BaseModel]
"""What an item waits for that no worker does: a time, an event from outside, a person's answer."""


def is_key(text: str) -> bool:
    """Whether a text can name an event: 1 to 200 printable characters, none at its ends a space."""
    return 0 < len(text) <= LONGEST_KEY and text.isprintable() and text == text.strip()


def result_of(hint: Any) -> tuple[Any, bool]:
    """What later steps take of a step that returns `hint`, and whether it can wait for it."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    options = typing.get_args(hint) if is_union else (hint,)
    awaited = [_awaited(o) for o in options if _is_wait(o)]
    if not awaited:
        return hint, False
    results = {*awaited, *(o for o in options if not _is_wait(o))}
    if len(results) > 1:
        raise BadDefinition(f"{hint}: whatever a step waits for, later steps take one type of result")
    return awaited[0], True


def _is_wait(hint: Any) -> bool:
    return (typing.get_origin(hint) or hint) in (Sleep, Event, Question)


def _awaited(hint: Any) -> Any:
    """What ends the wait: a Woken, or the model in the brackets."""
    if hint is Sleep:
        return Woken
    (model,) = typing.get_args(hint) or (None,)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise BadDefinition(
            f"say what is waited for, a model: {(typing.get_origin(hint) or hint).__name__}[...]"
        )
    if '"widget": "upload"' in json.dumps(model.model_json_schema()):
        raise BadDefinition(
            f"{model.__name__} names a file: files come with a submission, not with what is waited for"
        )
    if issubclass(model, RootModel) and typing.get_origin(hint) is Question:
        raise BadDefinition(f"{model.__name__} has no fields to make a form from")
    return model


def _check_within(what: str, within: timedelta | None) -> None:
    if within is not None and not timedelta(0) < within <= LONGEST_WAIT:
        raise BadWait(f"{what}: within is longer than nothing and at most {LONGEST_WAIT.days} days.")
