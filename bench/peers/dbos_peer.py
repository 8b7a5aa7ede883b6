"""DBOS from PyPI: `dbos_peer.py URL fan-out|chains N` prints one figure. Runs in the bench's own environment."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS

url, what, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
DBOS(
    config={
        "name": "bench",
        "system_database_url": url.replace("postgresql://", "postgresql+psycopg://", 1),
        "log_level": "ERROR",
        "run_admin_server": False,
    }
)


@DBOS.step()
def step(i: int) -> dict[str, object]:
    return {"i": i, "text": "x" * 200}


@DBOS.workflow()
def item(i: int) -> dict[str, object]:
    return step(i)


@DBOS.workflow()
def fan(n: int) -> int:
    handles = [DBOS.enqueue_workflow("items", item, i) for i in range(n)]
    return len([h.get_result() for h in handles])


@DBOS.workflow()
def chain(n: int) -> int:
    for i in range(n):
        step(i)
    return n


DBOS.launch()
DBOS.register_queue(
    "items", polling_interval_sec=0.05
)  # no limit of its own: its poll must not be what is measured
chain(5)
started = time.monotonic()
if what == "fan-out":
    fan(size)
    print(size / (time.monotonic() - started))
else:
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda _: chain(50), range(size)))
    print(size * 50 / (time.monotonic() - started))
DBOS.destroy()
