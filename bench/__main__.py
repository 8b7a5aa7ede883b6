"""`make bench`: our figures beside the peers' in one run, medians of several rounds, and the database's own limit.

Absolute numbers mean little on a shared machine; read the ratios. Rounds are interleaved, so that a busy minute
strikes everybody.
"""

from __future__ import annotations

import os
import secrets
import statistics
import subprocess
import sys
from pathlib import Path

from bench import approvals, cases, lanes, matching, ours, resting, snapshots, statements, whole
from config import database

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ITEMS = int(os.environ.get("BENCH_ITEMS", "10000"))
CHAINS = int(os.environ.get("BENCH_CHAINS", "100"))
KILLS = int(os.environ.get("BENCH_KILLS", "20"))
JOBS = int(os.environ.get("BENCH_JOBS", "600"))
READY = int(os.environ.get("BENCH_READY", "1000000"))
CHURN = int(os.environ.get("BENCH_CHURN", "200000"))
MEMORY = int(os.environ.get("BENCH_MEMORY", "100000"))
DECISIONS = int(os.environ.get("BENCH_DECISIONS", "1000"))
WAITING = int(os.environ.get("BENCH_WAITING", "50000"))
OPEN_CASES = int(os.environ.get("BENCH_OPEN_CASES", "20000"))
LINES = int(os.environ.get("BENCH_LINES", "1000000"))
MANAGERS = 100
FAULT_SECONDS = os.environ.get("BENCH_FAULT_SECONDS", "300")
PROJECT = Path(__file__).resolve().parent.parent
PEERS = Path(__file__).parent / "peers"
PEER_PYTHON = PROJECT / ".bench-venv" / "bin" / "python"


