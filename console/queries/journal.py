"""A job's journal for people: each entry in words, and all of it for machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from console import words
from reconciliation.words import state_words
from web.vocabulary import sign_of
from workflows.models import Job, JournalEntry
from workflows.titles import in_words

LATEST = 12
PAGE = 100
LISTED = 10
"""Of a list in an entry's evidence, such as all operations of a set, so many are shown."""

SENTENCES = {
    "job.received": "Received through {source}.",
    "input.validated": "Input validated.",
    "input.refused": "The workflow's own validation refused the input.",
    "stage.closed": "Step “{stage}” finished.",
    "proposal.frozen": "Proposal frozen.",
    "proposal.refused": "The proposal could not be frozen.",
    "proposal.approved": "The quorum is complete.",
    "proposal.rejected": "Rejected: {reason}",
    "proposal.expired": "The proposal expired without a decision.",
    "proposal.voided": "The proposal is void: {why}",
    "proposal.withdrawn": "The proposal was withdrawn.",
    "approval.asked": "Waits for approval.",
    "approval.reminded": "Reminded of the decision: {told} told by e-mail.",
    "approval.escalated": "Not decided yet: escalated to {to}.",
    "reminder.refused": "A reminder was refused: {why}",
    "approval.waived": "The policy waives approval.",
    "approver.missing": "The people at work cannot complete this: {why}",
    "approver.found": "Enough people at work can sign it again.",
    "decision.recorded": "Decided: {verdict}.",
    "decision.refused": "A decision was refused: {why}",
    "changes.requested": "Changes requested: {reason}",
    "attempts.granted": "More attempts granted: {reason}",
    "item.corrected": "What “{stage}” works on was corrected: {reason}",
    "item.skipped": "“{stage}” goes on without item {key}: {reason}",
    "job.redriven": "Redriven: {reason}",
    "steps.run_again": "Steps run again, from “{stage}” on: {reason}",
    "retry.exhausted": "A step used up its attempts.",
    "deadline.passed": "The job was not prepared by its deadline; it is held.",
    "revision.missing": "The revision of the workflow is not deployed.",
    "revision.returned": "A worker has the revision; the hold was lifted.",
    "job.migrated": "Migrated from revision {from} to {revision}: {reason}",
    "compensation.due": "What its steps made is to be undone.",
    "compensation.blocked": "Nothing can be undone yet: {why}",
    "compensation.resumed": "Undoing goes on: the revision is deployed again.",
    "compensation.recorded": "Said by a person: {how}.",
    "compensation.finished": "Nothing is left to be undone.",
    "step.compensated": "What “{step}” made is undone.",
    "wait.began": "Step “{stage}” waits.",
    "event.received": "The event that step “{stage}” waited for came from {source}.",
    "event.misfit": "{from} sent an event that is not what is waited for.",
    "question.answered": "Answered the question of step “{stage}”.",
    "answer.refused": "An answer was refused: {why}",
    "job.held": "Held: {reason}",
    "job.kept_back": "Kept back: {why}",
    "job.released": "The hold was lifted.",
    "job.cancelled": "Cancelled: {reason}",
    "cancel.requested": "Cancel asked for: {reason}",
    "job.given_up": "Given up: {reason}",
    "outcome.confirmed": "Every operation is confirmed.",
    "outcome.unknown": "Nobody knows what became of it.",
    "outcome.conflicted": "The answer differs from what was approved.",
    "outcome.partial": "Only a part was applied.",
    "outcome.not_applied": "Nothing was applied.",
    "outcome.partly_applied": "Only a part was applied.",
    "outcome.contradicted": "Evidence against the ended job came in.",
    "operation.quarantined": "{operation}: out of a backup; it may have been sent since.",
    "operation.observed": "{operation}: {finding}",
    "operation.possible_duplicate": "{operation} may have taken effect twice.",
    "submission.closed": "{operation}: {outcome}",
    "send.blocked": "Nothing is sent: {why}",
    "send.check_failed": "A check before the send failed: {why}",
    "case.opened": "Case {case} opened: {kind}.",
    "case.closed": "Case {case} closed: {resolution}",
    "approval.voided": "An approval no longer counts: {why}",
    "approval.withdrawn": "An approval was withdrawn.",
    "item.refused": "A step failed for good.",
    "proposal.again_asked": "Asked to propose again.",
    "proposal.viewed": "Opened the proposal in full.",
    "proposal.cancelled": "The open proposal ended with the job.",
    "withdrawal.refused": "A withdrawal was refused: {why}",
    "operation.submitted": "{operation}: a submission was opened.",
    "operation.resubmitted": "{operation}: a submission of the same key and bytes was opened.",
    "operation.under_way": "An operation is under way.",
    "operation.settled": "{operation} was settled by a person.",
    "operation.resubmission_ordered": "{operation}: the same key and bytes are to be sent once more.",
    "operation.variance_accepted": "{operation}: the difference was accepted.",
    "operation.sending_resumed": "What was never sent goes on.",
    "operation.key_mismatch": "{operation}: the receiver holds other content under our key.",
    "operation.sent_differs": "{operation}: what left is not what was approved: {why}",
    "submission.not_applied": "Every send definitely did nothing; it is tried again.",
    "case.assigned": "Case {case} has another owner.",
    "case.snoozed": "Case {case} was put off: {reason}",
    "case.commented": "Somebody commented on case {case}.",
    "case.evidence_added": "Evidence was put to case {case}.",
    "case.second_asked": "A second person is asked for case {case}.",
    "case.seconded": "A second person agreed on case {case}.",
    "case.declined": "A second person said no on case {case}.",
    "case.request_withdrawn": "The request on case {case} was taken back.",
    "case.refused": "A step on case {case} was refused: {why}",
}
"""An entry's event in words. What an entry does not carry is left out, and an unlisted event shows its own name."""

