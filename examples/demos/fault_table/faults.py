"""The faults of the table: what the receiver does with the first writes of a record, in order."""

from __future__ import annotations

import json
from dataclasses import dataclass

from examples.demos.fault_table.gate import (
    Answering,
    Strike,
    answers,
    drips,
    hangs_up,
    keeps_silent,
    resets,
    says,
    says_half,
    says_otherwise,
    tells_by_item,
)


@dataclass(frozen=True)
class Fault:
    """`late`: nobody listens at first. `killed`: the process that waits for the answer is killed meanwhile.

    `apart`: at a receiver of its own, since after it nothing more of the workflow is sent there.
    """

    name: str
    title: str
    strikes: tuple[Strike, ...] = ()
    late: bool = False
    killed: bool = False
    apart: bool = False


def _done(does: Answering, *more: Strike) -> tuple[Strike, ...]:
    return (Strike(does, applied=True), *more)


def _not_done(does: Answering, *more: Strike) -> tuple[Strike, ...]:
    return (Strike(does), *more)


def _items(*statuses: str) -> bytes:
    return json.dumps({"id": "B-1", "items": [{"status": status} for status in statuses]}).encode()


def _answer(*statuses: int) -> tuple[Fault, ...]:
    """A status alone, with nothing done."""
    return tuple(
        Fault(str(s), f"answers {s}", _not_done(answers(s, Location="/elsewhere"))) for s in statuses
    )


_REUSED = Strike(answers(422, b'{"code": "key_reused"}'))
_BUSY = Strike(answers(409, b'{"code": "key_in_progress"}'))
FAULTS = (
    Fault("none", "answers as it should"),
    Fault("refused-connection", "nobody listens at first", late=True),
    Fault("reset-unread", "resets before it reads", (Strike(resets, unread=True),)),
    Fault("reset", "reads, then resets", _not_done(resets)),
    Fault("reset-after", "does it, then resets", _done(resets)),
    Fault("closed", "reads, then closes", _not_done(hangs_up)),
    Fault("closed-after", "does it, then closes", _done(hangs_up)),
    Fault("closed-thrice", "does it, closes, three times", _done(hangs_up, *_done(hangs_up), *_done(hangs_up))),
    Fault("silence", "reads, and is silent", _not_done(keeps_silent)),
    Fault("silence-after", "does it, and is silent", _done(keeps_silent)),
    Fault("garbage", "does it, answers nonsense", _done(says(b"garbage\r\n\r\n"))),
    Fault("half-a-line", "does it, answers half a line", _done(says(b"HTTP/1.1 20"))),
    Fault("only-100", "does it, answers 100, closes", _done(says(b"HTTP/1.1 100 Continue\r\n\r\n"))),
    Fault("only-103", "does it, answers 103, closes", _done(says(b"HTTP/1.1 103 Early Hints\r\n\r\n"))),
    Fault("101", "does it, answers 101", _done(says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"))),
    Fault("drips", "does it, answers ever so slowly", _done(drips)),
    Fault("half", "does it, answers half a receipt", _done(says_half)),
    Fault("sign-in-page", "answers 200 with a sign-in page", _not_done(answers(200, b"<title>Sign in</title>"))),
    Fault("empty-201", "does it, answers 201 and no body", _done(answers(201))),
    Fault("204-after", "does it, answers 204", _done(answers(204))),
    Fault("203-after", "does it; a proxy answers 203", _done(answers(203, b"<title>Done</title>"))),
    Fault("gzip", "does it, answers bad gzip", _done(answers(200, b"no gzip", Content_Encoding="gzip"))),
    Fault("202", "does it, answers 202", _done(answers(202, b'{"status": "accepted"}'))),
    Fault("207", "does it, answers 207 of one item of two", _done(answers(207, b'{"items": [{"status": "201"}]}'))),
    Fault("207-done", "does it, answers 207, both items done", _done(tells_by_item)),
    Fault("207-part", "does it, answers 207, one item refused", _done(answers(207, _items("201", "409")))),
    Fault("207-refused", "answers 207, both items refused", _not_done(answers(207, _items("409", "409")))),
    Fault("user-errors", "answers 200 with userErrors", _not_done(answers(200, b'{"userErrors": ["no such record"]}'))),
    Fault("differs", "does it, answers another value", _done(says_otherwise)),
    *_answer(300, 301, 303, 304, 308),
    Fault("302", "answers 302", _not_done(answers(302, Location="http://169.254.169.254/"))),
    Fault("307-after", "does it, answers 307", _done(answers(307, Location="http://127.0.0.1:1/"))),
    *_answer(400, 401, 402, 403, 404, 405, 406, 407),
    Fault("408-after", "does it, answers 408", _done(answers(408))),
    Fault("409", "answers 409", _not_done(answers(409))),
    Fault("409-after", "does it, answers 409", _done(answers(409))),
    *_answer(410, 411, 412, 413, 414, 415, 421, 422, 424),
    Fault("424-after", "does it, answers 424", _done(answers(424))),
    *_answer(425),
    Fault("429", "answers 429, Retry-After 1", _not_done(answers(429, Retry_After="1"))),
    Fault("500", "answers 500", _not_done(answers(500))),
    Fault("500-after", "does it, answers 500", _done(answers(500))),
    Fault("500-twice", "answers 500, and the same again", _not_done(answers(500), Strike(answers(500)))),
    *_answer(431, 451, 501, 502),
    Fault("502-after", "does it; a proxy answers 502", _done(answers(502, b"<h1>Bad gateway</h1>"))),
    Fault("503", "answers 503, Retry-After 1", _not_done(answers(503, Retry_After="1"))),
    Fault("504-after", "does it, answers 504", _done(answers(504))),
    Fault("busy", "does it, closes; then 409 in progress", _done(hangs_up, _BUSY)),
    Fault("reused", "closes; then 422 key reused", _not_done(hangs_up, _REUSED), apart=True),
    Fault("killed", "is silent; the sender is killed", _not_done(keeps_silent), killed=True),
    Fault("killed-after", "does it; the sender is killed", _done(keeps_silent), killed=True),
)  # fmt: skip
