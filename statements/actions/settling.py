"""What a person decides about a statement that is read: apply it, discard it, or say whether a row is known."""

from __future__ import annotations

from datetime import datetime

from access import authority
from access.refusals import Conflict, NotFound, Unprocessable
from access.roles import Role
from access.tenancy import acting
from access.tenant_journal import record
from statements.actions.mapping import check_open
from statements.locks import lock_statement
from statements.matching import running
from statements.models import RepeatedRow, Statement, StatementLine, StatementState, Verdict


class NotReadYet(Conflict):
    """Workers have not come to the end of the file, or nobody has said how it is to be read."""


class HasErrors(Unprocessable):
    """Rows of the file are no lines; nothing is applied while there is one."""


class HasQuestions(Unprocessable):
    """Of some rows nobody has said whether they are known."""


class NothingNew(Unprocessable):
    """Every line is known already, so there is nothing to apply."""


class NoSuchRow(NotFound):
    """The statement has no such repeated row."""


def apply_statement(
    *, tenant_id: int, statement_id: int, reading_no: int, person_id: int, now: datetime
) -> int:
    """Have the lines count, all at once and for good, and workers match them; how many. `reading_no`: the reading seen.

    Lines that a person called known go. Locks the statement.
    Raises NotPermitted, NoSuchStatement, TooLate, NotReadYet, HasErrors, HasQuestions, NothingNew.
    """
    with acting(tenant_id, lock_timeout_ms=5000):
        actor = authority.require(person_id, Role.OPERATOR)
        statement = lock_statement(statement_id)
        check_open(statement)
        _check_seen(statement, reading_no)
        _check_clean(statement)
        same = RepeatedRow.objects.filter(statement=statement, verdict=Verdict.SAME)
        gone = list(same.values_list("line_id", flat=True))
        if statement.lines <= len(gone):
            raise NothingNew("Every line of this file is known already: discard it.")
        same.update(line=None)
        StatementLine.objects.filter(statement=statement, pk__in=gone).delete()
        lines = statement.lines - len(gone)
        Statement.objects.filter(pk=statement.pk).update(
            state=StatementState.APPLIED,
            applied_by_id=person_id,
            applied_at=now,
            lines=lines,
            repeated=statement.repeated + len(gone),
        )
        evidence = {
            "statement": statement.pk,
            "digest": statement.digest,
            "mapping": statement.mapping.version if statement.mapping else 0,
            "lines": lines,
            "repeated": statement.repeated + len(gone),
        }
        record(event="statement.applied", actor=actor, evidence=evidence)
        statement.lines = lines
        running.begin(receiver_id=statement.receiver_id, statement=statement, asked_by=person_id, now=now)
        return lines


def discard_statement(*, tenant_id: int, statement_id: int, person_id: int, now: datetime) -> None:
    """Put a statement away that is not applied. Its file stays; workers delete what was read of it. Locks the statement.

    Raises NotPermitted, NoSuchStatement, TooLate.
    """
    with acting(tenant_id):
        actor = authority.require(person_id, Role.OPERATOR)
        statement = lock_statement(statement_id)
        check_open(statement)
        Statement.objects.filter(pk=statement.pk).update(
            state=StatementState.DISCARDED,
            discarded_by_id=person_id,
            discarded_at=now,
            worked_until=None,
            swept_at=now if statement.reading == 0 else None,
        )
        record(
            event="statement.discarded",
            actor=actor,
            evidence={"statement": statement.pk, "state": statement.state},
        )


def settle_repeats(
    *,
    tenant_id: int,
    statement_id: int,
    reading_no: int,
    rows: dict[int, Verdict],
    person_id: int,
    now: datetime,
) -> int:
    """Say of rows, by their numbers, whether each is the earlier line or another one; how many. Locks the statement.

    `reading_no`: the reading seen, since a row of another one may say something else.
    An answer can be changed until the statement is applied. Raises NotPermitted, NoSuchStatement, TooLate, NotReadYet,
    NoSuchRow.
    """
    with acting(tenant_id):
        actor = authority.require(person_id, Role.OPERATOR)
        statement = lock_statement(statement_id)
        check_open(statement)
        _check_seen(statement, reading_no)
        asked = RepeatedRow.objects.filter(statement=statement).exclude(verdict=Verdict.EQUAL)
        for verdict in (Verdict.SAME, Verdict.ANOTHER):
            numbers = [number for number, said in rows.items() if said is verdict]
            changed = asked.filter(row_number__in=numbers)
            if changed.update(verdict=verdict, decided_by_id=person_id, decided_at=now) != len(numbers):
                raise NoSuchRow(
                    "Not every one of these rows is in question (any more). Look at the statement again."
                )
        evidence = {
            "statement": statement.pk,
            "rows": {str(n): v.value for n, v in sorted(rows.items())[:1000]},
        }
        record(event="statement.rows_settled", actor=actor, evidence=evidence)
        return len(rows)


def _check_seen(statement: Statement, reading_no: int) -> None:
    if statement.state != StatementState.READ:
        raise NotReadYet(f"{statement.label} is not read to its end yet.")
    if statement.reading != reading_no:
        raise NotReadYet(
            f"{statement.label} has been read anew since this page was opened. Look at it again."
        )


def _check_clean(statement: Statement) -> None:
    if statement.errors:
        raise HasErrors(
            f"{statement.errors:,} row{'s are' if statement.errors != 1 else ' is'} wrong, so nothing is applied. "
            "Map the columns otherwise, or upload a mended file."
        )
    asked = RepeatedRow.objects.filter(statement=statement, verdict=Verdict.ASKED).count()
    if asked:
        raise HasQuestions(
            f"Of {asked:,} row{'s' if asked != 1 else ''} nobody has said whether they are known."
        )
