"""What was looked at before each send of a job, and found: of sends that were made, and of those that a check stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dispatch.queries import OperationView
from workflows.models import Job, JournalEntry

MOST = 50
"""So many of those that were stopped are shown; the journal has all."""


@dataclass(frozen=True, slots=True)
class Look:
    """The checks before one send of one operation, each with name, ok and sentence."""

    label: str
    at: datetime
    again: bool
    checks: Sequence[Mapping[str, Any]]

    @property
    def failed(self) -> list[str]:
        return [str(check["name"]) for check in self.checks if not check["ok"]]

    @property
    def turned_down(self) -> bool:
        """Whether a check failed, so that nothing was sent."""
        return bool(self.failed)


def looks_at(job: Job, views: Sequence[OperationView]) -> list[Look]:
    """The looks at these operations, newest first. One query."""
    found = [
        Look(view.operation.label, sent.opened_at, sent.resubmission, json.loads(sent.checks))
        for view in views
        for sent in view.submissions
    ]
    found += _turned_down(job, {view.operation.pk: view for view in views})
    return sorted(found, key=lambda look: look.at, reverse=True)


def _turned_down(job: Job, views: Mapping[int, OperationView]) -> list[Look]:
    stopped = JournalEntry.objects.filter(job=job, event="send.check_failed").order_by("-sequence")
    told = [(json.loads(entry.evidence), entry.at) for entry in stopped[:MOST]]
    return [
        Look(view.operation.label, at, bool(view.submissions), evidence["checks"])
        for evidence, at in told
        if "checks" in evidence and (view := views.get(evidence["operation_id"])) is not None
    ]
