"""What was delivered a while ago goes, with its tries: the list stays about as long as what was told lately.

What waits and what was given up stays, whatever its age: a person has to settle that. A room above says what else has
to stay, and has an engine call this. The database refuses to delete what was not delivered, or within the last day.
"""

# ruff: noqa: S608 - the statements are made of this installation's own settings and code
from __future__ import annotations

from django.conf import settings
from django.db import connection

from access.tenancy import acting

AT_ONCE = 500


def find(kept: str) -> str:
    """SQL for the engine's role: of each tenant its oldest message that can go. `kept`: a condition on the message `m`
    under which it stays."""
    return f"""
SELECT t.id, m.id FROM access_tenant t
CROSS JOIN LATERAL (
  SELECT m.id FROM outbox_message m WHERE m.tenant_id = t.id AND {_can_go(kept)}
  ORDER BY m.delivered_at LIMIT 1) m
LIMIT 20
"""


def prune(tenant_id: int, kept: str) -> int:
    """Delete up to AT_ONCE of a tenant's messages that can go; how many. A repeat deletes the next.

    Locks what it deletes, and goes past what is locked.
    """
    with acting(tenant_id), connection.cursor() as cursor:
        cursor.execute(
            f"SELECT m.id FROM outbox_message m WHERE m.tenant_id = %s AND {_can_go(kept)}"
            f" ORDER BY m.delivered_at LIMIT {AT_ONCE} FOR UPDATE OF m SKIP LOCKED",
            [tenant_id],
        )
        old = [row[0] for row in cursor.fetchall()]
        if old:
            cursor.execute("DELETE FROM outbox_try WHERE message_id = ANY(%s)", [old])
            cursor.execute("DELETE FROM outbox_message WHERE id = ANY(%s)", [old])
        return len(old)


def _can_go(kept: str) -> str:
    # By the hour, so that there is something to do once an hour, not at every look.
    days = settings.COUNTERFOIL_OUTBOX_KEEP_DAYS
    long_ago = f"date_trunc('hour', statement_timestamp()) - {days} * interval '1 day'"
    return f"m.delivered_at < {long_ago} AND NOT ({kept})"
