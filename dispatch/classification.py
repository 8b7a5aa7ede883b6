"""What one exchange means for the effect: the table of faults and answers, as data and pure functions.

Only the connect phase is a usable boundary. Before the mark a failure is definitely not a send; after it, whatever is
not an answer is doubt. A definite answer to one send says nothing about an earlier one (`joining.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from dispatch.callback_terms import Stage
from dispatch.comparison import Difference, Unreadable, differences, read_json, receipt_at, receipt_of
from dispatch.contracts import Action, Contract, Meaning
from dispatch.item_terms import ItemsTold, told_of
from dispatch.paths import at_path
from dispatch.wire import CERTIFICATE_UNUSABLE, NO_TOKEN, TOKEN_REFUSED, Exchange


class Outcome(StrEnum):
    """How a submission is closed."""

    APPLIED = "applied"  # done as approved, and the answer is the receipt
    CONFLICTED = "conflicted"  # done, but the answer differs from what was approved
    PENDING = "pending"  # accepted; done later, and confirmed then
    REFUSED = "refused"  # a definite no to what was asked
    NOT_APPLIED = "not applied"  # definitely not done, for a reason that can pass
    NOT_SENT = "not sent"  # no byte left
    IN_PROGRESS = "in progress"  # the receiver still works on an earlier send of this key
    UNKNOWN = "unknown"  # nobody can tell from what was seen
    KEY_MISMATCH = "key mismatch"  # the receiver holds other content under this key: a fault of ours
    OUR_FAULT = "our fault"  # the request cannot be sent as it is; no byte left


DEFINITELY_NOTHING = (Outcome.NOT_APPLIED, Outcome.NOT_SENT, Outcome.OUR_FAULT)


@dataclass(frozen=True, slots=True)
class Reading:
    """What an exchange means. `blocked`: trying again cannot help until a person has changed something."""

    outcome: Outcome
    fault: str = ""
    retry_after: float | None = None
    blocked: bool = False
    receipt_id: str = ""
    replayed: bool = False
    """Whether the receiver says itself that an earlier send was the one that it applied."""

    differs: tuple[Difference, ...] = ()


BEFORE_THE_MARK: dict[str, tuple[Outcome, str, bool]] = {
    "ConnectError": (Outcome.NOT_SENT, "no connection", False),
    "ConnectTimeout": (Outcome.NOT_SENT, "no connection in time", False),
    "PoolTimeout": (Outcome.NOT_SENT, "no connection was free", False),
    "ProxyError": (Outcome.NOT_SENT, "a proxy refused", False),
    "NotBegun": (Outcome.NOT_SENT, "the last check before the first byte said no", False),
    NO_TOKEN: (Outcome.NOT_SENT, "no token to send with", False),
    TOKEN_REFUSED: (Outcome.NOT_SENT, "no token is given to us", True),
    CERTIFICATE_UNUSABLE: (Outcome.OUR_FAULT, "the client's certificate cannot be used", True),
    "AddressRefused": (Outcome.OUR_FAULT, "the address is refused", True),
    "InvalidURL": (Outcome.OUR_FAULT, "the address is malformed", True),
    "UnsupportedProtocol": (Outcome.OUR_FAULT, "the address is malformed", True),
    "LocalProtocolError": (Outcome.OUR_FAULT, "the request is malformed", True),
    "UnicodeEncodeError": (Outcome.OUR_FAULT, "the request is malformed", True),
}
"""Exception to (outcome, words, blocked). Any other failure before the mark is a send that did not begin, too."""

AFTER_THE_MARK: dict[str, str] = {
    "ReadTimeout": "sent, no answer in time",
    "WriteTimeout": "the receiver stopped reading midway",
    "ReadError": "the connection broke before an answer",
    "WriteError": "the connection broke while sending",
    "RemoteProtocolError": "the connection ended without a usable answer",
}

_NO_CERTIFICATE = "ALERT_CERTIFICATE_REQUIRED"
"""TLS 1.3 says so only after the request has left; it takes no request in before a certificate has come."""

STATUSES: dict[int, tuple[Outcome, bool]] = {
    **dict.fromkeys((400, 402, 404, 405, 410, 411, 412, 413, 414, 415, 422, 431, 451, 501), (Outcome.REFUSED, False)),
    **dict.fromkeys((401, 403, 407), (Outcome.NOT_APPLIED, True)),
    **dict.fromkeys((421, 425, 429), (Outcome.NOT_APPLIED, False)),
}  # fmt: skip
"""What a status definitely means where the contract says nothing. All others, 408, 409 and 5xx with them, are doubt.

So is 406: some servers find only after the work that they cannot write its result as was asked.
"""


def read_exchange(
    seen: Exchange, contract: Contract, action: Action, *, sent: bytes, record: str, now: datetime
) -> Reading:
    """What one send came to. Pure: the same exchange under the same contract always reads the same."""
    if seen.status is None:
        return _without_answer(seen)
    content, unreadable = _content(seen)
    after = retry_after(seen.headers.get("retry-after", ""), now=now, longest=contract.retry_after_max)
    if any(s.matches(seen.status, content) for s in contract.mismatch_signals):
        return Reading(Outcome.KEY_MISMATCH, "the receiver holds other content under this key", blocked=True)
    if any(s.matches(seen.status, content) for s in contract.in_progress_signals):
        return Reading(Outcome.IN_PROGRESS, "the receiver still works on this key", retry_after=after)
    if any(s.matches(seen.status, content) for s in contract.duplicate_signals):
        return _duplicate(contract, content)
    if 200 <= seen.status < 300:
        return _success(seen, action, content, unreadable, sent=sent, record=record)
    if seen.status in contract.definite_not_applied_codes:
        return Reading(Outcome.NOT_APPLIED, f"answered {seen.status}", retry_after=after)
    if seen.status == 401 and seen.old_token:
        return Reading(Outcome.NOT_APPLIED, "answered 401: the token is asked for anew", retry_after=after)
    outcome, blocked = STATUSES.get(seen.status, (Outcome.UNKNOWN, False))
    return Reading(outcome, f"answered {seen.status}", retry_after=after, blocked=blocked)


def retry_after(value: str, *, now: datetime, longest: float) -> float | None:
    """Seconds to wait by a Retry-After header (seconds or a date), never more than `longest`; None where it says none."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), longest)
    try:
        at = parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return min(max((at - now).total_seconds(), 0.0), longest)


