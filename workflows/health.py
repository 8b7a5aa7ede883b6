"""How the machine is: whether anybody works, sweeps and promotes, what has waited too long, and who is in the way.

For the health page, `manage.py health` and `/healthz/work`. It says nothing of any tenant, so it needs no scope.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

LATE_SWEEP_SECONDS = 60.0
"""Every engine sweeps every 3 s and says so when it renews its lease, so this is late with any lease up to 150 s."""
LATE_STEP_SECONDS = 300.0
OLD_SESSION_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that should be so. `level`: ok, warn (look at it), late (it does not do its work)."""

    name: str
    level: str
    says: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class OldSession:
    """A database session whose transaction has been open for long: it keeps dead rows, and claims slow down."""

    pid: int
    who: str
    state: str
    age: float


@dataclass(frozen=True, slots=True)
class Health:
    """Everything that was looked at."""

    checks: tuple[Check, ...]
    sessions: tuple[OldSession, ...]

    @property
    def level(self) -> str:
        """The worst of the checks."""
        return max((c.level for c in self.checks), key=("ok", "warn", "late").index)


@dataclass(frozen=True, slots=True)
class _Seen:
    workers: int
    late: int
    slots: int
    running: int
    swept_seconds: float | None
    overdue: int
    oldest_seconds: float | None


def look(*, older_than: float = OLD_SESSION_SECONDS) -> Health:
    """Ask the database. `older_than`: from how many seconds on a transaction counts as old."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM workflows_health()")
        seen = _Seen(*cursor.fetchone())
        cursor.execute("SELECT * FROM counterfoil_old_sessions(%s)", [older_than])
        sessions = tuple(OldSession(*row) for row in cursor.fetchall())
        cursor.execute(
            "SELECT counterfoil_was_copied(), count(*) FROM access_tenant WHERE shut_at IS NOT NULL"
        )
        dispatch = _dispatch(*cursor.fetchone())
    checks = (_workers(seen), _sweep(seen), _due(seen), _oldest(seen), _old(sessions), dispatch)
    return Health(checks=checks, sessions=sessions)


def _workers(seen: _Seen) -> Check:
    if not seen.workers:
        return Check(
            "Workers", "late", "none is running", "Start `manage.py qcluster`; nothing goes on without one."
        )
    says = f"{seen.workers} up, {seen.running} of {seen.slots} slots at work"
    if seen.late:
        advice = "Its lease ran out and nobody has taken it over yet; that takes seconds."
        return Check("Workers", "warn", f"{says}, {seen.late} late", advice)
    return Check("Workers", "ok", says)


def _sweep(seen: _Seen) -> Check:
    advice = "What a crash left between two steps stays there until a worker sweeps again: look at the workers' log."
    if seen.swept_seconds is None:
        return Check("Last sweep", "late", "never", advice)
    level = "late" if seen.swept_seconds > LATE_SWEEP_SECONDS else "ok"
    return Check("Last sweep", level, f"{_span(seen.swept_seconds)} ago", advice if level == "late" else "")


def _due(seen: _Seen) -> Check:
    if not seen.overdue:
        return Check("Retries and timers", "ok", "none is overdue")
    many = (
        "1,000 or more are"
        if seen.overdue >= 1000
        else f"{seen.overdue} {'is' if seen.overdue == 1 else 'are'}"
    )
    return Check(
        "Retries and timers", "late", f"{many} overdue", "No worker moves what is due: look at their log."
    )


def _oldest(seen: _Seen) -> Check:
    name = "Oldest step that could run"
    if seen.oldest_seconds is None:
        return Check(name, "ok", "none waits")
    says = f"waits for {_span(seen.oldest_seconds)}"
    if seen.oldest_seconds <= LATE_STEP_SECONDS:
        return Check(name, "ok", says)
    if seen.running < seen.slots:
        return Check(name, "late", says, "Slots are free and nobody takes it: look at the workers' log.")
    return Check(name, "warn", says, "Every slot is at work: add workers or slots if it stays so.")


def _old(sessions: tuple[OldSession, ...]) -> Check:
    name = "Old transactions"
    if not sessions:
        return Check(name, "ok", "none")
    oldest = sessions[0]
    says = f"{len(sessions)} open, the oldest for {_span(oldest.age)} ({oldest.who}, {oldest.state})"
    return Check(name, "warn", says, "They keep dead rows in the queue, and claims slow down. End them.")


def _dispatch(was_copied: bool, shut: int) -> Check:
    if was_copied:
        advice = "These rows were put back from a dump: start the workers, or run `manage.py migrate`."
        return Check("Dispatch", "warn", "nothing is sent", advice)
    if shut:
        advice = "A backup was restored: `manage.py dispatch status` says what is left."
        return Check("Dispatch", "warn", f"shut for {shut} organisation{'s' if shut > 1 else ''}", advice)
    return Check("Dispatch", "ok", "open")


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
