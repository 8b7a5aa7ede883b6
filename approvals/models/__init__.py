"""PROPOSED … READY_TO_COMMIT: what is proposed, under which policy, and who decided what.

A proposal and its operations are immutable from birth; what happens to a proposal is its closing, written once.
"""

from approvals.models.blocks import RecipientBlock
from approvals.models.decisions import Decision, DecisionVoid, Refusal, Verdict
from approvals.models.policies import Policy, read_rules
from approvals.models.proposals import Closing, Proposal, ProposedOperation
from approvals.models.selections import Chosen, ChosenState, Selection
from approvals.models.standing import Escalated, Reservation
from approvals.models.timing import LookAgain, Moment, MomentKind, Reminded

__all__ = [
    "Chosen",
    "ChosenState",
    "Closing",
    "Decision",
    "DecisionVoid",
    "Escalated",
    "LookAgain",
    "Moment",
    "MomentKind",
    "Policy",
    "Proposal",
    "ProposedOperation",
    "RecipientBlock",
    "Refusal",
    "Reminded",
    "Reservation",
    "Selection",
    "Verdict",
    "read_rules",
]
