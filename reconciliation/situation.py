"""Everything that decides what may be done about a case, read at one moment.

The screen reads it to say what is allowed; the actions read it again under their locks and decide by it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from access.directory import Member
from access.roles import Role
from access.switches import switches_of
from approvals import canonical, document
from approvals.blocking import block_of, said_of
from approvals.facts import current_rules
from approvals.limits import limits_for, over_limit
from approvals.models import Proposal
from approvals.rules import amounts_of
from dispatch.classification import Outcome
from dispatch.comparison import Difference
from dispatch.contracts import Contract
from dispatch.locks import database_clock
from dispatch.models import Observation, Operation, ReceiverContract, Submission
from dispatch.outcomes import quiet_from, safe_until
from dispatch.permits import what_stops_the_organisation
from dispatch.states import OperationState
from reconciliation import reopening
from reconciliation.casework import storable
from reconciliation.kinds import VerbName, terms_of
from reconciliation.models import Case, CaseKind, Evidence, EvidenceKind, ResolutionRequest
from reconciliation.reversing import NOTHING, Compensable, compensable
from reconciliation.reviewing import operations_of
from statements.matching import parts
from statements.queries import Covered, covered
from workflows import known, rerunning
from workflows.migrating.planning import targets_of, why_not
from workflows.models import HeldFor, Job, Worker, WorkItem
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES


@dataclass(frozen=True, slots=True)
class Doubt:
    """The operation of a case with all that was sent, seen and promised about it."""

    operation: Operation
    proposal: Proposal
    frozen: dict[str, Any]
    """The operation as the signed document has it; empty where the document cannot be read."""

    contract: Contract
    contract_version: int
    in_force: Contract
    submissions: tuple[Submission, ...]
    observations: tuple[Observation, ...]
    safe_until: datetime | None
    sender_lives: bool
    hard_policy: str
    """Why nothing may be sent for its recipient or its organisation, or ""."""

    above_limit: bool
    """Whether its policy, frozen or in force, lets nobody sign this alone: by a limit on the amount, or a quorum."""

    @property
    def amount(self) -> Decimal | None:
        text = self.frozen.get("amount")
        return Decimal(text) if text else None

    @property
    def currency(self) -> str:
        return str(self.frozen.get("currency") or "")

    @property
    def settled_not_applied(self) -> bool:
        return bool(self.operation.state == OperationState.NOT_APPLIED)

    @property
    def in_flight(self) -> bool:
        return any(s.closed_at is None for s in self.submissions)

    @property
    def may_arrive_until(self) -> datetime | None:
        """Until when a send that has left could still be worked on, by the slower of the two contracts."""
        sent = [s for s in self.submissions if s.may_have_been_sent_at or s.closed_at is None]
        end = quiet_from(self.operation, sent)
        longest = max(self.contract.in_flight_max, self.in_force.in_flight_max)
        return end + timedelta(seconds=longest) if end is not None else None

    @property
    def absence_counts_from(self) -> datetime | None:
        """From when a look-up that finds nothing proves it, by the stricter of the two contracts; None: never."""
        end = quiet_from(self.operation, self.submissions)
        if end is None:
            return None
        both = [c.absence_counts_from(end) for c in (self.contract, self.in_force)]
        return None if None in both else max(at for at in both if at is not None)

    @property
    def same_bytes(self) -> bool:
        """Whether the frozen bytes are still those that were signed, and those that were sent before."""
        digest = hashlib.sha256(bytes(self.operation.proposed.body)).hexdigest()
        sent = {s.body_digest for s in self.submissions if s.may_have_been_sent_at}
        return digest == self.operation.proposed.body_digest and sent <= {digest}

    @property
    def has_window(self) -> bool:
        return self.contract.has_window and self.in_force.has_window

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What the receiver says it did otherwise than was approved, by its latest word that names it."""
        told = (_told(o) for o in reversed(self.observations) if o.finding == "differs")
        return next((found for found in told if found), ())

    @property
    def difference(self) -> str:
        """The same in words, as it is kept with whoever lets it stand; with the receiver's last word where that names no field."""
        told = [
            f"{d.field}: {d.approved} was approved, {d.told or 'nothing'} was done" for d in self.differences
        ]
        last = next((o for o in reversed(self.observations) if o.finding == "differs"), None)
        if last is not None and not _told(last):
            told.append(last.summary)
        # As a form brings it back: on one line, and without what no row can hold.
        return storable(" ".join("; ".join(told).split()))[:2000]

    def last_lookup(self) -> Observation | None:
        return next((o for o in reversed(self.observations) if o.kind == "lookup"), None)


