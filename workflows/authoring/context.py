"""What a handler is given beside its input."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(slots=True)
class Usage:
    """What one attempt used, added up over the calls it recorded."""

    route: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Ctx:
    """One attempt of one work item, as its handler sees it.

    `request_key` stays the same over the attempts of one item, for providers that can use it; `attempt` counts from 1.
    """

    tenant_id: int
    job_id: int
    reference: str
    item_key: str
    attempt: int
    request_key: str
    usage: Usage = field(default_factory=Usage)

    def record(
        self, *, route: str, tokens_in: int = 0, tokens_out: int = 0, cost: Decimal = Decimal(0)
    ) -> None:
        """Say what a call cost, whatever client library made it. Kept with the attempt, also when that fails."""
        self.usage.route = route
        self.usage.tokens_in += tokens_in
        self.usage.tokens_out += tokens_out
        self.usage.cost += cost
