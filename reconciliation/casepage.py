"""Everything that the screen of one case says, read at one moment and put into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from access import authority
from access.models import Person
from access.roles import Role
from dispatch.comparison import Difference
from dispatch.explaining import Term, explain
from dispatch.fates import FateOf, fates
from dispatch.models import Operation
from dispatch.states import OperationState as S
from reconciliation import knowing, verbs
from reconciliation.kinds import VerbName, terms_of
from reconciliation.knowing import Known
from reconciliation.locks import NoSuchCase
from reconciliation.models import Case, Evidence, EvidenceFile, EvidenceKind, ResolutionRequest
from reconciliation.owners import at_work
from reconciliation.papers import LOOKS, PaperKind
from reconciliation.situation import SECONDERS, WHO_MAY, Doubt, Situation, look_at
from reconciliation.verbs import Verb
from reconciliation.words import state_words
from workflows.models import Job
from workflows.states import BEFORE_SENDING, ENDED


@dataclass(frozen=True, slots=True)
class EvidenceFileRow:
    """The document of a piece of evidence. `hidden`: something in it looked like a secret and is not kept."""

    evidence_id: int
    name: str
    kind: str
    size: int
    given_digest: str
    hidden: bool


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One line of the evidence: what the machine saw, what was sent, what a person put to the case."""

    number: int
    what: str
    detail: str
    source: str
    taken_at: datetime
    proves: str
    """ "nothing", or what it shows."""

    by: str = ""
    kept_at: datetime | None = None
    """Who put it to the case, and when; of what the machine saw, nothing."""

    file: EvidenceFileRow | None = None


@dataclass(frozen=True, slots=True)
class CommentRow:
    """What somebody said."""

    by: str
    at: datetime
    body: str


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A resolution that waits for a second person. `may_answer`: this viewer may second or decline it."""

    request_id: int
    verb: str
    title: str
    reason: str
    details: dict[str, str]
    asked_by: str
    asked_at: datetime
    may_answer: bool
    why_not: str
    may_withdraw: bool


@dataclass(frozen=True, slots=True)
class CasePage:
    """The case screen, top to bottom. Times are UTC; the screen puts them into the tenant's zone."""

    case_id: int
    label: str
    version: int
    kind: str
    title: str
    state_words: str
    resolved: bool
    resolution: str
    resolution_reason: str
    resolved_at: datetime | None
    resolved_by: str
    second_person: str

    amount: Decimal | None
    currency: str
    known: Sequence[Known]
    unknown: Sequence[str]
    residual_risk: str

    verbs: Sequence[Verb]
    may_work: bool
    outcomes: Sequence[str]
    """What "record outcome" may record; empty for kinds without it."""

    owner_role: str
    assignee: str
    assignee_id: int | None
    assignee_left: bool
    """Whether they do not work on cases any more: it is nobody's again."""

    assignable: Sequence[Person]
    opened_at: datetime
    due_at: datetime
    overdue: bool
    snoozed_until: datetime | None
    resubmit_safe_until: datetime | None
    blocking: bool

    job_id: int | None
    """None where it asks about the lines of a statement."""
    job_label: str
    job_title: str
    job_state: str
    statement_id: int | None
    statement_label: str
    operation_id: int | None
    applied_id: int | None
    """The operation that "compensate" would take back, if there is one."""
    message_id: int | None
    operation_label: str
    operation_key: str
    operation_state: str
    item_id: int | None
    proposal_id: int | None
    proposal_label: str
    receiver: str
    incident_id: int | None
    """The storm that it belongs to."""

    contract_version: int | None
    terms: Sequence[Term]
    evidence: Sequence[EvidenceRow]
    comments: Sequence[CommentRow]
    request: PendingRequest | None
    differences: Sequence[Difference]
    difference: str
    """The same in words, by which a form says which difference was seen."""

    """What was done otherwise than was approved, while that is the question."""
    fates_if_cancelled: Sequence[FateOf]


