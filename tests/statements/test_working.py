"""Reading in batches: killed, taken over, overtaken; the same lines again, in one file and in the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, connection
from django.utils import timezone

from access.tenancy import acting, reading
from config.var import PROJECT
from statements import working
from statements.actions.mapping import AnotherIsUndecided, TooLate
from statements.actions.settling import (
    HasQuestions,
    NothingNew,
    NotReadYet,
    discard_statement,
    settle_repeats,
)
from statements.models import Statement, StatementLine, StatementState, Verdict
from tests.statements.shelf import Shelf, terms
from tests.support import at_once, eventually, running_engine

pytestmark = pytest.mark.django_db(transaction=True)

AUGUST = date(2026, 8, 1)


def days(first: int, last: int, text: str = "") -> bytes:
    """Three lines a day, two of them equal."""
    rows = ["Date;Amount;Reference"]
    for day in range(first, last + 1):
        on = AUGUST + timedelta(days=day - 1)
        rows += [f"{on};-{day},00;fee{text}"] * 2 + [f"{on};{day},50;R{day}{text}"]
    return "\n".join(rows).encode() + b"\n"


def discard(shelf: Shelf, statement_id: int) -> None:
    discard_statement(
        tenant_id=shelf.tenant.pk, statement_id=statement_id, person_id=shelf.operator.pk, now=timezone.now()
    )


def settle(shelf: Shelf, statement_id: int, said: dict[int, Verdict]) -> int:
    return settle_repeats(
        tenant_id=shelf.tenant.pk, statement_id=statement_id, reading_no=shelf.statement(statement_id).reading, rows=said,
        person_id=shelf.operator.pk, now=timezone.now(),
    )  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few rows."""
    monkeypatch.setattr(working, "BATCH_ROWS", 5)


def test_batches_come_to_what_one_would_wherever_a_worker_is_changed(shelf: Shelf, small: None) -> None:
    statement_id = shelf.upload(days(1, 9) + b"2026-08-10;x;bad\n")
    shelf.begin(statement_id)
    for _ in range(3):
        shelf.work(statement_id, turns=1)
        with acting(shelf.tenant.pk):
            Statement.objects.filter(pk=statement_id).update(worked_until=None)
    assert 0 < shelf.statement(statement_id).lines < 27
    shelf.work(statement_id)
    statement = shelf.statement(statement_id)
    assert (statement.state, statement.lines, statement.errors, statement.rows) == ("read", 27, 1, 29)
    assert [line.row_number for line in shelf.lines(statement_id)] == list(range(2, 29))
    assert [line.occurrence for line in shelf.lines(statement_id)] == [1, 2, 1] * 9
    assert shelf.errors(statement_id) == [(29, "Amount")]


def test_two_workers_at_one_batch_write_it_once(shelf: Shelf) -> None:
    """Both have read the same rows; the second finds that the statement has moved on."""
    statement_id = shelf.upload(days(1, 9))
    shelf.begin(statement_id)
    seen = shelf.statement(statement_id)
    batch = working._batch(seen)
    first, second = at_once(lambda: working._commit(seen, batch), lambda: working._commit(seen, batch))
    assert sorted([first, second]) == [False, True]
    assert shelf.statement(statement_id).lines == 27
    assert len(shelf.lines(statement_id)) == 27


def test_a_batch_of_an_earlier_reading_changes_nothing(shelf: Shelf) -> None:
    statement_id = shelf.upload(days(1, 9))
    shelf.begin(statement_id)
    stale = shelf.statement(statement_id)
    batch = working._batch(stale)
    shelf.begin(statement_id, terms(positive="out"))
    assert working._commit(stale, batch) is False
    shelf.work(statement_id)
    assert shelf.signed(statement_id)[:3] == [100, 100, -150]