@dataclass(frozen=True, slots=True)
class Situation:
    """A case, its job and, where it is about one, its operation or its step. `clock` is the database's."""

    case: Case
    job: Job
    doubt: Doubt | None
    item: WorkItem | None
    request: ResolutionRequest | None
    statements: tuple[Evidence, ...]
    unsent: tuple[Operation, ...]
    """What is prepared and never left, of the job's latest proposal."""

    without_revision: bool
    """Whether the job is held for a revision that no worker has."""

    why_not_migrate: str
    """Why it cannot be taken to another revision, in a sentence, or nothing. Of a missing revision's case only."""

    why_not_run_again: str
    """Why none of its steps can be run again, in a sentence, or nothing. Of the kinds that ask about a draft only."""

    why_not_reopen: str
    """Why its operation cannot become unknown again, in a sentence, or nothing. Of what was resolved or contradicted only."""

    compensable: Compensable
    """What can be taken back of its job, and why not. Of the kinds that ask about an effect only."""

    in_part: str
    """What of its operation lines are parts of, and what is left, in a sentence, or nothing. Likewise."""

    covered: tuple[Covered, ...] | None
    """What the receiver's applied statements cover; None without any. Of the kinds that a line could answer only."""

    unreachable: bool
    """Whether one of those waits behind an operation that stopped, so that it could never be its turn."""

    clock: datetime

    @property
    def item_is_stuck(self) -> bool:
        return self.item is not None and self.item.state_name in STUCK_ITEM_STATES

    @property
    def item_is_open(self) -> bool:
        return self.item is not None and self.item.state_name in OPEN_ITEM_STATES


def look_at(*, job: Job, case: Case, operation: Operation | None = None) -> Situation:
    """Read the situation of a case. Pass the locked operation where there is one; its bytes are read again."""
    if operation is None and case.operation_id is not None:
        operation = Operation.objects.select_related("receiver", "contract", "proposed").get(
            pk=case.operation_id
        )
    item = None
    if case.item_id is not None:
        item = WorkItem.objects.select_related("stage").get(pk=case.item_id)
    request = ResolutionRequest.objects.filter(case=case, closed_at__isnull=True).select_related("asked_by")
    statements = Evidence.objects.filter(
        case=case, kind__in=[EvidenceKind.STATEMENT.value, EvidenceKind.RECEIPT.value]
    )
    siblings = operations_of(job)
    return Situation(
        case=case,
        job=job,
        doubt=_doubt(operation) if operation is not None else None,
        item=item,
        request=request.first(),
        statements=tuple(statements.order_by("pk")),
        unsent=tuple(o for o in siblings if o.state == OperationState.PREPARED),
        without_revision=job.held_for == HeldFor.REVISION and not known.has_worker(job),
        why_not_migrate=_why_not_migrate(job) if case.kind == CaseKind.REVISION_MISSING else "",
        why_not_run_again=rerunning.why_not(job) if VerbName.RUN_AGAIN in terms_of(case.kind).verbs else "",
        why_not_reopen=_why_not_reopen(job, case, operation),
        compensable=_compensable(job, case, siblings, operation),
        in_part=_in_part(case, operation),
        covered=_covered(case, operation),
        unreachable=_unreachable(siblings),
        clock=database_clock(),
    )


def _why_not_reopen(job: Job, case: Case, operation: Operation | None) -> str:
    if case.resolved_at is None and VerbName.REOPEN not in terms_of(case.kind).verbs:
        return ""
    return reopening.why_not(job, operation)


def _compensable(job: Job, case: Case, siblings: list[Operation], operation: Operation | None) -> Compensable:
    if case.resolved_at is not None or VerbName.COMPENSATE not in terms_of(case.kind).verbs:
        return NOTHING
    return compensable(job, siblings, operation)


def _in_part(case: Case, operation: Operation | None) -> str:
    if operation is None or VerbName.MATCH_LINE not in terms_of(case.kind).verbs:
        return ""
    return parts.said(operation)


