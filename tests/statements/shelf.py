"""A receiver whose statements come: files by name, mappings with one thing changed, and workers that read."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting, reading
from dispatch.models import Receiver
from statements import working
from statements.actions.mapping import read_statement
from statements.actions.settling import apply_statement
from statements.actions.uploading import upload_statement
from statements.models import RepeatedRow, RowError, Statement, StatementLine, Verdict
from statements.terms import Terms
from tests.support import make_person, make_tenant

INPUTS = Path(__file__).parent / "inputs"


def content_of(name: str) -> bytes:
    """One of the files beside this."""
    return (INPUTS / name).read_bytes()


def terms(**changes: Any) -> Terms:
    """Semicolons, ISO dates, decimal commas, euros; the columns Date, Amount and Reference."""
    values: dict[str, Any] = {
        "delimiter": ";",
        "columns": {"booked_on": "Date", "amount": "Amount", "reference": "Reference"},
        "dates": "YYYY-MM-DD",
        "numbers": "1.234,50",
        "currency": "EUR",
        "time_zone": "Europe/Berlin",
    }
    return Terms.model_validate({**values, **changes})


PAYEE = {"booked_on": "Date", "amount": "Amount", "counterparty": "Payee"}


@dataclass
class Shelf:
    """One receiver of one organisation, and an operator."""

    tenant: Tenant
    operator: Person
    receiver: Receiver
    account: str = "0010"

    @classmethod
    def make(cls) -> Shelf:
        tenant = make_tenant()
        with acting(tenant.pk):
            receiver = Receiver.objects.create(
                tenant=tenant, name="bank", title="The bank", base_url="http://127.0.0.1:1", account="0010"
            )
        return cls(tenant, make_person(tenant, Role.OPERATOR), receiver)

    def upload(self, content: bytes, *, name: str = "august.csv", account: str | None = None) -> int:
        uploaded = upload_statement(
            tenant_id=self.tenant.pk,
            receiver_id=self.receiver.pk,
            account=self.account if account is None else account,
            name=name,
            content=lambda: [content],
            person_id=self.operator.pk,
            now=timezone.now(),
        )
        return uploaded.statement_id

    def begin(self, statement_id: int, mapping: Terms | None = None) -> None:
        read_statement(
            tenant_id=self.tenant.pk,
            statement_id=statement_id,
            terms=mapping or terms(),
            person_id=self.operator.pk,
            now=timezone.now(),
        )

    def work(self, statement_id: int, turns: int = 0) -> None:
        """Do what the engine does: turns until there is no more to do, or so many."""
        worker, done = secrets.token_hex(4), 0
        while working.turn(self.tenant.pk, statement_id, worker):
            done += 1
            if done == turns:
                break

    def read(self, content: bytes, mapping: Terms | None = None, **upload: Any) -> int:
        """Upload a file and read it to its end."""
        statement_id = self.upload(content, **upload)
        self.begin(statement_id, mapping)
        self.work(statement_id)
        return statement_id

    def apply(self, statement_id: int) -> int:
        return apply_statement(
            tenant_id=self.tenant.pk,
            statement_id=statement_id,
            reading_no=self.statement(statement_id).reading,
            person_id=self.operator.pk,
            now=timezone.now(),
        )

    def statement(self, statement_id: int) -> Statement:
        with reading(self.tenant.pk):
            return Statement.objects.select_related("mapping").get(pk=statement_id)

    def lines(self, statement_id: int) -> list[StatementLine]:
        with reading(self.tenant.pk):
            return list(StatementLine.objects.filter(statement=statement_id).order_by("row_number"))

    def errors(self, statement_id: int) -> list[tuple[int, str]]:
        """Rows that are wrong, and the columns."""
        with reading(self.tenant.pk):
            found = RowError.objects.filter(statement=statement_id).order_by("row_number", "pk")
            return [(e.row_number, e.column) for e in found]

    def problems(self, statement_id: int) -> str:
        """Everything that is said of them."""
        with reading(self.tenant.pk):
            found = RowError.objects.filter(statement=statement_id).order_by("row_number", "pk")
            return "\n".join(f"{e.row_number}: {e.problem}" for e in found)

    def repeats(self, statement_id: int) -> list[tuple[int, Verdict]]:
        with reading(self.tenant.pk):
            found = RepeatedRow.objects.filter(statement=statement_id).order_by("row_number")
            return [(r.row_number, Verdict(r.verdict)) for r in found]

    def signed(self, statement_id: int) -> list[int]:
        """The amounts of its lines with their signs, in the smallest unit."""
        return [-line.amount if line.direction == "out" else line.amount for line in self.lines(statement_id)]
