"""The document of a proposal: everything that an approver is shown and all that will be sent, in one JSON value.

Its canonical text is stored and signed (by digest); the screen, the limits and the checks before a send read it back
from there. Money is text in the decimals of its currency, times are UTC.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from babel.numbers import get_currency_precision

from approvals import canonical
from approvals.models import Policy, Proposal, ProposedOperation
from approvals.rendering import LEFT_OUT, FrozenRequest
from workflows.authoring import OperationDraft, ProposalDraft
from workflows.models import Job

FORMAT = "counterfoil.proposal/1"


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the draft: who asks, under which policy, until when, and what people changed on the way."""

    job: Job
    number: int
    workflow_title: str
    initiator: str
    policy: Policy
    quorum: int
    frozen_at: datetime
    expires_at: datetime
    hands: dict[str, Any]
    two_because: str = ""


def build(frame: Frame, draft: ProposalDraft, requests: Sequence[FrozenRequest]) -> dict[str, Any]:
    """The document as a value; `canonical.write` makes its text."""
    second = {"two_because": frame.two_because} if frame.two_because else {}
    return {
        "format": FORMAT,
        "proposal": f"{frame.job.pk:05d}-{frame.number:02d}",
        "number": frame.number,
        "job": _job(frame),
        "title": draft.title,
        "summary": draft.summary,
        "model_text": draft.model_text,
        "model_route": draft.model_route,
        "amount": money(draft.amount, draft.currency),
        "currency": draft.currency or "",
        "amount_label": draft.amount_label,
        "recipient": draft.recipient,
        "sources": [s.model_dump() for s in draft.sources],
        "hands": frame.hands,
        "operations": [
            _operation(ordinal, one, request)
            for ordinal, (one, request) in enumerate(zip(draft.operations, requests, strict=True), start=1)
        ],
        "headers_left_out": list(LEFT_OUT),
        "policy": _policy(frame.policy),
        "quorum": frame.quorum,
        **second,
        "frozen_at": stamp(frame.frozen_at),
        "expires_at": stamp(frame.expires_at),
    }


def read(text: str) -> dict[str, Any]:
    """A stored document as a value. Raises NotCanonical where the text was tampered with beyond reading."""
    value = canonical.parse(text)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise canonical.NotCanonical(f"This is no document of the format {FORMAT}.")
    return value


def money(amount: Decimal | None, currency: str | None) -> str | None:
    """An amount in the decimals of its currency, so that equal money is equal text; None for none."""
    if amount is None or currency is None:
        return None
    return f"{amount:.{get_currency_precision(currency)}f}"


def compared_amounts(draft: ProposalDraft) -> list[tuple[str, str]]:
    """What limits look at: the proposal's own amount, and what its operations add up to in each currency."""
    operations = [(money(one.amount, one.currency), one.currency or "") for one in draft.operations]
    return _compared(money(draft.amount, draft.currency), draft.currency or "", operations)


def _compared(
    own: str | None, currency: str, operations: Sequence[tuple[str | None, str]]
) -> list[tuple[str, str]]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for amount, its_currency in operations:
        if amount is not None:
            sums[its_currency] += Decimal(amount)
    found = [(money(total, in_currency) or "", in_currency) for in_currency, total in sorted(sums.items())]
    if own is not None and (own, currency) not in found:
        found.insert(0, (own, currency))
    return found


