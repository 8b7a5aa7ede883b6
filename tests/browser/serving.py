"""The web server of the browser tests: gunicorn on a port of its own, with the static files as they are deployed."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.var import PROJECT
from tests.support import eventually

CHROMIUM_NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_PR_SET_PDEATHSIG = 1


def chromium_path() -> str:
    """Where Chromium is. The test fails where there is none: skipped, it would promise what nobody looked at."""
    found = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if found is None:
        pytest.fail("The browser tests need Chromium: `make test` installs it, or says how.", pytrace=False)
    return found


@contextmanager
def static_files(folder: Path) -> Iterator[Path]:
    """Collected while the block before the server's start runs; `folder` holds them when the block ends."""
    collecting = subprocess.Popen(
        [sys.executable, "manage.py", "collectstatic", "--noinput", "-v", "0"],
        cwd=PROJECT,
        env={**_environment(folder), "COUNTERFOIL_NO_DATABASE": "1"},
        stdin=subprocess.DEVNULL,
    )
    try:
        yield folder
        assert collecting.wait(120) == 0, "collectstatic failed"
    finally:
        collecting.kill()
        collecting.wait()


@contextmanager
def web_server(*, static: Path, log: Path, python: str = sys.executable, **environment: str) -> Iterator[str]:
    """The address of gunicorn with the product's application, which stops with the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening, open(log, "ab") as output:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = subprocess.Popen(
            [
                *(python, "-m", "gunicorn", "config.wsgi", "--workers", "1", "--threads", "8"),
                *("--bind", f"fd://{listening.fileno()}", "--graceful-timeout", "2"),
            ],
            cwd=PROJECT,
            env={**_environment(static), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(listening.fileno(),),
            preexec_fn=_end_with_parent,
        )
    try:
        eventually(lambda: _is_healthy(address, server, log), seconds=60, what=f"{address}/healthz")
        yield address
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _environment(static: Path) -> dict[str, str]:
    # Not as a test: COUNTERFOIL_TESTING would serve static files that nobody collected.
    kept = {name: value for name, value in os.environ.items() if name != "COUNTERFOIL_TESTING"}
    return {
        **kept,
        "DJANGO_SETTINGS_MODULE": "tests.browser.settings",
        "COUNTERFOIL_TESTS_STATIC": str(static),
    }


def _is_healthy(address: str, server: subprocess.Popen[bytes], log: Path) -> bool:
    assert server.poll() is None, log.read_text(errors="replace")[-3000:]
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"{address}/healthz", timeout=5
        ) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
