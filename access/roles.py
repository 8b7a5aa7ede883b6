"""The roles a person can hold in a tenant, and the actor that an action is done by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a person may do in one tenant; one person can hold several."""

    SUBMITTER = "submitter"  # starts jobs, withdraws and cancels own ones before they are approved
    MANAGER = "manager"  # decides proposals
    OPERATOR = "operator"  # works on cases: retries, reconciles, holds
    ADMIN = "admin"  # cancels and holds jobs, pauses receivers, manages people
    AUDITOR = "auditor"  # reads everything, changes nothing

    @property
    def label(self) -> str:
        return self.value.capitalize()


class ActorKind(StrEnum):
    """Who did it, as the journal writes it: a role, the machine, or a system outside. A source moves no state."""

    WORKER = "worker"
    RECEIVER = "receiver"
    SOURCE = "source"
    SUBMITTER = "submitter"
    MANAGER = "manager"
    OPERATOR = "operator"
    ADMIN = "admin"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does an action: passed in explicitly, never ambient. `person_id` is 0 for the machine's own actors."""

    kind: ActorKind
    name: str
    person_id: int = 0

    @property
    def is_person(self) -> bool:
        return self.person_id != 0


WORKER = Actor(kind=ActorKind.WORKER, name="worker")
"""The engine and its schedules, where no process has to be named."""