def test_mapping_anew_deletes_what_was_read_and_reads_from_the_first_byte(
    shelf: Shelf, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "SWEPT_AT_ONCE", 4)
    statement_id = shelf.read(days(1, 3) + b"2026-08-10;x;bad\n", terms(numbers="1234.50"))
    assert (shelf.statement(statement_id).errors, shelf.statement(statement_id).lines) == (10, 0)
    shelf.begin(statement_id)
    shelf.work(statement_id)
    assert (shelf.statement(statement_id).errors, shelf.statement(statement_id).lines) == (1, 9)
    mapping = shelf.statement(statement_id).mapping
    assert mapping is not None
    assert mapping.version == 2
    discard(shelf, statement_id)
    shelf.work(statement_id)
    assert shelf.lines(statement_id) == []
    assert shelf.errors(statement_id) == []


def test_a_second_file_that_overlaps_brings_only_what_is_new(shelf: Shelf, small: None) -> None:
    first = shelf.read(days(1, 15))
    assert shelf.apply(first) == 45
    second = shelf.read(days(10, 20))
    statement = shelf.statement(second)
    assert (statement.lines, statement.repeated, statement.errors) == (15, 18, 0)
    assert {verdict for _, verdict in shelf.repeats(second)} == {Verdict.EQUAL}
    assert shelf.apply(second) == 15
    third = shelf.read(days(1, 20) + b"2026-08-10;-10,00;fee\n")
    assert [line.occurrence for line in shelf.lines(third)] == [3]
    again = shelf.read(days(1, 15) + b"\n", account="another")
    assert shelf.statement(again).lines == 45


def test_rows_that_the_bank_has_worded_anew_are_asked_about_and_neither_doubled_nor_dropped(
    shelf: Shelf,
) -> None:
    shelf.apply(shelf.read(days(8, 10)))
    second = shelf.read(days(9, 12, text=" with more words"))
    assert (shelf.statement(second).lines, shelf.statement(second).repeated) == (12, 0)
    assert shelf.repeats(second) == [(row, Verdict.ASKED) for row in range(2, 8)]
    with pytest.raises(HasQuestions, match="Of 6 rows nobody has said"):
        shelf.apply(second)
    assert settle(shelf, second, dict.fromkeys(range(2, 7), Verdict.SAME)) == 5
    settle(shelf, second, {7: Verdict.ANOTHER})
    assert shelf.apply(second) == 7
    assert [line.row_number for line in shelf.lines(second)] == list(range(7, 14))
    assert (shelf.statement(second).lines, shelf.statement(second).repeated) == (7, 5)
    with pytest.raises(TooLate):
        settle(shelf, second, {7: Verdict.SAME})


def test_a_receivers_own_id_makes_it_the_same_line_whatever_text_is_added(shelf: Shelf) -> None:
    columns = {"booked_on": "Date", "amount": "Amount", "receivers_id": "Id"}
    mapping = terms(columns=columns, texts=["Text"])
    shelf.apply(shelf.read(b"Date;Amount;Id;Text\n2026-08-03;1,00;B1;short\n", mapping))
    second = shelf.read(
        b"Date;Amount;Id;Text\n2026-08-03;1,00;B1;short and long\n2026-08-03;1,00;B2;new\n", mapping
    )
    assert (shelf.statement(second).lines, shelf.repeats(second)) == (1, [(2, Verdict.EQUAL)])


def test_a_file_with_nothing_new_is_not_applied(shelf: Shelf) -> None:
    shelf.apply(shelf.read(days(1, 3)))
    second = shelf.read(days(2, 3))
    with pytest.raises(NothingNew, match="Every line of this file is known already"):
        shelf.apply(second)


def test_another_file_of_the_account_waits_until_the_first_is_decided(shelf: Shelf) -> None:
    first, second = shelf.upload(days(1, 3)), shelf.upload(days(4, 6))
    shelf.begin(first)
    with pytest.raises(AnotherIsUndecided, match=rf"STMT-{first} .* is reading and neither"):
        shelf.begin(second)
    shelf.work(first)
    discard(shelf, first)
    with pytest.raises(AnotherIsUndecided, match="is being deleted"):
        shelf.begin(second)
    shelf.work(first)
    shelf.begin(second)
    elsewhere = shelf.upload(days(1, 3), account="0011")
    shelf.begin(elsewhere)


