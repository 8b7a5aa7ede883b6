"""The web server of a demo's installation: a process of its own, for whoever calls from outside."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from config.var import PROJECT

STOP_SECONDS = 10.0


@contextmanager
def web_server(environment: Mapping[str, str]) -> Iterator[str]:
    """Its address. Who connects before it serves waits: the port listens already."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "config.wsgi", "--threads", "4", "-b", f"fd://{number}"],
            cwd=PROJECT,
            env={**environment, "DJANGO_SETTINGS_MODULE": "config.settings"},
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
