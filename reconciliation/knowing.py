"""What is known about a case, what is not, and what it would cost to be wrong: sentences from the rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from approvals.models import Decision, DecisionVoid, Proposal, Verdict
from dispatch.classification import Outcome
from dispatch.models import Observation, Submission
from dispatch.states import OperationState
from reconciliation import words
from reconciliation.models import Case, CaseKind
from reconciliation.situation import Doubt, Situation
from web.amounts import sign_and_figures
from workflows.models import Attempt

S = OperationState
_OUTCOMES = (CaseKind.UNKNOWN_OUTCOME, CaseKind.CONFIRMATION_OVERDUE)


@dataclass(frozen=True, slots=True)
class Known:
    """One step of the trail: what it was, when, and a sentence."""

    name: str
    at: datetime | None
    sentence: str


def known(situation: Situation) -> list[Known]:
    """The trail, oldest first."""
    if situation.doubt is not None:
        return [*_intended(situation.doubt), *_sent(situation.doubt), *_seen(situation.doubt)]
    if situation.item is not None:
        return _tried(situation)
    return [opened(situation.case)]


def opened(case: Case) -> Known:
    """What it was opened with."""
    return Known("Opened", case.opened_at, case.detail)


def unknown_of_lines(case: Case) -> list[str]:
    """What nobody can say yet of a statement's unclaimed lines."""
    return [] if case.resolved_at is not None else ["What each line is that no operation claims"]


def risk_of_lines(case: Case) -> str:
    """What happens if one of them is set aside wrongly."""
    if case.resolved_at is not None:
        return ""
    return "A line that nobody claims may be a second effect of ours. Once it is set aside, nobody asks about it."


def unknown(situation: Situation) -> list[str]:
    """What nobody can say yet; empty where nothing is in doubt."""
    doubt = situation.doubt
    if doubt is None or situation.case.resolved_at is not None:
        return []
    at, what = doubt.operation.receiver.title, words.doing(doubt.operation)
    if doubt.operation.state == S.UNKNOWN:
        sentences = [f"Whether {at} accepted the request", f"Whether it did {what}"]
        if doubt.amount is not None:
            sentences.append("Whether the money has left the account")
        return sentences
    if doubt.operation.state == S.CONFLICTED:
        return [f"Whether what {at} did can stand"]
    if situation.case.kind == CaseKind.POSSIBLE_DUPLICATE:
        return [f"Whether {at} did {what} once or more often"]
    return []


def residual_risk(situation: Situation) -> str:
    """What happens if whoever answers is wrong, in one sentence; "" where nothing can happen outside."""
    doubt = situation.doubt
    if doubt is None or situation.case.resolved_at is not None:
        return ""
    what = f"“{doubt.operation.proposed.title}”{_money(doubt)}"
    if doubt.operation.state == S.UNKNOWN or (
        doubt.operation.state == S.NOT_APPLIED and situation.case.kind == CaseKind.PARTIAL
    ):
        return _if_sent_again(situation, doubt, what)
    if doubt.operation.state == S.CONFLICTED:
        return f"If this is accepted, {what} stays as {doubt.operation.receiver.title} did it, not as it was approved."
    return ""


def submission_row(s: Submission) -> tuple[datetime, str, str, str, str]:
    """One send as evidence: (taken at, what, detail, source, what it proves)."""
    left = "bytes may have left" if s.may_have_been_sent_at else "no byte left"
    ended = f"{s.outcome}: {s.fault}" if s.closed_at else "still open"
    proves = {"applied": "applied", "refused": "refused", "not sent": "not sent", "conflicted": "differs"}
    what = f"{'Resubmission' if s.resubmission else 'Submission'} {s.number}: {left}, {ended}"
    return (
        s.closed_at or s.opened_at,
        what,
        s.response_body,
        s.worker_name,
        proves.get(s.outcome, "nothing"),
    )


def observation_row(o: Observation) -> tuple[datetime, str, str, str, str]:
    """One observation as evidence."""
    proves = o.finding if o.proves else "nothing"
    detail = _exchanged(o) if o.question_digest else o.detail
    return (o.seen_at, f"{o.kind.capitalize()}: {o.summary}", detail, o.seen_by, proves)


def _exchanged(o: Observation) -> str:
    """What a look-up asked and was answered, as it was kept, with the digests of both."""
    lines = [f"Asked (SHA-256 {o.question_digest}):", o.question, ""]
    if o.digest and o.status is not None:
        lines += [f"Answered {o.status} (SHA-256 of the body {o.digest}):", o.answer_headers, o.answer_body]
    else:
        lines.append("No answer came.")
    return "\n".join([*lines, *(["", "Differences:", o.detail] if o.detail else [])])


