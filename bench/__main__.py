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

from bench import ours
from config import database

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ITEMS = int(os.environ.get("BENCH_ITEMS", "10000"))
CHAINS = int(os.environ.get("BENCH_CHAINS", "100"))
KILLS = int(os.environ.get("BENCH_KILLS", "20"))
PEERS = Path(__file__).parent / "peers"
PEER_PYTHON = Path(__file__).resolve().parent.parent / ".bench-venv" / "bin" / "python"


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
        running, whole = ours.fan_out(ITEMS)
        note(f"fan-out of {ITEMS:,}: items/s, one worker process", running)
        note(f"fan-out of {ITEMS:,}: items/s, creation counted", whole)
        note(f"fan-out of {ITEMS:,}: items/s, two worker processes", ours.fan_out(ITEMS, 2)[0])
        note("DBOS, fan-out of 2,000 through a queue: items/s", peer("dbos", "fan-out", 2000))
        note("Procrastinate, 5,000 jobs: jobs/s", peer("procrastinate", "fan-out", 5000))
        note(f"chains of 50, {CHAINS} jobs: steps/s, one worker process", ours.chains(CHAINS))
        note(f"chains of 50, {CHAINS} jobs: steps/s, two worker processes", ours.chains(CHAINS, 2))
        note("chains of 50, one job alone: steps/s", ours.chains(1))
        note("DBOS, chains of 50, 40 workflows in 32 threads: steps/s", peer("dbos", "chains", 40))
    resumed = ours.recoveries(KILLS)
    started = ours.first_steps(20)
    print(f"\nmedians of {ROUNDS} rounds on {os.cpu_count()} cores")
    for name, values in figures.items():
        low, high = min(values), max(values)
        print(f"  {name:62} {statistics.median(values):>9,.0f}   ({low:,.0f} to {high:,.0f})")
    print(
        f"  {f'work resumes after kill -9 of a worker, p95 of {KILLS} kills':62} {ours.p95(resumed):>9,.0f} ms"
    )
    print(f"  {'the first item of a job starts, p95 of 20 submissions':62} {started:>9,.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