def test_two_files_begun_at_once_are_read_one_after_the_other(shelf: Shelf) -> None:
    first, second = shelf.upload(days(1, 3)), shelf.upload(days(4, 6))
    results = at_once(lambda: shelf.begin(first), lambda: shelf.begin(second))
    assert sorted(type(r).__name__ for r in results) == ["AnotherIsUndecided", "NoneType"]


def test_two_people_apply_at_once_and_one_is_told_who_did(shelf: Shelf) -> None:
    statement_id = shelf.read(days(1, 3))
    results = at_once(lambda: shelf.apply(statement_id), lambda: shelf.apply(statement_id))
    assert sorted(str(r) for r in results) == [
        "9",
        f"{shelf.operator.username} has applied STMT-{statement_id} already.",
    ]


def test_nothing_is_applied_before_it_is_read_to_its_end(shelf: Shelf, small: None) -> None:
    statement_id = shelf.upload(days(1, 9))
    with pytest.raises(NotReadYet):
        shelf.apply(statement_id)
    shelf.begin(statement_id)
    shelf.work(statement_id, turns=2)
    with pytest.raises(NotReadYet):
        shelf.apply(statement_id)


@pytest.mark.parametrize(
    ("attempt", "why"),
    [
        ("UPDATE statements_statement SET state = 'applied', applied_at = now(), applied_by_id = uploaded_by_id, errors = 0",
         "has rows that nobody has settled"),
        ("UPDATE statements_statement SET digest = repeat('0', 64)", "permission denied"),
        ("UPDATE statements_statementline SET amount = 1", "permission denied"),
        ("INSERT INTO statements_rowerror (tenant_id, statement_id, row_number, \"column\", was_read, problem)"
         " SELECT tenant_id, id, 1, '', '', '' FROM statements_statement", "is not being read"),
        ("DELETE FROM statements_statement", "permission denied"),
        ("UPDATE statements_statementpart SET content = 'x'", "permission denied"),
        ("INSERT INTO statements_statementline (tenant_id, statement_id, receiver_id, account, row_number, booked_on, amount,"
         " currency, direction, receivers_id, reference, text, counterparty, counterparty_account, fingerprint, occurrence, raw)"
         " SELECT tenant_id, statement_id, receiver_id, account, 99, booked_on, amount, currency, direction, '', '', '', '', '',"
         " 'f', 1, '' FROM statements_statementline LIMIT 1", "is not being read"),
        ("INSERT INTO statements_statementline (tenant_id, statement_id, receiver_id, account, row_number, booked_on, amount,"
         " currency, direction, receivers_id, reference, text, counterparty, counterparty_account, fingerprint, occurrence, raw)"
         " SELECT tenant_id, statement_id, -1, account, 99, booked_on, amount, currency, direction, '', '', '', '', '',"
         " 'f', 1, '' FROM statements_statementline LIMIT 1", "of no statement of its receiver"),
    ],
)  # fmt: skip
def test_the_database_refuses_what_no_action_does(shelf: Shelf, attempt: str, why: str) -> None:
    statement_id = shelf.read(days(1, 1) + b"x;y;z\n")
    with (
        pytest.raises(DatabaseError, match=why),
        acting(shelf.tenant.pk),
        connection.cursor() as cursor,
    ):
        cursor.execute(attempt)
    assert shelf.statement(statement_id).state == StatementState.READ


