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
    """A record that the proposal was made from, with the version that was read.

    `read_at`: when, as an ISO 8601 time with its offset, where it is worth saying.
    """

    name: Line
    version: str
    read_at: str = ""


class FieldChange(_Frozen):
    """One field that will be sent: what it is now, what it becomes, and where that comes from.

    `field` as the receiver names it, `label` as people do; `current` is None where nothing stands there yet. `by_model`:
    a model wrote the value, which is said on the slip.
    """

    field: Line
    label: Line
    current: str | None = None
    proposed: str
    source: str = ""
    source_version: str = ""
    by_model: bool = False


class OperationDraft(_Frozen):
    """One intended external effect at one receiver.

    `receiver` is its name here, `action` one of its contract's, `record` what is changed there; of two operations on one
    record at one receiver one is in flight at a time. `record_version`: the version that was read, sent where the
    contract has the action change one version only. `body`: the JSON object that is sent; amounts in it are text, since
    floats are refused at freezing. `amount` counts against limits and sums, in `currency`. `independent`: it does not
    wait for the operation before it to be confirmed.
    """

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
    """The whole intent: the operations in order (hardest to reverse last) and what an approver should know.

    `model_text` is what a model wrote, by `model_route`, shown as unchecked. `amount` is what limits are held against
    beside the sum of the operations', called `amount_label` on the slip. `recipient` is held against the block list.
    """

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
