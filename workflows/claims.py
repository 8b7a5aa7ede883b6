"""What a process holds of a work item, and what a machine item's handler answers. Needs no settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from workflows.authoring.usage import Usage

MACHINE_ATTEMPTS = 10
"""Failures in a row (worker deaths included) after which a machine item is exhausted and a case opens."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One work item as this process holds it. Every write for it is conditional on `claim_no` and a live lease."""

    item_id: int
    tenant_id: int
    job_id: int
    stage_id: int
    stage_name: str
    kind: str
    key: str
    ordinal: int
    ordinal_of_stage: int
    claim_no: int
    attempt: int
    attempts_limit: int
    worker_id: int
    worker_name: str
    lane_id: int
    revision: str = ""
    limit_name: str = ""
    apart_for: int = 0
    """The known revision whose lane it was claimed from; 0: one that everybody looks at."""
    deaths: int = 0
    patient: bool = False
    """Whether its stage may go on before each of its items has come to an end."""
    reruns: int = 0
    """How often steps of its job had been run again: what was kept of them before is not what it works on."""
    elapsed_before: float = 0.0
    """Seconds from the item's first start to this one, by the database's clock."""
    reserved_tokens: float = 0.0
    reserved_cost: Decimal = Decimal(0)
    """What its limit was charged when it was claimed; made good when it is done."""
    usage: Usage = field(default_factory=Usage, repr=False, compare=False)
    """What its attempt uses: for the `Ctx` of whatever handlers of a workflow it calls."""

    @property
    def token(self) -> tuple[int, int]:
        """Which claim of which item: the same process may come to hold an item a second time."""
        return self.item_id, self.claim_no


@dataclass(frozen=True, slots=True)
class Done:
    """The machine item has nothing left to do, ever."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until `ring` or, if given, until `at`."""

    at: datetime | None = None