DIGESTS = ("digest", "input", "proposal_digest", "configuration", "body_digest", "output_digest")


@dataclass(frozen=True, slots=True)
class Line:
    """One entry as the page shows it."""

    entry: JournalEntry
    sentence: str
    moved: str
    evidence: tuple[tuple[str, str], ...]
    hash: str


def latest(job: Job) -> list[Line]:
    """The newest entries. One query."""
    return [_line(e) for e in JournalEntry.objects.filter(job=job).order_by("-sequence")[:LATEST]]


def page(job: Job, before: int = 0) -> tuple[list[Line], int]:
    """One page of entries, newest first, and the sequence to go on from (0: that was all)."""
    entries = JournalEntry.objects.filter(job=job)
    if before:
        entries = entries.filter(sequence__lt=before)
    found = list(entries.order_by("-sequence")[: PAGE + 1])
    return [_line(e) for e in found[:PAGE]], found[PAGE - 1].sequence if len(found) > PAGE else 0


def export(job: Job) -> Iterator[dict[str, Any]]:
    """Every entry with the fields that its hash is made of, oldest first, so that it can be verified outside."""
    for e in JournalEntry.objects.filter(job=job).order_by("sequence").iterator():
        yield {
            "tenant_id": e.tenant_id,
            "job_id": e.job_id,
            "sequence": e.sequence,
            "at": e.at.isoformat(timespec="microseconds"),
            "event": e.event,
            "from_state": e.from_state,
            "to_state": e.to_state,
            "actor_kind": e.actor_kind,
            "actor_id": e.actor_id,
            "actor_name": e.actor_name,
            "evidence": e.evidence,
            "previous": bytes(e.previous).hex(),
            "hash": bytes(e.hash).hex(),
        }


def _line(entry: JournalEntry) -> Line:
    evidence = _loads(entry.evidence)
    return Line(
        entry=entry,
        sentence=sentence(entry.event, evidence),
        moved=sign_of(entry.to_state).words if entry.to_state else "",
        evidence=tuple((in_words(k), _short(v)) for k, v in evidence.items() if v not in ("", None, [], {})),
        hash=bytes(entry.hash).hex(),
    )


def sentence(event: str, evidence: Mapping[str, Any]) -> str:
    """The event in words. A part that speaks of evidence which is not there is cut off at its colon."""
    template = SENTENCES.get(event)
    if template is None:
        return in_words(event.replace(".", " ")) + "."
    try:
        known = {k: v for k, v in evidence.items() if isinstance(v, str | int) and v != ""}
        if isinstance(known.get("case"), int):
            known["case"] = f"RC-{known['case']:04d}"
        if event == "case.opened" and "kind" in known:
            known["kind"] = state_words(str(known["kind"])).lower()
        if event.endswith(".refused") and str(known.get("why", "")).isidentifier():
            known["why"] = f"{words.refusal_in_words(str(known['why']))}."
        said = template.format_map(known)
    except KeyError:
        before, colon, _ = template.partition("{")[0].partition(":")
        said = f"{before}." if colon else f"{event.replace('.', ' ').replace('_', ' ').capitalize()}."
    return said[:400]


def _loads(text: str) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {"evidence": value}


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    long = isinstance(value, list) and len(value) > LISTED
    text = json.dumps(value[:LISTED] if long else value, ensure_ascii=False, sort_keys=True)
    return f"{text} and {len(value) - LISTED:,} more, which the export has" if long else text
