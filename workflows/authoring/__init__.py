"""The public API for people who write workflows."""

from workflows.authoring.asking import Completion, Prompt, Provider
from workflows.authoring.context import Ctx
from workflows.authoring.drafts import FieldChange, OperationDraft, ProposalDraft, SourceRecord
from workflows.authoring.errors import Invalid, Permanent, Problem, Retryable
from workflows.authoring.files import Accepts, File, FileDigest, FileKind, NoSuchFile
from workflows.authoring.migrations import Migration
from workflows.authoring.policies import BadDefinition, Needs, Retry
from workflows.authoring.reversals import Applied
from workflows.authoring.usage import Usage
from workflows.authoring.values import Amount, Currency
from workflows.authoring.waits import Event, Question, Sleep, Woken
from workflows.authoring.workflow import Workflow

__all__ = [
    "Accepts",
    "Amount",
    "Applied",
    "BadDefinition",
    "Completion",
    "Ctx",
    "Currency",
    "Event",
    "FieldChange",
    "File",
    "FileDigest",
    "FileKind",
    "Invalid",
    "Migration",
    "Needs",
    "NoSuchFile",
    "OperationDraft",
    "Permanent",
    "Problem",
    "Prompt",
    "ProposalDraft",
    "Provider",
    "Question",
    "Retry",
    "Retryable",
    "Sleep",
    "SourceRecord",
    "Usage",
    "Woken",
    "Workflow",
]
