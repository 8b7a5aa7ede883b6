"""What a demo says while it runs: numbered steps with the time, and one line of progress that is written over."""

from __future__ import annotations

import time
from typing import TextIO


class Teller:
    """Writes steps to `out`; the progress line only where `out` is a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._began = time.monotonic()
        self._progress = ""
        self.steps: list[str] = []

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return round(time.monotonic() - self._began, 1)

    def step(self, text: str) -> None:
        """Something happened."""
        self._wipe()
        self.steps.append(text)
        print(f"{self.seconds:6.1f} s  {text}", file=self._out, flush=True)

    def progress(self, text: str) -> None:
        """What is being waited for, in place of what was there."""
        if self._out.isatty() and text != self._progress:
            self._wipe()
            self._progress = text
            self._out.write(f"          {text}\r")
            self._out.flush()

    def _wipe(self) -> None:
        if self._progress:
            self._out.write("\r" + " " * (len(self._progress) + 10) + "\r")
            self._progress = ""
