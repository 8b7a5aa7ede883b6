"""Two workflows whose items do to their worker what their input says; one gives them little time."""

from __future__ import annotations

import asyncio
import ctypes
import decimal
import json
import locale
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from pydantic import BaseModel, Field

from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Retry, Retryable, Workflow

TIMEOUT = 1.5
LONGEST = 120.0


class Acts(BaseModel):
    """One item an act. `go`: a file in the folder that gated handlers wait for."""

    folder: str
    acts: list[str] = Field(default_factory=list)


class Act(BaseModel):
    number: int
    act: str


class ActsOut(BaseModel):
    parts: list[Act]


class Said(BaseModel):
    said: Any = None
    pid: int = 0
    attempt: int = 0


class Counted(BaseModel):
    count: int


def _workflow(name: str, timeout: float) -> Workflow:
    made = Workflow(name, revision="1", input=Acts, title="Misbehaving")

    @made.step()
    def split(ctx: Ctx, acts: Acts) -> ActsOut:
        return ActsOut(parts=[Act(number=n, act=a) for n, a in enumerate(acts.acts, start=1)])

    @made.step(each=split.parts, retry=Retry(attempts=3, first_wait=0.01, longest_wait=0.05, timeout=timeout))
    def act(ctx: Ctx, part: Act, acts: Acts) -> Said:
        folder = Path(acts.folder)
        note(folder, f"{part.number} {ctx.attempt} {os.getpid()} {part.act}")
        return Said(said=ACTS[part.act](Here(folder, ctx)), pid=os.getpid(), attempt=ctx.attempt)

    @made.step()
    def count(ctx: Ctx, said: list[Said]) -> Counted:
        return Counted(count=len(said))

    @made.propose(approval="test-misbehaving")
    def propose(ctx: Ctx, counted: Counted) -> ProposalDraft:
        operation = OperationDraft(
            receiver="none", action="none", record="R-1", title="None", body={"count": counted.count}
        )
        return ProposalDraft(title="None", operations=(operation,))

    return made


hasty = _workflow("test-hasty", timeout=TIMEOUT)
patient = _workflow("test-patient", timeout=LONGEST)


class Here:
    """What an act may know: the job's folder, and which attempt it is."""

    def __init__(self, folder: Path, ctx: Ctx) -> None:
        self.folder = folder
        self.ctx = ctx
        self.attempt = ctx.attempt

    def wait(self) -> None:
        """Until the test says go."""
        pause, until = threading.Event(), time.monotonic() + LONGEST
        while not (self.folder / "go").exists() and time.monotonic() < until:
            pause.wait(0.02)


def note(folder: Path, line: str, name: str = "starts") -> None:
    """One line of a file that several processes append to."""
    opened = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(opened, f"{line}\n".encode())
    os.close(opened)


ACTS: dict[str, Callable[[Here], Any]] = {}


def _an_act(handler: Callable[[Here], Any]) -> Callable[[Here], Any]:
    ACTS[handler.__name__.strip("_").replace("_", "-")] = handler
    return handler


# --- well behaved -----------------------------------------------------------------------------------------------


@_an_act
def _fine(here: Here) -> Any:
    return "fine"


@_an_act
def _gated(here: Here) -> Any:
    here.wait()
    return "fine"


@_an_act
def _later(here: Here) -> Any:
    """Its first try asks for two seconds."""
    if here.attempt == 1:
        raise Retryable("not now", retry_after=2)
    return "later"


@_an_act
def _in_ten_minutes(here: Here) -> Any:
    """Its first try asks for ten minutes."""
    if here.attempt == 1:
        raise Retryable("not now", retry_after=600)
    return "later"


@_an_act
def _read_the_clock(here: Here) -> Any:
    return time.time()


# --- time -------------------------------------------------------------------------------------------------------


@_an_act
def _hang(here: Here) -> Any:
    here.wait()
    return "too late"


@_an_act
def _hang_once(here: Here) -> Any:
    if here.attempt == 1:
        here.wait()
    return here.attempt


@_an_act
def _hold_the_interpreter(here: Here) -> Any:
    """A call into C that never lets go of the interpreter's lock, as a regular expression may be."""
    if here.attempt == 1:
        ctypes.PyDLL(None).sleep(600)
    return here.attempt


# --- ends -------------------------------------------------------------------------------------------------------


@_an_act
def _os_exit(here: Here) -> Any:
    os._exit(9)


@_an_act
def _sys_exit(here: Here) -> Any:
    sys.exit("enough")


@_an_act
def _keyboard_interrupt(here: Here) -> Any:
    raise KeyboardInterrupt


@_an_act
def _generator_exit(here: Here) -> Any:
    raise GeneratorExit


@_an_act
def _base_exception(here: Here) -> Any:
    class Odd(BaseException):
        pass

    raise Odd("odd")


