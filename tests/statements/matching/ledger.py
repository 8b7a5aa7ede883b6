"""Operations and lines by the thousand, as the tables have them: for what no test could wait to see made one by one.

Only the tables' owner can put an operation into a state that nobody brought it to.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar

import psycopg

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from statements.matching import effects, running
from statements.matching.models import Finding, Match, MatchRun
from statements.matching.settings import Settings
from tests.approvals.world import World
from tests.dispatch.world import Dispatching, a_contract
from tests.reconciliation.world import Desk
from tests.support import make_person
from workflows.models import Job

DAY = date(2026, 3, 12)


@dataclass
class Ledger:
    """One receiver, one job whose operations were all sent the day before `DAY`, and statements of that receiver."""

    world: World
    operator: Person
    admin: Person
    proposal_id: int
    job_id: int
    receiver_id: int
    owner: psycopg.Connection[Any] = field(repr=False)
    last: int = 0
    """The statement that was made last."""

    made: ClassVar[Ledger]

    @classmethod
    def make(cls) -> Ledger:
        sending = Dispatching.make("http://127.0.0.1:9", a_contract())
        return cls._of(sending.world, sending.ready("V-0"))

    @classmethod
    def at(cls, desk: Desk) -> Ledger:
        """Of a desk's receiver, whose operations were really sent."""
        return cls._of(desk.world, desk.sending.ready("V-0"))

    @classmethod
    def _of(cls, world: World, job: Job) -> Ledger:
        proposal = world.proposal(job)
        owner = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        (receiver_id,) = owner.execute(
            "SELECT id FROM dispatch_receiver WHERE tenant_id = %s", [world.tenant.pk]
        ).fetchone() or (0,)
        operator, admin = make_person(world.tenant, Role.OPERATOR), make_person(world.tenant, Role.ADMIN)
        return cls(world, operator, admin, proposal.pk, job.pk, receiver_id, owner)

    @classmethod
    def of_this_test(cls) -> Ledger:
        """The one that an earlier example of the same test has made, or a new one."""
        tenant = Tenant.objects.order_by("-pk").first()
        if tenant is None:
            cls.made = cls.make()
        return cls.made

    @property
    def tenant(self) -> Tenant:
        return self.world.tenant

    def operations(self, rows: list[dict[str, Any]]) -> list[int]:
        """Operations with these columns; their ids."""
        born = ("approvals_proposedoperation", "dispatch_operation")
        with self.owner.transaction():
            for table in born:
                self.owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            ids = [self._operation(row) for row in rows]
            for table in born:
                self.owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        return ids

    def _operation(self, row: dict[str, Any]) -> int:
        values = {
            "amount_minor": 25000, "currency": "EUR", "record": "INV-1", "operation_key": f"k{secrets.token_hex(12)}",
            "receipt_id": "", "account": "", "state": "CONFIRMED", "sent": "2026-03-11T12:00:00Z", **row,
        }  # fmt: skip
        found = self.owner.execute(
            "WITH p AS (INSERT INTO approvals_proposedoperation (tenant_id, proposal_id, ordinal, operation_key,"
            " receiver, contract_version, account, record, title, method, target, headers, body, body_digest, independent)"
            " SELECT tenant_id, proposal_id, (SELECT max(ordinal) + 1 FROM approvals_proposedoperation WHERE proposal_id ="
            " %(proposal)s), %(operation_key)s, receiver, contract_version, account, %(record)s, title, method, target,"
            " headers, body, body_digest, true FROM approvals_proposedoperation WHERE proposal_id = %(proposal)s LIMIT 1"
            " RETURNING id, tenant_id, ordinal)"
            " INSERT INTO dispatch_operation (tenant_id, job_id, proposed_id, receiver_id, contract_id, ordinal,"
            " operation_key, account, record, amount_minor, currency, state, version, next_step, ordered_by,"
            " automatic_resubmissions, lookups, receipt_id, fate_note, created_at, first_may_have_been_sent_at)"
            " SELECT p.tenant_id, %(job)s, p.id, c.receiver_id, c.id, p.ordinal, %(operation_key)s, %(account)s,"
            " %(record)s, %(amount_minor)s, %(currency)s, %(state)s, 1, '', '', 0, 0, %(receipt_id)s, '', now(), %(sent)s"
            " FROM p, dispatch_receivercontract c WHERE c.receiver_id = %(receiver)s ORDER BY c.version DESC LIMIT 1"
            " RETURNING id",
            {**values, "proposal": self.proposal_id, "job": self.job_id, "receiver": self.receiver_id},
        ).fetchone()
        assert found is not None
        return int(found[0])

    def statement(self, rows: list[dict[str, Any]], **columns: Any) -> tuple[int, list[int]]:
        """An applied statement with these lines; its id and theirs."""
        values = {
            "state": "reading",
            "digest": secrets.token_hex(32),
            "account": "",
            **dict.fromkeys(("first", "last", "opening", "closing")),
            **columns,
        }
        (statement_id,) = self.owner.execute(
            "INSERT INTO statements_statement (tenant_id, receiver_id, account, name, digest, size, format, encoding,"
            " evidence, uploaded_by_id, uploaded_at, state, reading, position, rows, lines, repeated, errors, left_out,"
            " currency, amount_in, amount_out, worked_by)"
            " VALUES (%s, %s, %s, 'file.csv', %s, 1, 'csv', 'utf-8', '', %s, now(), 'reading', 1, 1, %s, %s, 0, 0, 0, 'EUR',"
            " 0, 0, '') RETURNING id",
            [self.tenant.pk, self.receiver_id, values["account"], values["digest"], self.operator.pk, len(rows), len(rows)],
        ).fetchone() or (0,)  # fmt: skip
        ids = [self._line(statement_id, number, row) for number, row in enumerate(rows, 2)]
        self.owner.execute(
            "UPDATE statements_statement SET state = 'read', first_booked_on = %s, last_booked_on = %s, opening = %s, closing = %s,"
            " amount_out = (SELECT coalesce(sum(amount), 0) FROM statements_statementline WHERE statement_id = %s) WHERE id = %s",
            [
                values["first"],
                values["last"],
                values["opening"],
                values["closing"],
                statement_id,
                statement_id,
            ],
        )
        self.owner.execute(
            "UPDATE statements_statement SET state = 'applied', applied_at = now(), applied_by_id = %s WHERE id = %s",
            [self.operator.pk, statement_id],
        )
        self.last = int(statement_id)
        return self.last, ids

    def _line(self, statement_id: int, number: int, row: dict[str, Any]) -> int:
        values = {
            "amount": 25000, "currency": "EUR", "direction": "out", "booked_on": DAY, "reference": "", "receivers_id": "",
            "text": "", "account": "", "counterparty": "", **row,
        }  # fmt: skip
        fingerprint = hashlib.sha256(f"{statement_id} {number}".encode()).digest()
        (line_id,) = self.owner.execute(
            "INSERT INTO statements_statementline (tenant_id, statement_id, receiver_id, account, row_number, booked_on,"
            " amount, currency, direction, receivers_id, reference, text, counterparty, counterparty_account, fingerprint,"
            " occurrence, raw) VALUES (%(tenant)s, %(statement)s, %(receiver)s, %(account)s, %(number)s, %(booked_on)s,"
            " %(amount)s, %(currency)s, %(direction)s, %(receivers_id)s, %(reference)s, %(text)s, %(counterparty)s, '',"
            " %(fingerprint)s, 1, '') RETURNING id",
            {
                **values, "tenant": self.tenant.pk, "statement": statement_id, "receiver": self.receiver_id,
                "number": number, "fingerprint": fingerprint,
            },
        ).fetchone() or (0,)  # fmt: skip
        return int(line_id)

    def walk(
        self, settings: Settings | None = None, *, lines: int = 5000, statement_id: int | None = None
    ) -> MatchRun:
        """Walk the ladder over everything, as a worker does."""
        (run_id,) = self.owner.execute(
            "INSERT INTO statements_matchrun (tenant_id, receiver_id, statement_id, settings_version, terms, asked_at,"
            " to_look_at, rung, at_statement, at_row, looked_at, taken, differing, worked_by)"
            " VALUES (%s, %s, %s, 0, %s, now(), 0, 0, 0, 0, 0, 0, 0, 'w') RETURNING id",
            [self.tenant.pk, self.receiver_id, statement_id, (settings or Settings()).model_dump_json()],
        ).fetchone() or (0,)
        while running.step(self.tenant.pk, run_id, "w", lines=lines):
            pass
        with reading(self.tenant.pk):
            return MatchRun.objects.get(pk=run_id)

    def take(self) -> None:
        """Take what lines say into their operations, as a worker does."""
        while effects.turn(self.tenant.pk, 0, "w"):
            pass

    def unstopped(self) -> None:
        """The job as it is while its operations are in doubt, which nobody derived from rows that were put there."""
        self.owner.execute("ALTER TABLE workflows_job DISABLE TRIGGER USER")
        self.owner.execute(
            "UPDATE workflows_job SET state = 'NEEDS_RECONCILIATION' WHERE id = %s", [self.job_id]
        )
        self.owner.execute("ALTER TABLE workflows_job ENABLE TRIGGER USER")

    def match(self, row: dict[str, Any]) -> None:
        """Insert a match past every check but the database's."""
        values = {
            "tenant_id": self.tenant.pk, "line_place": 0, "operation_place": 0, "together": "", "allocated": 25000, "tier": 0,
            "rule_version": 1, "settings_version": 0, "compared": "[]", "within_tolerance": False, "reason": "",
            "made_at": "2026-03-13T09:00:00Z", **row,
        }  # fmt: skip
        places = ", ".join(f"%({name})s" for name in values)
        self.owner.execute(f"INSERT INTO statements_match ({', '.join(values)}) VALUES ({places})", values)

    def matches(self) -> list[tuple[int, int, int]]:
        """Line, operation and rung of every match that stands."""
        with reading(self.tenant.pk):
            rows = Match.objects.filter(unmade_at__isnull=True).order_by("line_id")
            return list(rows.values_list("line_id", "operation_id", "tier"))

    def findings(self) -> list[tuple[int, int, str]]:
        with reading(self.tenant.pk):
            return list(Finding.objects.order_by("pk").values_list("line_id", "operation_id", "says"))
