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
from reconciliation.models.incidents import Incident

__all__ = [
    "Bulk",
    "BulkEntry",
    "BulkState",
    "Case",
    "CaseKind",
    "EntryState",
    "Evidence",
    "EvidenceFile",
    "EvidenceKind",
    "Incident",
    "ResolutionRequest",
]
