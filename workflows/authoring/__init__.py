"""The public API for people who write workflows."""

from workflows.authoring.context import Ctx, Usage
from workflows.authoring.drafts import FieldChange, OperationDraft, ProposalDraft, SourceRecord
from workflows.authoring.errors import Invalid, Permanent, Problem, Retryable
from workflows.authoring.policies import BadDefinition, Needs, Retry
from workflows.authoring.values import Amount, Currency
from workflows.authoring.waits import Event, Question, Sleep, Woken
from workflows.authoring.workflow import Workflow

__all__ = [
    "Amount",
    "BadDefinition",
    "Ctx",
    "Currency",
    "Event",
    "FieldChange",
    "Invalid",
    "Needs",
    "OperationDraft",
    "Permanent",
    "Problem",
    "ProposalDraft",
    "Question",
    "Retry",
    "Retryable",
    "Sleep",
    "SourceRecord",
    "Usage",
    "Woken",
    "Workflow",
]
