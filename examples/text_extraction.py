"""The text of a PDF or a Word document, read in a process of its own that may die of it.

A file comes from anybody. Whoever parses it can be made to loop, to fill the memory or to fall; so it is parsed in a
child (`text_extraction_child.py`) with limits on time, memory and output, and with none of our secrets in its environment.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from workflows.authoring import File, Retryable

ROOT = Path(__file__).resolve().parents[1]
CHILD = "examples.text_extraction_child"
WALL_SECONDS = 60.0
LONGEST_SAID = 20_000_000
"""Bytes of the child's answer: more than its own limit on text can be, so that only a child gone wrong is cut."""


class Unreadable(Exception):
    """There is no text to be had from this file; the message is a sentence for whoever sent it."""


@dataclass(frozen=True)
class Text:
    """What a document says, and how many pages it has (0 where its format has none)."""

    text: str
    pages: int


def extract(file: File) -> Text:
    """The file's text. Raises Unreadable, or Retryable where this machine and not the file may be to blame."""
    try:
        ended = subprocess.run(
            [sys.executable, "-m", CHILD, file.kind.value],
            input=file.content,
            capture_output=True,
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            timeout=WALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Retryable(f"Reading the file was not done in {WALL_SECONDS:g} s.") from late
    return _told(ended.returncode, ended.stdout)


def _told(code: int, said: bytes) -> Text:
    if code == 0 and len(said) < LONGEST_SAID:
        answer = json.loads(said)
        if "refused" in answer:
            raise Unreadable(str(answer["refused"]))
        return Text(text=str(answer["text"]), pages=int(answer["pages"]))
    if (
        code == -signal.SIGKILL
    ):  # by the kernel, for want of memory on this machine; its own limits end it otherwise
        raise Retryable("The process that read the file was killed.")
    raise Unreadable(
        "Reading the file took more time or memory than a document may: save it anew, or in parts."
    )
