"""What a step returns instead of a result when it has to wait: for a time, an event from outside, a person's answer.

    @orders.step()
    def shipped(ctx: Ctx, order: Order) -> Event[Shipment]:
        return Event(key=f"shipment {order.reference}", within=timedelta(days=3))

Later steps take a `Shipment`. While it waits no worker is held, and it outlives every restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict

T = TypeVar("T", bound=BaseModel)


class Woken(BaseModel):
    """The result of a step that slept: the time that it waited for."""

    model_config = ConfigDict(frozen=True)

    at: AwareDatetime


@dataclass(frozen=True, slots=True)
class Sleep:
    """Go on at a time (aware), or after a while from now."""

    until: datetime | timedelta


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """Go on when a signed event of this key comes from outside, whose value is a `T`.

    `key`: what the sender names, 1 to 200 printable characters, unique in the tenant while it is waited for. An event
    that came before anybody waited counts. `within`: after that nobody waits any longer, the item stops and a case
    opens.
    """

    key: str
    within: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """Go on when a person of the tenant answers; the form is made from `T`.

    `role`: who may answer (submitter, manager, operator or admin). `within`: as with Event.
    """

    text: str
    role: str = "operator"
    within: timedelta | None = None


Wait = Sleep | Event[BaseModel] | Question[BaseModel]
