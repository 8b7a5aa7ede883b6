"""The queue of cases: its page over few and over many that are open."""

from __future__ import annotations

from dataclasses import dataclass

from bench.installation import Installation, installation, workers
from bench.ours import SLOTS
from bench.pages import collected, copied, page, signed_in, web, without_triggers
from bench.whole import local_receiver, prepare

PATH = "/t/bench/cases/"
_CASE = """
INSERT INTO reconciliation_case (tenant_id, kind, job_id, operation_id, receiver_id, fault, title, detail, owner_role,
  blocking, opened_at, due_at, version, resolution, resolution_reason)
SELECT o.tenant_id, 'unknown outcome', o.job_id, o.id, o.receiver_id, 'sent, no answer in time', 'Did it?', 'no answer',
  'operator', true, now(), now(), 0, '', '' FROM dispatch_operation o
"""


@dataclass(frozen=True, slots=True)
class Queue:
    """Milliseconds of the page, p95: as it opens, one in the middle of the list, one kind, one receiver's that is late."""

    top: float
    middle: float
    kind: float
    narrowed: float


def queue(open_cases: int, times: int = 40) -> Queue:
    """The page with so many open cases, each about an operation of a job of its own, opened over two weeks."""
    with installation() as there, local_receiver() as port:
        prepare(there, port)
        (cookie,) = signed_in(there, 1, "operator")
        there.submit("bench-whole", {})
        with workers(there, processes=1, slots=SLOTS):
            there.until(
                lambda: there.one("SELECT count(*) FROM workflows_job WHERE state = 'CONFIRMED'") == 1
            )
        clone(there, open_cases)
        collected()
        middle = there.one(
            "SELECT (extract(epoch FROM due_at) * 1e6)::bigint || '-' || id FROM reconciliation_case"
            " ORDER BY due_at OFFSET %s LIMIT 1",
            open_cases // 2,
        )
        with web(there) as door:
            return Queue(
                page(door, cookie, PATH, times),
                page(door, cookie, f"{PATH}?after={middle}", times),
                page(door, cookie, f"{PATH}?kind=unknown", times),
                page(door, cookie, f"{PATH}?receiver=local&owner=nobody&due=late", times),
            )


def clone(there: Installation, count: int) -> None:
    """So many copies of the one job with its journal, proposal, operation and case; one in ten of another kind."""
    there.owner.execute(_CASE)
    own = "1000000 + n"
    for table, changed in (
        ("workflows_job", {"id": own, "submission_key": "'copy ' || n"}),
        ("approvals_proposal", {"id": own, "job_id": own}),
        ("approvals_proposedoperation", {"id": own, "proposal_id": own, "operation_key": "'copy ' || n"}),
        (
            "dispatch_operation",
            {"id": own, "job_id": own, "proposed_id": own, "operation_key": "'copy ' || n"},
        ),
        (
            "reconciliation_case",
            {
                "id": own,
                "job_id": own,
                "operation_id": own,
                "kind": "CASE WHEN n % 10 = 0 THEN 'conflicted' ELSE t.kind END",
                "opened_at": "t.opened_at - n * interval '1 minute'",
                "due_at": "t.due_at + (n - 100) * interval '1 minute'",
            },
        ),
    ):
        with without_triggers(there, table):
            copied(there, table, count, changed)
        there.owner.execute(f"VACUUM ANALYZE {table}")
