"""What a workflow's `propose` returns: the intent, in full, from which approvals freeze a proposal.

Nothing here may hold a float: amounts are decimal strings, so that the frozen bytes read the same everywhere.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from workflows.authoring.values import Amount, Currency

Line = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceRecord(_Frozen):
    """A record that the proposal was made from, with the version that was read."""

    name: Line
    version: str
    read_at: str = ""


class FieldChange(_Frozen):
    """One field that will be sent: what it is now, what it becomes, and where that comes from."""

    field: Line
    label: Line
    current: str | None = None
    proposed: str
    source: str = ""
    source_version: str = ""
    by_model: bool = False


class OperationDraft(_Frozen):
    """One intended external effect at one receiver."""

    receiver: Line
    action: Line
    record: Line
    record_version: Annotated[str, StringConstraints(max_length=200)] = ""
    title: Line
    changes: tuple[FieldChange, ...] = ()
    body: dict[str, Any]
    amount: Amount | None = None
    currency: Currency | None = None
    independent: bool = False


class ProposalDraft(_Frozen):
    """The whole intent: the operations in order (hardest to reverse last) and what an approver should know."""

    title: Line
    summary: Annotated[str, StringConstraints(max_length=2000)] = ""
    model_text: Annotated[str, StringConstraints(max_length=20_000)] = ""
    model_route: str = ""
    amount: Amount | None = None
    currency: Currency | None = None
    amount_label: str = ""
    recipient: str = ""
    sources: tuple[SourceRecord, ...] = ()
    operations: Annotated[tuple[OperationDraft, ...], Field(min_length=1, max_length=500)]
