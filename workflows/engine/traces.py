"""Where in the code an attempt failed: file, line and function of each frame, and no values."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

FIRST_FRAMES, LAST_FRAMES = 5, 25
LONGEST_CHAIN = 4
LONGEST_TRACE = 8000
_OURS = tuple(str(Path(__file__).parents[1] / folder) for folder in ("engine", "replaying"))


def trace_of(error: BaseException) -> str:
    """The frames from the handler on, outermost first, then those of what it was raised from. At most 8,000 characters."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < LONGEST_CHAIN:
        lines = _frames(current)
        if parts:
            lines.insert(0, f"from {type(current).__qualname__}:")
        if lines:
            parts.append("\n".join(lines))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n".join(parts)[:LONGEST_TRACE]


def _frames(error: BaseException) -> list[str]:
    found = [
        f"{_file(frame.f_code.co_filename)}:{line}:{frame.f_code.co_qualname}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(_OURS)
    ]
    left_out = len(found) - FIRST_FRAMES - LAST_FRAMES
    if left_out > 1:
        found[FIRST_FRAMES:-LAST_FRAMES] = [f"… {left_out} frames more …"]
    return found


def _file(path: str) -> str:
    """As the import system found it, so that nothing is said of the machine's folders."""
    homes = [home for home in sys.path if home and path.startswith(f"{home.rstrip('/')}/")]
    if homes:
        return path[len(max(homes, key=len).rstrip("/")) + 1 :]
    return "/".join(path.split("/")[-3:])
