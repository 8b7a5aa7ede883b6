"""From a draft to a decision: what an installation freezes, and what follows from each verdict."""

from __future__ import annotations

from approvals.canonical import NotCanonical
from approvals.drafts import NotFrozen, read_draft
from approvals.rendering import CannotRender
from counterfoil.testing.memory import KitFailure, Memory, Proposed
from counterfoil.testing.operations import Operation
from dispatch.connectors.registry import connector
from dispatch.requests import Place
from workflows.authoring import ProposalDraft
from workflows.kinds import StageKind
from workflows.states import ENDED, ItemState, JobState


class Proposing:
    """Freezes drafts and takes decisions."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        memory.on_state.append(self._void_open)

    def freeze(self, text: str) -> None:
        """Freeze a saved draft; one that cannot be frozen leaves the job VALIDATED, with the reason in the journal."""
        memory = self._memory
        try:
            draft = read_draft(text)
            operations = [self._operation(ordinal, draft) for ordinal in range(1, len(draft.operations) + 1)]
        except (NotFrozen, NotCanonical, CannotRender) as refused:
            memory.record("proposal.refused", why=str(refused))
            return
        number = len(memory.proposals) + 1
        proposal = Proposed(number, draft, operations, memory.now + memory.policy.expires_after)
        memory.proposals.append(proposal)
        memory.move(
            JobState.PROPOSED, "proposal.frozen", number=number, operations=[o.key for o in operations]
        )
        if memory.policy.waives_approval:
            proposal.approved_at = memory.now
            memory.move(JobState.READY_TO_COMMIT, "approval.waived", number=number)
        else:
            memory.move(
                JobState.AWAITING_APPROVAL, "approval.asked", number=number, quorum=memory.policy.quorum
            )

    def approve(self, by: str) -> None:
        """One person's approval; the quorum's last one makes the job ready to be sent."""
        proposal, memory = self._open(), self._memory
        by = by or f"manager-{len(proposal.approvals) + 1}"
        if by in proposal.approvals:
            raise KitFailure(f"{by} has approved this already; a quorum is made of different people.")
        proposal.approvals.append(by)
        told = {"number": proposal.number, "by": by, "approvals": len(proposal.approvals)}
        if len(proposal.approvals) < memory.policy.quorum:
            memory.record("decision.recorded", **told)
            return
        proposal.approved_at = memory.now
        memory.move(JobState.READY_TO_COMMIT, "proposal.approved", actor="manager", **told)

    def reject(self, reason: str) -> None:
        """A manager says no: the job ends."""
        proposal = self._open()
        proposal.closing = "rejected"
        self._memory.move(
            JobState.CANCELLED, "proposal.rejected", actor="manager", number=proposal.number, reason=reason
        )

    def ask_for_changes(self, reason: str) -> None:
        """A manager sends it back: the job waits until somebody proposes again."""
        proposal = self._open()
        proposal.closing = "changes requested"
        self._memory.move(
            JobState.VALIDATED, "changes.requested", actor="manager", number=proposal.number, reason=reason
        )

    def propose_again(self) -> None:
        """Freeze the saved draft anew, with new keys and a new number. No step runs again."""
        memory = self._memory
        if memory.state != JobState.VALIDATED or not self.saved_draft():
            raise KitFailure(f"The job is {memory.state or 'new'}; there is nothing to propose again.")
        memory.record("proposal.again_asked", earlier=len(memory.proposals))
        self.freeze(self.saved_draft())

    def saved_draft(self) -> str:
        """What `propose` returned, as it is stored; empty before it did."""
        stages = [s for s in self._memory.stages if s.kind is StageKind.PROPOSE]
        return next((i.output or "" for s in stages for i in s.items if i.state is ItemState.SUCCEEDED), "")

    def expire(self) -> None:
        """What the passing of time does to a proposal that waits."""
        memory, proposal = self._memory, self._memory.proposal
        if memory.state != JobState.AWAITING_APPROVAL or proposal is None or memory.now < proposal.expires_at:
            return
        proposal.closing = "expired"
        memory.move(JobState.VALIDATED, "proposal.expired", number=proposal.number)

    def _void_open(self, state: JobState) -> None:
        proposal = self._memory.proposal
        if state in ENDED and proposal is not None and not proposal.closing:
            proposal.closing = "voided"
            self._memory.record("proposal.cancelled", number=proposal.number)

    def _open(self) -> Proposed:
        proposal = self._memory.proposal
        if self._memory.state != JobState.AWAITING_APPROVAL or proposal is None:
            raise KitFailure(f"The job is {self._memory.state}, so nothing awaits a decision.")
        return proposal

    def _operation(self, ordinal: int, draft: ProposalDraft) -> Operation:
        one = draft.operations[ordinal - 1]
        receiver = self._memory.receivers.get(one.receiver)
        if receiver is None:
            raise CannotRender(f'There is no receiver "{one.receiver}" here.')
        place = Place(receiver.name, receiver.base_url)
        render = connector(receiver.contract.connector).render
        return Operation(ordinal, one, render(one, receiver.contract, place, None), receiver)
