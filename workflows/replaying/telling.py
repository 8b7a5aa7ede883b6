"""An attempt, and its rerun, as lines for a terminal. Contents only where they were asked for: else sizes and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from web.hidden import is_hidden
from workflows.models import Job
from workflows.replaying.recorded import Given, Recorded
from workflows.replaying.rerun import Rerun

INDENT = "             "


def recorded(job: Job, record: Recorded, *, values: bool) -> Iterator[str]:
    """What was recorded of it."""
    attempt, item = record.attempt, record.item
    yield f"Attempt {attempt.pk} of {job.label}: {item.stage.name}, item {item.key}, try {attempt.number}, {attempt.outcome}"
    yield f"  ran        {attempt.started_at:%Y-%m-%d %H:%M:%S} to {attempt.ended_at:%H:%M:%S %Z}, on {attempt.worker_name}"
    yield f"  workflow   {record.workflow} revision {record.revision}, configuration {record.configuration[:12]}"
    for given in record.given:
        version = f", version {given.version}" if given.version else ""
        yield f"  given      {given.name or 'input'}: {given.source}{version}, {_size(given)}"
        if values:
            yield from _block(given.text)
    if attempt.error_class:
        yield f"  error      {attempt.error_class}"
        yield from _content("message", attempt.error_message, values)
        yield from _content("answer", attempt.answer, values)
        yield from (
            f"{'  where' if n == 0 else ' ':<13}{line}" for n, line in enumerate(attempt.trace.splitlines())
        )
    if record.digest:
        yield f"  result     digest {record.digest[:16]}"
    if attempt.route:
        yield f"  used       {attempt.route}: {attempt.tokens_in} tokens in, {attempt.tokens_out} out"


def again(rerun: Rerun, *, values: bool) -> Iterator[str]:
    """How it ran this time."""
    told = rerun.told
    wall = (
        "the kernel refuses what Python does not ask for"
        if told.get("kernel")
        else "without the kernel's help"
    )
    yield f"Run again in a process of its own, {wall}; nothing is saved:"
    if told.get("error_class"):
        yield f"  error      {told['error_class']}"
        yield from _content("message", told["message"], values or bool(told.get("stopped")))
        yield from (
            f"{'  where' if n == 0 else ' ':<13}{line}" for n, line in enumerate(told["trace"].splitlines())
        )
    if told.get("digest"):
        yield f"  result     digest {told['digest'][:16]}"
        yield from _content("output", told["output"], values)
    used = told.get("usage", {})
    if used.get("route"):
        yield f"  used       {used['route']}: {used['tokens_in']} tokens in, {used['tokens_out']} out (kept in memory only)"
        yield from _content("answer", used["answer"], values)
    yield from _content("printed", rerun.said, values)


def _size(given: Given) -> str:
    raw = given.text.encode()
    return f"{len(raw):,} bytes, digest {hashlib.sha256(raw).hexdigest()[:12]}"


def _content(name: str, text: str, values: bool) -> Iterator[str]:
    if not text:
        return
    if values:
        yield f"  {name}"
        yield from _block(text)
    else:
        yield f"  {name:<10} {len(text):,} characters (--show-values shows them)"


def _block(text: str) -> Iterator[str]:
    """What others wrote, so that it cannot steer the terminal that it is printed on."""
    for line in text.splitlines() or [""]:
        yield INDENT + "".join(f"\\u{ord(c):04x}" if is_hidden(c) else c for c in line)
