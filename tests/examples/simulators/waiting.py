"""Waiting by looking, with an end."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 30.0


def wait_until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not seen():
        assert time.monotonic() < deadline, "it did not happen in time"