def case_page(case_id: int, person_id: int, *, now: datetime) -> CasePage:
    """One case as this person sees it. Needs the tenant's scope; the verbs are decided by the database's clock.

    Raises NoSuchCase.
    """
    names = ("job", "statement__receiver", "assignee", "resolved_by", "second_person")
    case = Case.objects.select_related(*names).filter(pk=case_id).first()
    if case is None:
        raise NoSuchCase(f"There is no case {case_id} here.")
    held = authority.roles_of(person_id)
    situation = look_at(job=case.job, case=case) if case.job is not None else None
    doubt = situation.doubt if situation else None
    operation = doubt.operation if doubt else None
    return CasePage(
        case_id=case.pk,
        label=case.label,
        version=case.version,
        kind=case.kind,
        title=case.title,
        state_words=state_words(case.kind),
        resolved=case.resolved_at is not None,
        resolution=case.resolution,
        resolution_reason=case.resolution_reason,
        resolved_at=case.resolved_at,
        resolved_by=_name(case.resolved_by) or ("the machine" if case.resolved_at else ""),
        second_person=_name(case.second_person),
        amount=doubt.amount if doubt else None,
        currency=doubt.currency if doubt else "",
        known=knowing.known(situation) if situation else [knowing.opened(case)],
        unknown=knowing.unknown(situation) if situation else knowing.unknown_of_lines(case),
        residual_risk=knowing.residual_risk(situation) if situation else knowing.risk_of_lines(case),
        verbs=_verbs(situation, held, person_id) if situation else [],
        may_work=case.resolved_at is None and bool(held & set(SECONDERS)),
        outcomes=terms_of(case.kind).outcomes,
        owner_role=case.owner_role,
        assignee=_name(case.assignee),
        assignee_id=case.assignee_id,
        assignee_left=case.assignee_id is not None and case.assignee_id not in at_work(),
        assignable=_assignable(case),
        opened_at=case.opened_at,
        due_at=case.due_at,
        overdue=case.resolved_at is None and case.due_at <= now,
        snoozed_until=case.snoozed_until,
        resubmit_safe_until=doubt.safe_until if doubt else None,
        blocking=case.blocking,
        job_id=case.job_id,
        job_label=case.job.label if case.job else "",
        job_title=case.job.title if case.job else "",
        job_state=case.job.state if case.job else "",
        statement_id=case.statement_id,
        statement_label=case.statement.label if case.statement else "",
        operation_id=operation.pk if operation else None,
        applied_id=situation.compensable.operation_id if situation else None,
        message_id=case.message_id,
        operation_label=operation.label if operation else "",
        operation_key=operation.operation_key if operation else "",
        operation_state=operation.state if operation else "",
        item_id=case.item_id,
        proposal_id=doubt.proposal.pk if doubt else None,
        proposal_label=doubt.proposal.label if doubt else "",
        receiver=_receiver(case, operation),
        incident_id=case.incident_id,
        contract_version=doubt.contract_version if doubt else None,
        terms=explain(doubt.contract) if doubt else [],
        evidence=_evidence(case, doubt),
        comments=_comments(case),
        request=_pending(case, situation, person_id, held),
        differences=doubt.differences if doubt and doubt.operation.state == S.CONFLICTED else (),
        difference=doubt.difference if doubt and doubt.operation.state == S.CONFLICTED else "",
        fates_if_cancelled=_fates(case.job) if case.job else [],
    )


def _receiver(case: Case, operation: Operation | None) -> str:
    if case.statement is not None:
        return str(case.statement.receiver.title)
    return operation.receiver.title if operation else ""


def _verbs(situation: Situation, held: frozenset[Role], person_id: int) -> list[Verb]:
    return [_for_viewer(v, situation, held, person_id) for v in verbs.verbs_of(situation)]


