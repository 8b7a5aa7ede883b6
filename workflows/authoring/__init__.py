"""The public API for people who write workflows."""

from workflows.authoring.context import Ctx, Usage
from workflows.authoring.drafts import FieldChange, OperationDraft, ProposalDraft, SourceRecord
from workflows.authoring.errors import Invalid, Permanent, Problem, Retryable
from workflows.authoring.values import Amount, Currency
from workflows.authoring.workflow import BadDefinition, Retry, Workflow

__all__ = [
    "Amount",
    "BadDefinition",
    "Ctx",
    "Currency",
    "FieldChange",
    "Invalid",
    "OperationDraft",
    "Permanent",
    "Problem",
    "ProposalDraft",
    "Retry",
    "Retryable",
    "SourceRecord",
    "Usage",
    "Workflow",
]