def _intended(doubt: Doubt) -> list[Known]:
    proposal = doubt.proposal
    signed = " and ".join(_signers(proposal)) or "the policy"
    digest = f"{proposal.digest[:8]}…{proposal.digest[-4:]}"
    sentence = (
        f"{doubt.operation.proposed.title}. Approved by {signed}, digest {digest}, slip {proposal.label}."
    )
    return [Known("Intended", proposal.approved_at or proposal.frozen_at, sentence)]


def _signers(proposal: Proposal) -> list[str]:
    voided = DecisionVoid.objects.filter(decision__proposal=proposal).values("decision_id")
    given = Decision.objects.filter(proposal=proposal, verdict=Verdict.APPROVE).exclude(pk__in=voided)
    return list(given.order_by("decided_at", "pk").values_list("person_name", flat=True))


def _sent(doubt: Doubt) -> list[Known]:
    found: list[Known] = []
    key, at = doubt.operation.label, doubt.operation.receiver.title
    # Whose content has changed under a key is told by what left each time, and by the answer that says so.
    other_content = any(s.outcome == Outcome.KEY_MISMATCH for s in doubt.submissions)
    for s in doubt.submissions:
        size = len(bytes(doubt.operation.proposed.body))
        if s.may_have_been_sent_at is not None:
            sentence = f"{s.worker_name} began to send {size:,} bytes to {at} as {key}."
            if other_content:
                sentence += f" Sent: SHA-256 {s.sent_digest or s.body_digest}."
            found.append(Known("Dispatched", s.may_have_been_sent_at, sentence))
        if s.closed_at is not None:
            found.append(_ended(s))
    return found


def _ended(s: Submission) -> Known:
    fault = s.fault.rstrip(".")
    if s.may_have_been_sent_at is None:
        return Known("Not sent", s.closed_at, f"No byte left: {fault}.")
    if s.status is None:
        return Known("Answer lost", s.closed_at, f"No status, no receipt, no body: {fault}.")
    receipt = f", receipt {s.receipt_id}" if s.receipt_id else ", no receipt"
    answered = f"{fault[:1].upper()}{fault[1:]}{receipt}."
    if s.outcome == Outcome.KEY_MISMATCH:
        answered += f" Answer: SHA-256 {s.response_digest}."
    return Known("Answered", s.closed_at, answered)


def _seen(doubt: Doubt) -> list[Known]:
    return [
        Known(o.kind.capitalize(), o.seen_at, _as_sentence(o))
        for o in doubt.observations
        if o.kind != "answer"
    ]


def _as_sentence(o: Observation) -> str:
    """Its summary as a sentence; one that begins with who said it keeps the handle as it is."""
    said = o.summary.rstrip(".")
    return f"{said}." if said.startswith(o.seen_by) else f"{said[:1].upper()}{said[1:]}."


def _tried(situation: Situation) -> list[Known]:
    attempts = Attempt.objects.filter(item=situation.item).order_by("claim_no", "pk")
    return [Known(f"Attempt {a.number}", a.ended_at, _how_it_ended(a)) for a in attempts] or [
        opened(situation.case)
    ]


def _how_it_ended(attempt: Attempt) -> str:
    """What it said before the name of its error, which says little to whoever did not write the step."""
    ended = attempt.outcome.replace("_", " ").capitalize()
    said = words.said_by(attempt)
    name = attempt.error_class.rpartition(".")[2]
    if name == ended:
        return f"{ended}: {said}." if said else f"{ended}."
    return f"{ended}: {said or name or 'no error'}{f' ({name})' if said and name else ''}."


def _if_sent_again(situation: Situation, doubt: Doubt, what: str) -> str:
    at = doubt.operation.receiver.title
    if doubt.has_window and doubt.safe_until is not None:
        until = words.clock(doubt.safe_until, situation.case.tenant_id)
        return f"If this is sent again after {until} and the first send went through, {at} does {what} twice."
    return f"If this is sent again and the first send went through, {at} does {what} twice."


def _money(doubt: Doubt) -> str:
    if doubt.amount is None:
        return ""
    sign, figures = sign_and_figures(doubt.amount, doubt.currency)
    return f" ({sign} {figures})"  # a plain space: pages show one that does not break as a hidden character