def stamp(at: datetime) -> str:
    """A time as the document writes it."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def disagreements(
    proposal: Proposal, operations: Sequence[ProposedOperation], *, among: bool = False
) -> list[str]:
    """In which points the stored rows differ from the digest that was signed; empty when they are the same bytes.

    `among`: the operations are some of the proposal's, each compared alone.
    """
    if canonical.sha256(proposal.document) != proposal.digest:
        return ["the document is not the one that was signed"]
    try:
        return _points(proposal, operations, _read_again(proposal.document), among)
    except canonical.NotCanonical as broken:
        return [str(broken)]
    except (ArithmeticError, LookupError, TypeError, ValueError) as broken:
        # Its digest is right and its shape is not: nobody but the database's owner can have written it.
        return [f"the document cannot be read ({type(broken).__name__})"]


def _points(
    proposal: Proposal, operations: Sequence[ProposedOperation], value: dict[str, Any], among: bool
) -> list[str]:
    found = [
        f"the {name} differs from the document"
        for name, stored, signed in (
            ("expiry", stamp(proposal.expires_at), value["expires_at"]),
            ("quorum", proposal.quorum, value["quorum"]),
            ("reason for two signatures", proposal.two_because, value.get("two_because", "")),
            ("number", proposal.number, value["number"]),
            ("job", proposal.job_id, value["job"]["id"]),
            ("title", proposal.title, value["title"]),
            ("recipient", proposal.recipient, value["recipient"]),
            ("amount", money(proposal.amount, proposal.currency or None), value["amount"]),
            ("currency", proposal.currency, value["currency"]),
            ("amount label", proposal.amount_label, value["amount_label"]),
            ("amounts", proposal.amounts, canonical.write(_signed_amounts(value))),
            ("time of freezing", stamp(proposal.frozen_at), value["frozen_at"]),
            ("policy", _policy_as(proposal.policy, value["policy"]), value["policy"]),
        )
        if stored != signed
    ]
    signed = {o["ordinal"]: o for o in value["operations"]}
    ordinals = [o.ordinal for o in operations]
    if not (set(ordinals) <= set(signed) if among else ordinals == list(signed)):
        return [*found, "there are other operations than the document has"]
    for row in operations:
        differing = _differing(row, signed[row.ordinal])
        found += [f"operation {row.ordinal}: the {name} differs" for name in differing]
    return found


def _signed_amounts(value: dict[str, Any]) -> list[tuple[str, str]]:
    operations = [(one["amount"], one["currency"]) for one in value["operations"]]
    return _compared(value["amount"], value["currency"], operations)


@lru_cache(maxsize=4)
def _read_again(text: str) -> dict[str, Any]:
    """`read`, kept for the sends of one proposal: each looks at the text anew, but hundreds need not parse it."""
    return read(text)


def _differing(row: ProposedOperation, signed: dict[str, Any]) -> list[str]:
    body = bytes(row.body)
    stored = {
        **{name: getattr(row, name) for name in _COPIED},
        "headers": canonical.parse(row.headers),
        **_body(body),
    }
    if row.body_digest != canonical.sha256(body):
        return ["body digest"]
    return [name for name, value in stored.items() if signed[name] != value]


_COPIED = (
    "operation_key",
    "receiver",
    "contract_version",
    "account",
    "record",
    "title",
    "method",
    "target",
    "independent",
)


def _operation(ordinal: int, draft: OperationDraft, request: FrozenRequest) -> dict[str, Any]:
    return {
        "ordinal": ordinal,
        "action": draft.action,
        "independent": draft.independent,
        "amount": money(draft.amount, draft.currency),
        "currency": draft.currency or "",
        "changes": [c.model_dump() for c in draft.changes],
        **{name: getattr(request, name) for name in _COPIED if name != "independent"},
        "headers": dict(request.headers),
        **_body(request.body),
    }


def _body(body: bytes) -> dict[str, Any]:
    try:
        text, encoding = body.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(body).decode(), "base64"
    return {"body": text, "body_encoding": encoding, "body_digest": canonical.sha256(body)}


def _job(frame: Frame) -> dict[str, Any]:
    job = frame.job
    return {
        "id": job.pk,
        "label": job.label,
        "title": job.title,
        "workflow": job.workflow,
        "workflow_title": frame.workflow_title,
        "revision": job.revision,
        "configuration_digest": job.configuration_digest,
        "reference": job.reference,
        "input_digest": job.input_digest,
        "initiator": frame.initiator,
        "source": job.source,
    }


def _policy_as(policy: Policy, signed: dict[str, Any]) -> dict[str, Any]:
    """The policy's row in the words of a document, which may be of an earlier version than this code."""
    now = _policy(policy)
    return {name: now.get(name, value) for name, value in signed.items()}


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "revision": policy.revision,
        "rules": canonical.parse(policy.rules),
    }
