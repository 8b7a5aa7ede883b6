"""Being told to stop, and waking up when a child has ended."""

import os
import select
import signal

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Stopped(Exception):
    """Ctrl-C or SIGTERM came."""


class Signals:
    """Stop signals and ended children wake one wait; nothing is done inside a handler."""

    def __init__(self) -> None:
        self._stop = False
        self._awake, writer = os.pipe()
        os.set_blocking(self._awake, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._remember)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self, seconds: float) -> None:
        """Return after that time, or at once when a child ended; raise Stopped when told to stop."""
        self.check()
        if select.select([self._awake], [], [], seconds)[0]:
            os.read(self._awake, 4096)
        self.check()

    def check(self) -> None:
        if self._stop:
            raise Stopped

    def _remember(self, *_: object) -> None:
        self._stop = True
