"""Opening and closing the case of a statement's unclaimed lines: an errand, and inside what people do about them.

Whoever does it holds the statement, so nothing is said of its lines meanwhile. A statement is left alone while a walk of
the ladder is under way over it: what it will claim nobody has to look at.
"""

from __future__ import annotations

from datetime import datetime

from access.roles import Actor, ActorKind
from access.tenancy import acting
from reconciliation import notifying
from reconciliation.casework import close_case, insert_evidence, tell
from reconciliation.due_times import due_after
from reconciliation.kinds import terms_of
from reconciliation.locks import lock_open_case_of
from reconciliation.models import Case, CaseKind
from statements.locks import lock_statement
from statements.matching.asides import amounts_of, in_words, unclaimed
from statements.matching.models import Tally
from statements.models import Statement
from workflows import clock
from workflows.errands import Errand

ANSWERED = "every line is claimed or set aside"
FIND = """
SELECT t.tenant_id, t.statement_id FROM statements_tally t JOIN statements_statement s ON s.id = t.statement_id
WHERE t.stale AND NOT EXISTS (SELECT FROM statements_matchrun r WHERE r.receiver_id = s.receiver_id
  AND r.ended_at IS NULL AND (r.statement_id IS NULL OR r.statement_id = s.id)) ORDER BY t.statement_id LIMIT 20
"""


def turn(tenant_id: int, statement_id: int, worker: str) -> bool:
    """Look after one statement; never more at once. A repeat, by anybody, changes nothing."""
    with acting(tenant_id):
        look_after(lock_statement(statement_id), Actor(ActorKind.WORKER, worker), clock.now())
    return False


def look_after(statement: Statement, actor: Actor, now: datetime, second: Actor | None = None) -> None:
    """Have a locked statement have an open case where lines of it are unclaimed, and none where there are none.

    `second`: who has agreed to what settled the last of them.
    """
    tally = Tally.objects.get(statement=statement)
    case = lock_open_case_of(statement)
    left = statement.lines - tally.lines - tally.aside
    if left and case is None:
        _open(statement, actor, now)
    elif not left and case is not None:
        close_case(job=None, case=case, resolution=ANSWERED, reason="", actor=actor, now=now, second=second)
    Tally.objects.filter(pk=tally.pk, stale=True).update(stale=False)


def _open(statement: Statement, actor: Actor, now: datetime) -> None:
    terms = terms_of(CaseKind.UNCLAIMED)
    lines = in_words(amounts_of(unclaimed(statement.pk)))
    told = f"{lines}, and no operation claims {'it' if lines.startswith('1 line:') else 'them'}."
    if (earlier := Case.objects.filter(statement=statement).order_by("-pk").first()) is not None:
        told = (
            f"{told} {earlier.label} was closed before; a match, or what was set aside, has been taken back."
        )
    case = Case.objects.create(
        tenant_id=statement.tenant_id,
        kind=CaseKind.UNCLAIMED.value,
        statement=statement,
        receiver_id=statement.receiver_id,
        title=f"What are the unclaimed lines of {statement.label}, {statement.name}?"[:300],
        detail=told,
        owner_role=terms.owner.value,
        blocking=False,
        opened_at=now,
        due_at=now + due_after(CaseKind.UNCLAIMED, statement.receiver_id),
    )
    insert_evidence(case, told, statement.label, now)
    evidence = {
        "case": case.pk, "kind": case.kind, "statement": statement.pk, "owner": case.owner_role,
        "due_at": case.due_at.isoformat(),
    }  # fmt: skip
    tell(None, event="case.opened", actor=actor, evidence=evidence)
    notifying.case_opened(statement, case, now)


ERRAND = Errand("look after unclaimed lines", FIND, turn)
