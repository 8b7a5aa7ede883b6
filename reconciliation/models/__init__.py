"""What needs a person: cases, what is known about them, how they were resolved, and one verb for many."""

from reconciliation.models.bulk import Bulk, BulkEntry, BulkState, EntryState
from reconciliation.models.cases import (
    Case,
    CaseKind,
    Evidence,
    EvidenceFile,
    EvidenceKind,
    ResolutionRequest,
)
from reconciliation.models.due_times import DueTime
from reconciliation.models.incidents import Incident
from reconciliation.models.saved_views import SavedView

__all__ = [
    "Bulk",
    "BulkEntry",
    "BulkState",
    "Case",
    "CaseKind",
    "DueTime",
    "EntryState",
    "Evidence",
    "EvidenceFile",
    "EvidenceKind",
    "Incident",
    "ResolutionRequest",
    "SavedView",
]
