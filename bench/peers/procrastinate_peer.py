"""Procrastinate from PyPI: `procrastinate_peer.py URL fan-out N` prints jobs a second. Queue only: it has no steps."""

import asyncio
import logging
import sys
import time

import procrastinate

url, _, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
logging.disable(logging.CRITICAL)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))


@app.task(queue="items")
def small(i: int) -> dict[str, object]:
    return {"i": i, "text": "x" * 200}


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await small.batch_defer_async(*[{"i": i} for i in range(size)])
        started = time.monotonic()
        await app.run_worker_async(wait=False, concurrency=32, install_signal_handlers=False)
        print(size / (time.monotonic() - started))


asyncio.run(main())