def _for_viewer(verb: Verb, situation: Situation, held: frozenset[Role], person_id: int) -> Verb:
    """The same verb, closed to whom it is not open to."""
    may, job = set(WHO_MAY), situation.job
    if verb.name is VerbName.RECORD_OUTCOME:
        may = set(SECONDERS)
    if verb.name is VerbName.RUN_AGAIN and job.submitted_by_id == person_id:
        may |= {Role.SUBMITTER}
    if verb.name is VerbName.CANCEL:
        own = job.submitted_by_id == person_id and job.state in BEFORE_SENDING[:-1]
        may = {Role.ADMIN, *([Role.SUBMITTER] if own else [])}
    if held & may or (verb.name is VerbName.REPROPOSE and Role.SUBMITTER in held):
        return verb
    if not verb.allowed:
        return verb
    return replace(verb, allowed=False, why_not=authority.who_may(*sorted(may)))


def _evidence(case: Case, doubt: Doubt | None) -> list[EvidenceRow]:
    """Newest first; the numbers are given oldest first and stay as they are."""
    rows: list[EvidenceRow] = []
    if doubt is not None:
        seen = [knowing.submission_row(s) for s in doubt.submissions]
        seen += [knowing.observation_row(o) for o in doubt.observations]
        rows += [
            EvidenceRow(0, what, detail, source, at, proves) for at, what, detail, source, proves in seen
        ]
    own = Evidence.objects.filter(case=case).exclude(kind=EvidenceKind.COMMENT)
    own = own.select_related("person", "file").defer("file__content")
    rows += [_own_evidence(e) for e in own.order_by("pk")]
    rows.sort(key=lambda row: row.taken_at)
    return [replace(row, number=n) for n, row in enumerate(rows, start=1)][::-1]


def _own_evidence(e: Evidence) -> EvidenceRow:
    return EvidenceRow(
        number=0,
        what=e.summary,
        detail=e.detail if e.detail != e.summary else "",
        source=e.source,
        taken_at=e.taken_at,
        proves=e.proves,
        by=_name(e.person),
        kept_at=e.kept_at,
        file=None if e.file is None else _file(e, e.file),
    )


def _file(e: Evidence, file: EvidenceFile) -> EvidenceFileRow:
    words = LOOKS[PaperKind(file.kind)].words
    hidden = file.digest != e.given_digest
    return EvidenceFileRow(e.pk, e.file_name, words, file.size, e.given_digest, hidden)


def _comments(case: Case) -> list[CommentRow]:
    rows = Evidence.objects.filter(case=case, kind=EvidenceKind.COMMENT).select_related("person")
    return [CommentRow(_name(e.person) or e.source, e.taken_at, e.detail) for e in rows.order_by("pk")]


def _pending(
    case: Case, situation: Situation | None, person_id: int, held: frozenset[Role]
) -> PendingRequest | None:
    asked = ResolutionRequest.objects.filter(case=case, closed_at__isnull=True).select_related("asked_by")
    request = situation.request if situation else asked.first()
    if request is None:
        return None
    may = verbs.seconders(VerbName(request.verb), situation) if situation else SECONDERS
    own = request.asked_by_id == person_id
    why_not = "You have asked for this yourself; somebody else has to answer." if own else ""
    if not own and not held & set(may):
        why_not = authority.who_may(*may)
    return PendingRequest(
        request_id=request.pk,
        verb=request.verb,
        title=verbs.RULES[VerbName(request.verb)].title if situation else "Set lines aside",
        reason=request.reason,
        details=dict(request.details),
        asked_by=request.asked_by.username,
        asked_at=request.asked_at,
        may_answer=not why_not,
        why_not=why_not,
        may_withdraw=own,
    )


def _assignable(case: Case) -> list[Person]:
    people = {p.pk: p for role in (Role(case.owner_role), *SECONDERS) for p in authority.people_with(role)}
    return sorted(people.values(), key=lambda p: p.username)


def _fates(job: Job) -> list[FateOf]:
    return [] if job.state in ENDED else fates(job)


def _name(person: Person | None) -> str:
    return person.username if person is not None else ""
