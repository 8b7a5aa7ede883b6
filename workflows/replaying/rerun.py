"""Running a recorded attempt again, in a process of its own in which nothing has an effect, and telling how it ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from web.redaction import hide
from workflows.kinds import AttemptOutcome
from workflows.replaying.recorded import Recorded

LONGEST_SAID = 20_000
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")


@dataclass(frozen=True, slots=True)
class Rerun:
    """How it ended this time. `verdict` is one sentence beside what was recorded, `same` whether they agree."""

    verdict: str
    same: bool
    told: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    """What the code printed, up to 20,000 characters, without secrets."""


def run_again(recorded: Recorded, order: dict[str, Any], *, provider: str, seconds: float) -> Rerun:
    """Run it. `provider`: the one address that may be reached, or none. It is ended after so many seconds."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-replay-") as scratch:
        told, code, said = _child({**order, "scratch": scratch, "provider": provider}, scratch, seconds)
    if told is None:
        return Rerun(_no_word(code, seconds), same=False, said=said)
    return Rerun(*_verdict(recorded, told), told=told, said=said)


def _child(
    order: dict[str, Any], scratch: str, seconds: float
) -> tuple[dict[str, Any] | None, int | None, str]:
    """(what it told, its exit code or None after its time, what it printed)."""
    printed = Path(scratch) / "printed"
    # A file and no pipe: whoever writes more than a pipe holds waits for us, who wait for its end.
    with printed.open("wb") as output, tempfile.TemporaryFile() as answer:
        process = subprocess.Popen(
            [sys.executable, "-m", "workflows.replaying.child", str(answer.fileno())],
            cwd=settings.BASE_DIR,
            env=_environment(scratch),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(answer.fileno(),),
            start_new_session=True,
        )
        code: int | None
        try:
            process.communicate(json.dumps(order).encode(), timeout=seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        answer.seek(0)
        text = answer.read()
    said = hide(printed.read_bytes()[:LONGEST_SAID].decode("utf-8", "replace"))
    return (json.loads(text) if code == 0 and text else None), code, said


def _environment(scratch: str) -> dict[str, str]:
    """This process's own, settings included; no proxy stands between the step and the wall."""
    inherited = {k: v for k, v in os.environ.items() if k.lower() not in _PROXIES}
    return {
        **inherited,
        "TMPDIR": scratch,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "COUNTERFOIL_WORKFLOWS": ",".join(settings.COUNTERFOIL_WORKFLOWS),
        "COUNTERFOIL_PROVIDER_URL": settings.COUNTERFOIL_PROVIDER_URL,
    }


def _no_word(code: int | None, seconds: float) -> str:
    if code is None:
        return f"It was ended after {seconds:g} s: it had not come to an end by itself."
    if code < 0:
        return f"Its process was ended by signal {-code} and told nothing."
    return f"Its process ended with code {code} and told nothing."


def _verdict(recorded: Recorded, told: dict[str, Any]) -> tuple[str, bool]:
    attempt = recorded.attempt
    if told["ended"] == "missing":
        return f"It could not be run: {told['message']}", False
    if told.get("stopped") or told["refused"]:
        said = told["refused"] or [told["message"]]
        return f"It was stopped. {' '.join(said)}", False
    if told["ended"] == "waits":
        return (
            "It asked to wait, as recorded."
            if attempt.outcome == AttemptOutcome.WAITING
            else "It asked to wait."
        ), attempt.outcome == AttemptOutcome.WAITING
    if told["ended"] == "returned":
        if attempt.outcome != AttemptOutcome.SUCCEEDED:
            return "It succeeded this time.", False
        same = told["digest"] == recorded.digest
        return (
            "It gave the recorded result." if same else "It gave another result than the recorded one."
        ), same
    if not attempt.error_class:
        return f"It failed this time: {told['error_class']}.", False
    if told["error_class"] != attempt.error_class:
        return f"It failed in another way: {told['error_class']}, not {attempt.error_class}.", False
    same_place = told["trace"] == attempt.trace
    where = "at the same place" if same_place else "at another place"
    message = "" if told["message"] == attempt.error_message else ", with another message"
    return f"It failed as recorded: {attempt.error_class}, {where}{message}.", same_place
