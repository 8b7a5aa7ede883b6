"""Which messages a dispatcher takes next: SQL of the engine's role, which sees every tenant.

A claim is a lease on the message's row: `next_attempt_at` moves to the lease's end, so what a dead dispatcher held comes
up again by itself. Claims of one lane queue on an advisory lock, which makes the bound on what an endpoint has under
way exact over all processes and hosts. Of what waits for one recipient about one job, only the first is taken. Each tenant's first message comes before any tenant's second.
"""

# ruff: noqa: S608 - the statements are made of this file's own constants
from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import psycopg

LEASE_SECONDS = 60.0
"""Longer than a try can take: see `webhook.SECONDS` and `mail.SECONDS`."""
AT_ONCE = 2
"""So many messages one endpoint has under way at a time, over all processes."""
LOCK_CLASS = 0x434F


class Lane(StrEnum):
    """Deliveries that share slots of a process, so that what is slow in one does not hold up another."""

    PROMPT = "prompt"  # endpoints that answer well and quickly
    LAGGING = "lagging"  # endpoints whose last answer was a failure, or slow
    MAIL = "mail"  # the mail server


SLOTS: dict[Lane, int] = {Lane.PROMPT: 4, Lane.LAGGING: 2, Lane.MAIL: 2}


@dataclass(frozen=True, slots=True)
class Claim:
    """One message that is ours until its lease ends. `number` is the token."""

    message_id: int
    tenant_id: int
    number: int
    dispatcher: str


def claim(connection: psycopg.Connection[Any], lane: Lane, count: int, dispatcher: str) -> list[Claim]:
    """Take up to `count` due messages of a lane."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK_CLASS, list(Lane).index(lane)])
        rows = connection.execute(
            _CLAIM[lane], {"count": count, "lease": LEASE_SECONDS, "dispatcher": dispatcher}
        ).fetchall()
    return [Claim(message, tenant, number, dispatcher) for message, tenant, number in rows]


def _is_first(recipient: str) -> str:
    """What tells of a job waits while something earlier of that job waits for the same recipient."""
    return f"""NOT EXISTS (
      SELECT FROM outbox_message b WHERE b.job_id = d.job_id AND b.{recipient} = d.{recipient} AND b.id < d.id
        AND b.next_attempt_at IS NOT NULL)"""


def _claim_sql(due: str) -> str:
    # By the statement's time throughout, which an index can be searched by.
    return f"""
WITH due AS ({due}),
chosen AS (SELECT id FROM due ORDER BY turn, random() LIMIT %(count)s),
mine AS (
  SELECT id FROM outbox_message WHERE id IN (SELECT id FROM chosen) AND next_attempt_at <= statement_timestamp()
  ORDER BY id FOR UPDATE SKIP LOCKED)
UPDATE outbox_message m SET claim_no = m.claim_no + 1, attempts = m.attempts + 1, claimed_by = %(dispatcher)s,
  next_attempt_at = statement_timestamp() + %(lease)s * interval '1 s'
FROM mine WHERE m.id = mine.id
RETURNING m.id, m.tenant_id, m.claim_no
"""


def _to_endpoints(lagging: str) -> str:
    return f"""
  SELECT m.id, row_number() OVER (PARTITION BY e.tenant_id ORDER BY m.place, random()) AS turn
  FROM outbox_endpoint e
  CROSS JOIN LATERAL (
    SELECT count(*) AS under_way FROM outbox_message u
    WHERE u.endpoint_id = e.id AND u.claimed_by <> '' AND u.next_attempt_at > statement_timestamp()) busy
  CROSS JOIN LATERAL (
    SELECT d.id, row_number() OVER (ORDER BY d.next_attempt_at, d.id) AS place FROM outbox_message d
    WHERE d.endpoint_id = e.id AND d.kind = 'webhook' AND d.next_attempt_at <= statement_timestamp()
      AND {_is_first("endpoint_id")}
    ORDER BY d.next_attempt_at, d.id LIMIT greatest({AT_ONCE} - busy.under_way, 0)) m
  WHERE e.lagging_since IS {lagging}
"""


_BY_MAIL = f"""
  SELECT m.id, m.place AS turn FROM access_tenant t
  CROSS JOIN LATERAL (
    SELECT d.id, row_number() OVER (ORDER BY d.next_attempt_at, d.id) AS place FROM outbox_message d
    WHERE d.tenant_id = t.id AND d.kind = 'e-mail' AND d.next_attempt_at <= statement_timestamp()
      AND {_is_first("person_id")}
    ORDER BY d.next_attempt_at, d.id LIMIT %(count)s) m
"""

_CLAIM: dict[Lane, str] = {
    Lane.PROMPT: _claim_sql(_to_endpoints("NULL")),
    Lane.LAGGING: _claim_sql(_to_endpoints("NOT NULL")),
    Lane.MAIL: _claim_sql(_BY_MAIL),
}
