"""The committer's part in waits: the batch that records that an item waits inserts what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from workflows.engine import wait_sql
from workflows.engine.connections import Connection
from workflows.engine.outcomes import Result
from workflows.engine.waiting import key_taken


def ask(connection: Connection, batch: Sequence[Result], *, worker_id: int) -> Sequence[Result]:
    """Insert what the batch's items wait for, inside its transaction and before its results are recorded.

    Returns the batch as it is to be recorded: with the time at which each wait is over, by the database's clock; and
    refused where another item waits for the same event.
    """
    waits = [(r, r.asked) for r in batch if r.asked is not None]
    if not waits:
        return batch
    parameters = {
        "worker": worker_id,
        "ids": [r.claim.item_id for r, _ in waits],
        "claims": [r.claim.claim_no for r, _ in waits],
        "kinds": [a.kind for _, a in waits],
        "keys": [a.key for _, a in waits],
        "sources": [a.source for _, a in waits],
        "questions": [a.question for _, a in waits],
        "roles": [a.role for _, a in waits],
        "schemas": [a.schema for _, a in waits],
        "untils": [a.until for _, a in waits],
        "seconds": [a.seconds for _, a in waits],
    }
    due: dict[int, datetime | None] = dict(connection.execute(wait_sql.ASK, parameters).fetchall())

    def known(result: Result) -> Result:
        if result.asked is None or (result.claim.item_id not in due and not result.asked.key):
            return result
        if result.claim.item_id not in due:
            return key_taken(result)
        return replace(result, wait_until=due[result.claim.item_id])

    return [known(r) for r in batch]


def settle(connection: Connection, batch: Sequence[Result]) -> None:
    """Settle the waits whose time was up, after the batch's results were recorded."""
    over = [r for r in batch if r.settles]
    if over:
        parameters = {
            "ids": [r.claim.item_id for r in over],
            "claims": [r.claim.claim_no for r in over],
            "hows": [r.settles for r in over],
        }
        connection.execute(wait_sql.SETTLE, parameters)