def _covered(case: Case, operation: Operation | None) -> tuple[Covered, ...] | None:
    if operation is None or VerbName.MATCH_LINE not in terms_of(case.kind).verbs:
        return None
    found = covered(operation.receiver_id)
    return None if found is None else tuple(found)


def _why_not_migrate(job: Job) -> str:
    targets = targets_of(job)
    if not targets:
        return f"No revision that is loaded here says how jobs of revision {job.revision} go on under it."
    return why_not(job, targets[0])


def _unreachable(operations: list[Operation]) -> bool:
    going = (OperationState.CONFIRMED, OperationState.PREPARED, OperationState.SUBMITTED)
    stopped = [o.ordinal for o in operations if o.state not in going]
    waiting = [o for o in operations if o.state == OperationState.PREPARED and not o.proposed.independent]
    return bool(stopped) and any(o.ordinal > min(stopped) for o in waiting)


def _doubt(operation: Operation) -> Doubt:
    proposal = Proposal.objects.select_related("policy", "job").get(pk=operation.proposed.proposal_id)
    submissions = tuple(Submission.objects.filter(operation=operation).order_by("number"))
    contract = Contract.of(operation.contract.terms)
    latest = ReceiverContract.objects.filter(receiver=operation.receiver_id).order_by("-version").first()
    first = operation.first_may_have_been_sent_at or _first_mark(submissions)
    return Doubt(
        operation=operation,
        proposal=proposal,
        frozen=frozen_operation(proposal, operation.ordinal),
        contract=contract,
        contract_version=operation.contract.version,
        in_force=Contract.of(latest.terms) if latest is not None else contract,
        submissions=submissions,
        observations=tuple(Observation.objects.filter(operation=operation).order_by("seen_at", "pk")),
        safe_until=safe_until(operation, first) if first is not None else None,
        sender_lives=any(may_still_send(s) for s in submissions),
        hard_policy=_hard_policy(proposal),
        above_limit=_above_limit(proposal),
    )


def _told(seen: Observation) -> tuple[Difference, ...]:
    """Its differences, field by field; nothing where it keeps something else."""
    try:
        rows = json.loads(seen.detail) if seen.detail else []
        return tuple(Difference(**row) for row in rows)
    except (ValueError, TypeError):
        return ()


def _above_limit(proposal: Proposal) -> bool:
    name, anybody = proposal.policy.name, Member(0, "", frozenset(), frozenset(), away=False)
    for rules in (proposal.policy.ruleset, current_rules({name})[name]):
        if rules.quorum > 1:
            return True
        limits = limits_for(anybody, proposal.job.workflow, rules)
        if over_limit(amounts_of(proposal), limits, rules.rates) is not None:
            return True
    return False


def _hard_policy(proposal: Proposal) -> str:
    if stops := what_stops_the_organisation(proposal.tenant_id, switches_of(proposal.tenant_id)):
        return stops
    block = block_of(proposal.recipient)
    return "" if block is None else said_of(block)


def frozen_operation(proposal: Proposal, ordinal: int) -> dict[str, Any]:
    """One operation of the signed document; empty where the document is not what was signed."""
    if canonical.sha256(proposal.document) != proposal.digest:
        return {}
    try:
        operations = document.read(proposal.document)["operations"]
    except canonical.NotCanonical:
        return {}
    found: dict[str, Any] = next((o for o in operations if o["ordinal"] == ordinal), {})
    return found


def _first_mark(submissions: tuple[Submission, ...]) -> datetime | None:
    return min((s.may_have_been_sent_at for s in submissions if s.may_have_been_sent_at), default=None)


def may_still_send(submission: Submission) -> bool:
    """Marked, given up on without the sender's own word, and the sender's session still lives."""
    if submission.may_have_been_sent_at is None:
        return False
    spoke_for_itself = submission.closed_at is not None and (
        submission.status is not None or not submission.fault.startswith(f"{submission.worker_name} stopped")
    )
    if spoke_for_itself or submission.outcome not in ("", Outcome.UNKNOWN):
        return False
    return Worker.objects.filter(
        pk=submission.worker_id, ended_at__isnull=True, lease_until__gt=database_clock()
    ).exists()


WHO_MAY = (Role.OPERATOR,)
"""Who asks for a resolution. Anybody of SECONDERS but the asker may second it."""

SECONDERS = (Role.OPERATOR, Role.ADMIN)
