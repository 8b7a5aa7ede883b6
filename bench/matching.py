"""A large statement walked over against as many operations: the ladder's time, and what memory it takes."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from django.db import connection
from django.utils import timezone

from bench.installation import Installation, installation, workers
from bench.ours import SLOTS
from bench.pages import copied, without_triggers
from bench.whole import local_receiver, prepare

_STATEMENT = """
INSERT INTO statements_statement (tenant_id, receiver_id, account, name, digest, size, format, encoding, evidence,
  uploaded_by_id, uploaded_at, state, reading, position, rows, lines, repeated, errors, left_out, currency, amount_in,
  amount_out, worked_by)
SELECT tenant_id, receiver_id, '', 'large.csv', repeat('0', 64), 1, 'csv', 'utf-8', '', %s, now(), 'reading', 1, 1, %s, %s,
  0, 0, 0, 'EUR', 0, 0, '' FROM dispatch_operation WHERE id = 1000001 RETURNING id
"""
# A third names our key, a third has the receiver's id, a third only a reference; one in fifty is nobody's.
_LINES = """
INSERT INTO statements_statementline (tenant_id, statement_id, receiver_id, account, row_number, booked_on, amount,
  currency, direction, receivers_id, reference, text, counterparty, counterparty_account, fingerprint, occurrence, raw)
SELECT o.tenant_id, %s, o.receiver_id, '', n, current_date, o.amount_minor, 'EUR', 'out',
  CASE WHEN n %% 3 = 1 THEN o.receipt_id ELSE '' END, CASE WHEN n %% 3 = 2 THEN lower(o.record) ELSE '' END,
  CASE WHEN n %% 50 = 0 THEN 'card fee' WHEN n %% 3 = 0 THEN 'SEPA CT ' || upper(o.operation_key) ELSE 'payment' END,
  'Fennmark Castings', '', decode(md5(n::text), 'hex'), 1, 'row ' || n
FROM generate_series(1, %s) n JOIN dispatch_operation o ON o.id = 1000000 + n
"""


@dataclass(frozen=True, slots=True)
class Walk:
    """How long a walk took, and of processors of both sides; how many lines it matched, the longest transaction, and megabytes of both its processes."""

    seconds: float
    processor_seconds: float
    taken: int
    longest: float
    worker_megabytes: float
    server_megabytes: float


def walk(count: int) -> Walk:
    """A statement of so many lines against so many confirmed operations, in one worker."""
    with installation() as there, local_receiver() as port:
        operations(there, port, count)
        _lines(there, count)
        return _walked(there)


def operations(there: Installation, port: int, count: int) -> int:
    """So many confirmed operations of one receiver, whose lines may also be matched by reference; the receiver's id."""
    receiver = prepare(there, port)
    there.submit("bench-whole", {})
    with workers(there, processes=1, slots=SLOTS):
        there.until(lambda: there.one("SELECT count(*) FROM workflows_job WHERE state = 'CONFIRMED'") == 1)
    own = "1000000 + n"
    proposed = {"id": own, "ordinal": own, "operation_key": "'k' || md5(n::text)", "record": "'INV-' || n"}
    operation = {
        **proposed,
        "proposed_id": own,
        "amount_minor": "n % 100000 + 1",
        "currency": "'EUR'",
        "receipt_id": "'R-' || n",
    }
    for table, changed in (("approvals_proposedoperation", proposed), ("dispatch_operation", operation)):
        with without_triggers(there, table):
            copied(there, table, count, changed)
    there.owner.execute("ANALYZE dispatch_operation")  # they have been there for long; the lines come now
    there.owner.execute(
        "INSERT INTO statements_matchingsettings (tenant_id, receiver_id, version, terms, written_by_id, written_at)"
        " SELECT tenant_id, receiver_id, 1, '{\"takes_references\": true}', %s, now() FROM dispatch_operation LIMIT 1",
        [there.person_id],
    )
    return receiver


def _lines(there: Installation, count: int) -> None:
    statement = there.one(_STATEMENT, there.person_id, count, count)
    there.owner.execute(_LINES, [statement, count])
    there.owner.execute("UPDATE statements_statement SET state = 'read' WHERE id = %s", [statement])
    there.owner.execute(
        "UPDATE statements_statement SET state = 'applied', applied_at = now(), applied_by_id = %s WHERE id = %s",
        [there.person_id, statement],
    )


def _walked(there: Installation) -> Walk:
    """Step by step, as a worker's turns are; the batch after a crash would begin where this one is."""
    from access.tenancy import acting
    from statements.matching import running
    from statements.models import Statement

    with acting(there.tenant_id):
        statement = Statement.objects.get()
        running.begin(
            receiver_id=statement.receiver_id,
            statement=statement,
            asked_by=there.person_id,
            now=timezone.now(),
        )
    run = there.one("UPDATE statements_matchrun SET worked_by = 'bench' RETURNING id")
    connection.ensure_connection()
    server, longest, most = connection.connection.info.backend_pid, 0.0, 0.0
    begun = at = time.perf_counter()
    busy = time.process_time() + _processor_seconds(server)
    while running.step(there.tenant_id, run, "bench"):
        longest, at = max(longest, time.perf_counter() - at), time.perf_counter()
        most = max(most, _own_megabytes(server))
    took = time.perf_counter() - begun
    busy = time.process_time() + _processor_seconds(server) - busy
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Walk(took, busy, there.one("SELECT taken FROM statements_matchrun"), longest, mine, most)


def _own_megabytes(process: int) -> float:
    """What a server process has for itself, its share of the common buffers left out. 0 where that cannot be seen."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), 0.0)


def _processor_seconds(process: int) -> float:
    """What a server process has used so far. 0 where that cannot be seen."""
    stat = Path(f"/proc/{process}/stat")
    fields = stat.read_text().rpartition(") ")[2].split() if stat.exists() else ["0"] * 13
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
