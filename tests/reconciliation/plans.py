"""What plans of statements are judged by: a table as it is where work has been done for a while."""

from __future__ import annotations

from typing import Any

import psycopg


def beside_many_cases(owner: psycopg.Connection[Any], tenant_id: int) -> None:
    """5,000 open cases of another kind, counted, in the caller's transaction, which has to be rolled back. Their jobs need
    not exist for a plan."""
    owner.execute("ALTER TABLE reconciliation_case DROP CONSTRAINT reconciliation_case_job_id_tenant")
    owner.execute(
        "INSERT INTO reconciliation_case (tenant_id, kind, job_id, title, detail, owner_role, blocking, opened_at, due_at,"
        " version, resolution, resolution_reason, fault) SELECT %s, 'unknown outcome', n, '', '', 'operator', true, now(),"
        " now(), 0, '', '', '' FROM generate_series(1, 5000) n",
        [tenant_id],
    )
    owner.execute("ANALYZE reconciliation_case")