def test_what_is_applied_stays(shelf: Shelf) -> None:
    statement_id = shelf.read(days(1, 1))
    shelf.apply(statement_id)
    with pytest.raises(IntegrityError, match="is not being read"), acting(shelf.tenant.pk):
        StatementLine.objects.all().delete()
    with pytest.raises(IntegrityError, match="not changed any more"), acting(shelf.tenant.pk):
        Statement.objects.filter(pk=statement_id).update(lines=0)
    assert len(shelf.lines(statement_id)) == 3


def test_no_line_goes_while_its_statement_is_being_applied(shelf: Shelf) -> None:
    """Somebody applies and has not committed; a deletion past every action waits for that, and is then refused."""
    statement_id = shelf.read(days(1, 1))
    with (
        psycopg.connect(os.environ["DATABASE_URL"]) as applying,
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as looking,
        ThreadPoolExecutor(1) as pool,
    ):
        applying.execute(
            "UPDATE statements_statement SET state = 'applied', applied_at = now(), applied_by_id = uploaded_by_id"
        )
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        deletion = pool.submit(_delete_lines)
        eventually(lambda: looking.execute(blocked, [applying.info.backend_pid]).fetchone() == (1,))
        applying.commit()
        with pytest.raises(psycopg.errors.CheckViolation, match="is not being read"):
            deletion.result(20)
    assert len(shelf.lines(statement_id)) == 3


def _delete_lines() -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as deleting:
        deleting.execute("DELETE FROM statements_statementline")


def test_an_engine_finds_what_is_to_be_read_and_what_is_to_be_deleted(shelf: Shelf) -> None:
    statement_id = shelf.upload(days(1, 3))
    shelf.begin(statement_id)
    with running_engine(1):
        eventually(
            lambda: shelf.statement(statement_id).state == StatementState.READ,
            what="a statement that is read",
        )
        assert len(shelf.lines(statement_id)) == 9
        discard(shelf, statement_id)
        eventually(lambda: not shelf.lines(statement_id), what="lines that are deleted")


_WORKER = """
import os, sys, django
django.setup()
from statements import working
working.BATCH_ROWS = 200
tenant, statement = map(int, sys.argv[1:])
write = working.writing.write
done = 0
def counted(*arguments):
    global done
    result = write(*arguments)
    done += 1
    if done == 4:  # inside the transaction of the fourth batch: its rows are written and not committed
        print("here", flush=True)
        import signal
        signal.pause()
    return result
working.writing.write = counted
while working.turn(tenant, statement, "killed"):
    pass
"""


@pytest.mark.processes
def test_a_worker_that_is_killed_in_the_middle_of_a_batch_leaves_whole_ones_and_the_next_goes_on(
    shelf: Shelf,
) -> None:
    rows = "".join(f"2026-08-{1 + n % 28:02d};{n % 50},00;R{n // 3}\n" for n in range(3000))
    statement_id = shelf.upload(f"Date;Amount;Reference\n{rows}".encode())
    shelf.begin(statement_id)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(shelf.tenant.pk), str(statement_id)],
        cwd=PROJECT, env=environment, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"here\n"
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    eventually(
        lambda: len(shelf.lines(statement_id)) == shelf.statement(statement_id).lines > 0,
        what="whole batches",
    )
    assert shelf.statement(statement_id).lines == 599
    with acting(shelf.tenant.pk):  # its ten seconds may be over on a busy machine
        Statement.objects.filter(pk=statement_id).update(worked_until=timezone.now() + timedelta(minutes=9))
    assert working.turn(shelf.tenant.pk, statement_id, "another") is False, "held by the dead one for a while"
    with acting(shelf.tenant.pk):
        Statement.objects.filter(pk=statement_id).update(worked_until=timezone.now() - timedelta(seconds=1))
    shelf.work(statement_id)
    lines = shelf.lines(statement_id)
    assert [line.row_number for line in lines] == list(range(2, 3002))
    assert len({(bytes(line.fingerprint), line.occurrence) for line in lines}) == 3000
    with reading(shelf.tenant.pk):
        assert Statement.objects.get(pk=statement_id).state == StatementState.READ