def _without_answer(seen: Exchange) -> Reading:
    said = f": {seen.message}" if seen.message else ""
    if not seen.marked:
        default = (Outcome.NOT_SENT, "nothing was sent", False)
        outcome, words, blocked = BEFORE_THE_MARK.get(seen.exception, default)
        certificates = seen.exception == "ConnectError" and "start_tls.failed" in " ".join(seen.trace)
        return Reading(outcome, f"{words}{said}"[:300], blocked=blocked or certificates)
    if seen.exception == "LocalProtocolError" and seen.written is None:
        # The client refused to put its head into bytes, which it does only after the barrier.
        return Reading(Outcome.OUR_FAULT, f"the request is malformed{said}"[:300], blocked=True)
    if seen.exception == "ReadError" and _NO_CERTIFICATE in seen.message:
        return Reading(Outcome.NOT_APPLIED, f"the receiver asks for a certificate{said}"[:300], blocked=True)
    return Reading(Outcome.UNKNOWN, f"{AFTER_THE_MARK.get(seen.exception, seen.exception)}{said}"[:300])


def _duplicate(contract: Contract, content: dict[str, object]) -> Reading:
    receipt = receipt_at(content, contract.duplicate_receipt_path)
    # What can be fetched is compared with what was approved before it counts as ours.
    compared_first = contract.lookup is not None and contract.lookup.by_key
    if contract.duplicate_is_proof and receipt and not compared_first:
        words = f"the receiver holds an earlier send of this key: {receipt}"
        return Reading(Outcome.APPLIED, words[:300], receipt_id=receipt, replayed=True)
    return Reading(Outcome.UNKNOWN, "the receiver says that it has this already", receipt_id=receipt)


def _content(seen: Exchange) -> tuple[dict[str, object], str]:
    if seen.body_problem:
        return {}, f"the answer's body is {seen.body_problem}"
    try:
        return read_json(seen.body), ""
    except Unreadable as unreadable:
        return {}, str(unreadable)


def _success(
    seen: Exchange, action: Action, content: dict[str, object], unreadable: str, *, sent: bytes, record: str
) -> Reading:
    meaning = action.success.get(str(seen.status))
    if meaning is Meaning.PENDING or (meaning is None and seen.status == 202):
        words = f"answered {seen.status}: accepted, to be confirmed"
        return Reading(Outcome.PENDING, words, receipt_id=receipt_of(action, content))
    if meaning is None:
        return Reading(Outcome.UNKNOWN, f"answered {seen.status}, which the contract does not name")
    by_item = action.items is not None and seen.status in action.items.statuses
    needs_body = (
        action.receipt_required or action.echo_path or action.record_path or action.errors_path or by_item
    )
    if unreadable and needs_body:
        return Reading(Outcome.UNKNOWN, f"answered {seen.status}, but {unreadable}")
    receipt = receipt_of(action, content)
    if errors := at_path(content, action.errors_path) if action.errors_path else None:
        return _with_errors(seen, errors, receipt)
    if action.items is not None and by_item:
        items = told_of(action.items, sent=sent, content=content)
        if items.stage is not Stage.APPLIED or items.refused:
            return _of_items(seen, items, receipt)
    if action.receipt_required and not receipt:
        return Reading(Outcome.UNKNOWN, f"answered {seen.status} without a receipt")
    differs = tuple(differences(action, sent=sent, record=record, content=content, fields=action.echo_fields))
    if differs:
        names = ", ".join(d.field for d in differs)
        return Reading(
            Outcome.CONFLICTED, f"the answer differs: {names}"[:300], receipt_id=receipt, differs=differs
        )
    return Reading(Outcome.APPLIED, f"answered {seen.status}", receipt_id=receipt)


def _with_errors(seen: Exchange, errors: object, receipt: str) -> Reading:
    """A success that says why not. One that also names what it made contradicts itself: something is there."""
    said = json.dumps(errors, sort_keys=True)
    if receipt:
        differs = (Difference("errors", "none", said),)
        return Reading(
            Outcome.CONFLICTED,
            f"answered {seen.status} with errors and a receipt",
            receipt_id=receipt,
            differs=differs,
        )
    return Reading(Outcome.REFUSED, f"answered {seen.status} with errors: {said}"[:300])


def _of_items(seen: Exchange, items: ItemsTold, receipt: str) -> Reading:
    """An answer item by item that is not simply done. Some of each is something else than was approved."""
    words = f"answered {seen.status}: {items.summary}"
    if items.is_mixed:
        return Reading(Outcome.CONFLICTED, words, receipt_id=receipt, differs=items.refused)
    outcomes = {Stage.FAILED: Outcome.REFUSED, Stage.PENDING: Outcome.PENDING}
    return Reading(outcomes.get(items.stage, Outcome.UNKNOWN), words, receipt_id=receipt)