@_an_act
def _undescribable(here: Here) -> Any:
    class Shy(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

        __repr__ = __str__

        @property
        def status_code(self) -> int:
            raise RuntimeError("no")

    raise Shy


@_an_act
def _sigkill(here: Here) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@_an_act
def _segfault(here: Here) -> Any:
    ctypes.string_at(0)


@_an_act
def _sigterm_once(here: Here) -> Any:
    if here.attempt == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    return here.attempt


@_an_act
def _kill_an_engine_thread(here: Here) -> Any:
    if here.attempt == 1:
        victim = next(t for t in threading.enumerate() if t.name == "counterfoil-liveness")
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(victim.ident), ctypes.py_object(SystemExit))
        here.wait()
    return here.attempt


@_an_act
def _kill_after_the_commit(here: Here) -> Any:
    """The process dies when the batch that holds this result is committed, and before anything that follows it."""
    from workflows.engine.aftermath import Aftermath

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    Aftermath.follow = die  # type: ignore[method-assign]
    return "fine"


@_an_act
def _wait_and_kill_after_the_commit(here: Here) -> Any:
    here.wait()
    return _kill_after_the_commit(here)


@_an_act
def _break_the_committer(here: Here) -> Any:
    """A patch of what the engine needs, which no restart of a thread would take back."""
    if here.attempt == 1:
        import psycopg

        psycopg.Connection.pipeline = None  # type: ignore[assignment]
    return here.attempt


# --- size -------------------------------------------------------------------------------------------------------


@_an_act
def _fifty_megabytes(here: Here) -> Any:
    return "x" * 50_000_000


@_an_act
def _unwritable_usage(here: Here) -> Any:
    """What is recorded beside the result is of a kind that no column takes."""
    here.ctx.usage.route = object()  # type: ignore[assignment]
    return "fine"


@_an_act
def _recurse(here: Here) -> Any:
    return _recurse(here)


@_an_act
def _eat_memory(here: Here) -> Any:
    """More than is allowed at all."""
    return len(bytearray(3_000_000_000))


@_an_act
def _keep_memory(here: Here) -> Any:
    """More than a process should have, and never given back."""
    if here.attempt == 1:
        KEPT.append(os.urandom(1) * 500_000_000)
    return len(KEPT)


KEPT: list[bytes] = []


@_an_act
def _leak_threads(here: Here) -> Any:
    for _ in range(400):
        threading.Thread(target=here.wait).start()
    return threading.active_count()


@_an_act
def _print_a_lot(here: Here) -> Any:
    for _ in range(20_000):
        print("x" * 500)
        print("y" * 500, file=sys.stderr)
    return "printed"


# --- what is shared ---------------------------------------------------------------------------------------------


@_an_act
def _fork_and_stay(here: Here) -> Any:
    """A child that lives on, also when it is told to end with its parent."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        here.wait()
        os._exit(0)
    note(here.folder, str(child), "children")
    return child


@_an_act
def _fork_and_return(here: Here) -> Any:
    """The child returns as if it were the worker."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"


@_an_act
def _close_the_connection(here: Here) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    connection.close()
    return "closed"


@_an_act
def _leave_a_transaction_open(here: Here) -> Any:
    transaction.atomic().__enter__()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        note(here.folder, str(cursor.fetchone()[0]), "sessions")


@_an_act
def _change_the_session(here: Here) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('app.tenant', '999', false), set_config('search_path', 'nowhere', false)"
        )
    return "changed"


@_an_act
def _change_the_process(here: Here) -> Any:
    gone = here.folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    os.environ.clear()
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    os.umask(0o777)
    locale.setlocale(locale.LC_ALL, "C")
    sys.setrecursionlimit(400)
    return "changed"


@_an_act
def _change_the_context(here: Here) -> Any:
    decimal.getcontext().prec = 2
    decimal.getcontext().traps[decimal.Inexact] = True
    return str(decimal.getcontext().prec)


@_an_act
def _read_the_context(here: Here) -> Any:
    return str(decimal.getcontext().prec)


@_an_act
def _set_a_signal_handler(here: Here) -> Any:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except ValueError as refused:
        return str(refused)
    return "set"


@_an_act
def _monkeypatch_once(here: Here) -> Any:
    """Breaks what encodes every output of the process; an own attempt pays, and so do its neighbours'."""
    if here.attempt == 1:
        keep = json.dumps

        def broken(*args: Any, **kwargs: Any) -> str:
            json.dumps = keep
            raise RuntimeError("patched")

        json.dumps = broken
    return here.attempt


@_an_act
def _event_loop(here: Here) -> Any:
    """Its own loop, and another one left set for whoever comes next in this thread."""

    async def told() -> str:
        await asyncio.sleep(0)
        return "told"

    answer = asyncio.run(told())
    asyncio.set_event_loop(asyncio.new_event_loop())
    return answer


@_an_act
def _close_every_file(here: Here) -> Any:
    """The engine's sockets among them."""
    if here.attempt == 1:
        for number in range(3, 200):
            try:
                os.close(number)
            except OSError:
                continue
    return here.attempt
