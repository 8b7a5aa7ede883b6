"""A task of the queue that does not end when its time is over."""

import time


def sleep_through(seconds: float) -> None:
    """Catches whatever is raised in it, the alarm's SystemExit included."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            time.sleep(left)
        except BaseException:
            continue
