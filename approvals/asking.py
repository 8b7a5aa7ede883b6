"""The questions before what needs a reason, or cannot be taken back: one dialog, which is a page without a script."""

from __future__ import annotations

from dataclasses import dataclass

from approvals.desk import fields_to_choose
from approvals.inbox import Place
from approvals.models import Verdict
from approvals.slips import Slip


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. `verdict` is empty where it is no decision. `fields` can be ticked; `allowed` as the slip says."""

    title: str
    lead: str
    url: str
    verdict: str
    required: bool
    label: str
    fields: list[str]
    button: str
    keep: str
    stop: bool
    allowed: bool
    refusal: str
    back_url: str


@dataclass(frozen=True, slots=True)
class Links:
    """Where the desk leads. The questions carry the digest that is on the screen."""

    slip: str
    desk: str
    decision: str
    reject: str
    changes: str
    withdraw: str
    remind: str
    unsign: str
    again: str
    newer: str
    signed: str


def links_of(slip: Slip, place: Place) -> Links:
    """The addresses of one slip, with the place in the list kept."""
    at, joint = slip.proposal_id, "&" if place.query else "?"
    shown = f"{joint}digest={slip.digest}"
    return Links(
        slip=place.of("approval", at),
        desk=f"{place.of('approval', at)}{shown}&part=desk",
        decision=place.of("decision", at),
        reject=place.of("approval-reject", at) + shown,
        changes=place.of("approval-changes", at) + shown,
        withdraw=place.of("approval-withdraw", at),
        remind=place.of("approval-remind", at),
        unsign=place.of("approval-unsign", at),
        again=place.of("approval-again", at),
        newer=place.of("approval", slip.newer.pk) if slip.newer else "",
        signed=place.of("approval-signed", at),
    )


def ask_for(verb: str, slip: Slip, place: Place) -> Ask:
    """The question for a verdict or a withdrawal; what is neither is asked as a rejection, which does least."""
    makers = {Verdict.REQUEST_CHANGES: _changes, "withdraw": _withdraw, "unsign": _unsign}
    return makers.get(verb, _reject)(slip, place)


def _reject(slip: Slip, place: Place) -> Ask:
    return Ask(
        title=f"Reject № {slip.label}?",
        lead=f"Nothing is sent and {slip.job_label} is cancelled. What was signed before stays in the journal.",
        url=place.of("decision", slip.proposal_id),
        verdict=Verdict.REJECT.value,
        required=True,
        label="Reason, kept in the journal",
        fields=[],
        button="Reject and cancel the job",
        keep="Keep it waiting",
        stop=True,
        allowed=slip.can_refuse,
        refusal="Nothing can be decided now.",
        back_url=place.of("approval", slip.proposal_id),
    )


def _changes(slip: Slip, place: Place) -> Ask:
    return Ask(
        title=f"Request changes to № {slip.label}?",
        lead="Nothing is sent. This slip ends and its signatures with it; the job waits until it is proposed again.",
        url=place.of("decision", slip.proposal_id),
        verdict=Verdict.REQUEST_CHANGES.value,
        required=True,
        label="What should change, and why",
        fields=fields_to_choose(slip),
        button="Request changes",
        keep="Keep it waiting",
        stop=False,
        allowed=slip.can_refuse,
        refusal="Nothing can be decided now.",
        back_url=place.of("approval", slip.proposal_id),
    )


def _withdraw(slip: Slip, place: Place) -> Ask:
    return Ask(
        title=f"Withdraw № {slip.label}?",
        lead="Nothing is sent. This slip ends and its signatures with it; you can propose the job again.",
        url=place.of("approval-withdraw", slip.proposal_id),
        verdict="",
        required=False,
        label="Reason, kept in the journal",
        fields=[],
        button="Withdraw proposal",
        keep="Keep it waiting",
        stop=True,
        allowed=slip.can_withdraw_proposal,
        refusal="Only the person who started this job withdraws its proposal, and only while it waits.",
        back_url=place.of("approval", slip.proposal_id),
    )


def _unsign(slip: Slip, place: Place) -> Ask:
    return Ask(
        title=f"Withdraw your signature from № {slip.label}?",
        lead="It no longer counts and stays in the journal. Nothing is sent until the slip has its signatures again.",
        url=place.of("approval-unsign", slip.proposal_id),
        verdict="",
        required=False,
        label="Reason, kept in the journal",
        fields=[],
        button="Withdraw my signature",
        keep="Leave it signed",
        stop=True,
        allowed=slip.can_withdraw_approval,
        refusal="You have no signature here that counts.",
        back_url=place.of("approval", slip.proposal_id),
    )