def peer(name: str, what: str, size: int) -> float:
    """One figure of a peer, in a process and a database of its own."""
    url = database.create_database(database_name := f"counterfoil_peer_{secrets.token_hex(4)}")
    try:
        command = [str(PEER_PYTHON), str(PEERS / f"{name}_peer.py"), url, what, str(size)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            print(f"{name} {what} failed: {done.stderr[-500:]}", file=sys.stderr)
            return float("nan")
        return float(done.stdout.split()[-1])
    finally:
        database.drop_database(database_name)


def main() -> int:
    """Measure and print."""
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)
        print(f"  {name}: {value:,.0f}", file=sys.stderr, flush=True)

    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        note("single-row commits/s, one connection", ours.commit_rate(database.login_url()))
        running, counted = ours.fan_out(ITEMS)
        note(f"fan-out of {ITEMS:,}: items/s, one worker process", running)
        note(f"fan-out of {ITEMS:,}: items/s, creation counted", counted)
        note(f"fan-out of {ITEMS:,}: items/s, two worker processes", ours.fan_out(ITEMS, 2)[0])
        note("DBOS, fan-out of 2,000 through a queue: items/s", peer("dbos", "fan-out", 2000))
        note("Procrastinate, 5,000 jobs: jobs/s", peer("procrastinate", "fan-out", 5000))
        note(f"chains of 50, {CHAINS} jobs: steps/s, one worker process", ours.chains(CHAINS))
        note(f"chains of 50, {CHAINS} jobs: steps/s, two worker processes", ours.chains(CHAINS, 2))
        note("chains of 50, one job alone: steps/s", ours.chains(1))
        note("DBOS, chains of 50, 40 workflows in 32 threads: steps/s", peer("dbos", "chains", 40))
        note(
            "LangGraph, chains of 50, 40 threads of state, 16 at a time: nodes/s",
            peer("langgraph", "chains", 40),
        )
        note(f"whole jobs, approval waived, {JOBS}: jobs/s, one worker process", whole.jobs(JOBS))
        note(f"whole jobs, approval waived, {JOBS}: jobs/s, two worker processes", whole.jobs(JOBS, 2))
        note(f"sends alone, {JOBS}: operations/s, one worker process with 16 slots", whole.sends(JOBS))
    resumed = ours.recoveries(KILLS)
    started = ours.first_steps(20)
    few, many = lanes.claim_milliseconds(1000), lanes.claim_milliseconds(READY)
    delayed = lanes.delays(100_000)
    calm, held = snapshots.churn(CHURN, held=False), snapshots.churn(CHURN, held=True)
    idle = resting.idle_percent()
    megabytes = resting.memory(MEMORY)
    pressed = approvals.decisions(MANAGERS, DECISIONS)
    paced = approvals.decisions(MANAGERS, DECISIONS, every=2.0)
    pages = approvals.listing(WAITING)
    walked = matching.walk(LINES)
    short, long = cases.queue(OPEN_CASES // 100), cases.queue(OPEN_CASES)
    brought = statements.reconciled(LINES)
    print(f"\nmedians of {ROUNDS} rounds on {os.cpu_count()} cores")
    for name, values in figures.items():
        low, high = min(values), max(values)
        print(f"  {name:62} {statistics.median(values):>9,.0f}   ({low:,.0f} to {high:,.0f})")
    print(
        f"  {f'work resumes after kill -9 of a worker, p95 of {KILLS} kills':62} {ours.p95(resumed):>9,.0f} ms"
    )
    print(f"  {'the first item of a job starts, p95 of 20 submissions':62} {started:>9,.0f} ms")
    for name, told in (
        ("a claim of 32 beside 1,000 ready items, middle", f"{few:.2f} ms"),
        (
            f"a claim of 32 beside {READY:,} ready items, middle",
            f"{many:.2f} ms, {many / few:.2f} times as long",
        ),
        ("a quiet tenant's item starts beside 100,000 of another's, p95 of 20", f"{delayed:,.0f} ms"),
        (
            f"a claim over {CHURN:,} items, middle and p95",
            f"{calm.middle:.2f} and {calm.p95:.2f} ms, {calm.items_per_second:,.0f} items/s",
        ),
        (
            f"the same under an old snapshot, {held.dead:,} dead rows at its end",
            f"{held.middle:.2f} and {held.p95:.2f} ms, {held.items_per_second:,.0f} items/s",
        ),
        ("an idle worker process, of one core", f"{idle:.1f} %"),
        (
            f"memory of a worker over {MEMORY:,} items, at each fifth",
            " ".join(f"{m:,.0f}" for m in megabytes) + " MB",
        ),
        (
            f"{MANAGERS} managers, {DECISIONS:,} proposals, each presses again at once, p95",
            f"{pressed.p95:,.0f} ms, {pressed.per_second:,.0f} decisions/s, {pressed.wrong} not decided once",
        ),
        (
            "the same, each presses every two seconds, p95",
            f"{paced.p95:,.0f} ms, {paced.per_second:,.0f} decisions/s, {paced.wrong} not decided once",
        ),
        (
            f"the page of approvals over {WAITING:,}: for me, everyone, none for me, p95",
            f"{pages.for_me:,.0f}, {pages.everyone:,.0f} and {pages.nothing_for_me:,.0f} ms",
        ),
        (
            f"a statement of {LINES:,} lines, {brought.size / 1e6:,.0f} MB: uploaded, read, applied, matched",
            f"{brought.uploaded:,.0f}, {brought.read:,.0f}, {brought.applied:.1f} and {brought.matched:,.0f} s, together"
            f" {brought.seconds:,.0f} s; {brought.taken:,} matched against as many operations, at most {brought.megabytes:,.0f} MB",
        ),
        (
            f"{LINES:,} lines walked over against as many operations",
            f"{walked.seconds:,.0f} s ({walked.processor_seconds:,.0f} s of processors), {walked.taken:,} matched,"
            f" at most {walked.longest:.1f} s in one transaction, {walked.worker_megabytes:,.0f} MB in the worker and"
            f" {walked.server_megabytes:,.0f} MB of its own in the server's process",
        ),
        (
            f"the queue of {OPEN_CASES:,} open cases: as it opens, midway, one kind, narrowed, p95",
            f"{long.top:,.0f}, {long.middle:,.0f}, {long.kind:,.0f} and {long.narrowed:,.0f} ms,"
            f" {long.top / short.top:.1f} times as long as over {OPEN_CASES // 100:,}",
        ),
    ):
        print(f"  {name:70} {told}")
    return faults()


def faults() -> int:
    """The engine under drawn plans of faults, for BENCH_FAULT_SECONDS; 0 does without."""
    if FAULT_SECONDS == "0":
        return 0
    print(f"the engine under faults for {FAULT_SECONDS} s", file=sys.stderr, flush=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:warnings",
        "tests/crash/test_under_faults.py",
    ]
    environment = {**os.environ, "COUNTERFOIL_TEST_FAULT_SECONDS": FAULT_SECONDS}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    told = [line for line in done.stdout.splitlines() if " runs: " in line]
    print("  " + (told[0] if told else done.stdout[-8000:]))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
