"""Loaded by every process that has this folder first on its path: its wall clock is off by what a file says, at any time.

The database has its own clock, and so have monotonic clocks: only what reads the host's time of day is fooled.
"""

import os
import time
from datetime import timedelta

from django.utils import timezone

_real_time, _real_now = time.time, timezone.now


def _seconds() -> float:
    try:
        with open(os.environ["COUNTERFOIL_TESTS_CLOCK"]) as file:
            return float(file.read() or 0)
    except FileNotFoundError:
        return 0.0


time.time = lambda: _real_time() + _seconds()
timezone.now = lambda: _real_now() + timedelta(seconds=_seconds())
