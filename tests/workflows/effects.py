"""A workflow whose step has whatever effect its input names, and says afterwards that it cannot work."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import multiprocessing
import os
import platform
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
from django.db import connection
from pydantic import BaseModel

from access.models import Tenant
from access.tenancy import acting
from workflows.authoring import Ctx, OperationDraft, Permanent, ProposalDraft, Retry, Workflow


class Plan(BaseModel):
    """`does`: the effect; `where`: an address or a path for it; `after`: only in attempts after this one."""

    does: str
    where: str = ""
    after: int = 1


class Done(BaseModel):
    said: str


effects = Workflow("test-effects", revision="1", input=Plan, title="Effects")


def _post(where: str) -> str:
    return str(httpx.post(where, json={"a": 1}, timeout=5, trust_env=False).status_code)


def _swallow(where: str) -> str:
    with contextlib.suppress(BaseException):
        _post(where)
    return "as if nothing had been"


def _in_a_thread(where: str) -> str:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_swallow(where)))
    thread.start()
    thread.join()
    return said[0]


def _udp(where: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return str(sender.sendto(b"x", ("127.0.0.1", 9)))


def _insert(where: str) -> str:
    return str(Tenant.objects.create(slug="replayed", name="made by a replay").pk)


def _act(where: str) -> str:
    with acting(1), connection.cursor() as cursor:
        cursor.execute("UPDATE access_tenant SET name = 'changed by a replay'")
    return "done"


def _read_write(where: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
    return _insert(where)


def _raw(where: str) -> str:
    connection.ensure_connection()
    connection.connection.execute("INSERT INTO access_tenant (slug, name) VALUES ('raw', 'raw')")
    return "done"


def _own_session(where: str) -> str:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as own:
        own.execute(
            "INSERT INTO access_tenant (slug, name, time_zone, created_at) VALUES ('own', 'own', 'UTC', now())"
        )
    return "done"


def _c_library(where: str) -> str:
    """What Python's hooks do not see: libc's own connect."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.socket(2, 1, 0)
    return f"socket {descriptor}, errno {ctypes.get_errno()}"


def _c_fork(where: str) -> str:
    library = ctypes.CDLL(None, use_errno=True)
    if library.fork() == 0:
        Path(where).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    return f"errno {ctypes.get_errno()}"


def _fork(where: str) -> str:
    if os.fork() == 0:
        Path(where).touch()
        os._exit(0)
    return "forked"


def _spawn(where: str) -> str:
    multiprocessing.get_context("spawn").Process(target=print).start()
    return "spawned"


def _c_signal(where: str) -> str:
    """The other ways to a process than kill(2), each with the signal that does nothing, sent to our parent."""
    library, parent = ctypes.CDLL(None, use_errno=True), os.getppid()
    for number, *arguments in SIGNALS[platform.machine()]:
        answer = library.syscall(*(parent if a == "parent" else a for a in (number, *arguments)))
        if answer != -1 or ctypes.get_errno() != errno.EPERM:
            return f"call {number} answered {answer}, errno {ctypes.get_errno()}"
    return "none went out"


def _scratch(where: str) -> str:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("x")
    return f"{Tenant.objects.count() > 0}"


def _crash(where: str) -> str:
    ctypes.string_at(0)
    return "survived"


_INFO = ctypes.create_string_buffer(128)
SIGNALS: dict[str, list[tuple[Any, ...]]] = {
    # kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo; on x86-64 also kill by the number of its x32 twin
    "x86_64": [
        (62, "parent", 0),
        (200, "parent", 0),
        (234, "parent", "parent", 0),
        (129, "parent", 0, _INFO),
        (297, "parent", "parent", 0, _INFO),
        (0x40000000 + 62, "parent", 0),
    ],
    "aarch64": [
        (129, "parent", 0),
        (130, "parent", 0),
        (131, "parent", "parent", 0),
        (138, "parent", 0, _INFO),
        (240, "parent", "parent", 0, _INFO),
    ],
}

ACTS: dict[str, Callable[[str], Any]] = {
    "post": _post,
    "swallowed": _swallow,
    "thread": _in_a_thread,
    "udp": _udp,
    "unix": lambda where: socket.socket(socket.AF_UNIX).connect("/tmp/nobody"),
    "listen": lambda where: socket.create_server(("127.0.0.1", 0)),
    "insert": _insert,
    "acting": _act,
    "read write": _read_write,
    "raw": _raw,
    "own session": _own_session,
    "program": lambda where: subprocess.run(["touch", where], check=True),
    "shell": lambda where: os.system(f"touch {where}"),
    "exec": lambda where: os.execvp("touch", ["touch", where]),
    "fork": _fork,
    "spawn": _spawn,
    "c library": _c_library,
    "c fork": _c_fork,
    "c signal": _c_signal,
    "long": lambda where: "long " * 40_000,
    "exit": lambda where: os._exit(0),
    "abort": lambda where: os.abort(),
    "kill": lambda where: os.kill(os.getppid(), signal.SIGTERM),
    "write": lambda where: Path(where).write_text("x"),
    "remove": lambda where: Path(where).unlink(missing_ok=False),
    "sqlite": lambda where: sqlite3.connect(where),
    "scratch": _scratch,
    "crash": _crash,
    "hang": lambda where: time.sleep(600),
    "print": lambda where: print(f"printed {where}"),
}


@effects.step(retry=Retry(attempts=1))
def act(ctx: Ctx, plan: Plan) -> Done:
    ctx.record(route="test", tokens_in=3)
    if os.environ.get("TEST_EFFECTS") == "on":
        return Done(said=str(ACTS[plan.does](plan.where)))
    raise Permanent(f"{plan.does} was not tried here")


@effects.propose(approval="none")
def propose(ctx: Ctx, done: Done) -> ProposalDraft:
    operation = OperationDraft(
        receiver="none", action="put", record="R", title="Put it", body={"a": done.said}
    )
    return ProposalDraft(title="Put it", operations=(operation,))
