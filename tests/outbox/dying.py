"""A dispatcher in a process of its own, which the test kills. `python -m tests.outbox.dying after-answer` ends by
itself, by SIGKILL, when an answer has come and before it is recorded."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

import django


def main() -> None:
    django.setup()
    from django.utils import timezone

    from outbox.dispatcher import delivering
    from outbox.dispatcher.dispatcher import Dispatcher
    from workflows.engine.connections import connect

    if sys.argv[1:] == ["after-answer"]:
        delivering.record = lambda **_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    Dispatcher(
        name="dying", connect=partial(connect, "outbox"), clock=timezone.now, stopping=lambda: False
    ).run()


if __name__ == "__main__":
    main()
