"""A statement of a million lines: uploaded, read by one real worker process, applied and matched against as many operations.

One installation, one worker, from the file to the last match; how long each takes, and the memory.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.core.files.base import File

from bench.installation import Installation, installation, workers
from bench.matching import operations
from bench.whole import local_receiver


@dataclass(frozen=True)
class Reconciled:
    """Seconds of each step; lines matched; the most that the worker process has held at once, in MB; bytes of the file."""

    uploaded: float
    read: float
    applied: float
    matched: float
    taken: int
    megabytes: float
    size: int

    @property
    def seconds(self) -> float:
        return self.uploaded + self.read + self.applied + self.matched


def reconciled(lines: int) -> Reconciled:
    """Bring a file of so many lines from upload to the end of matching it against as many confirmed operations."""
    with installation() as there, local_receiver() as port, tempfile.TemporaryFile() as file:
        receiver = operations(there, port, lines)
        _may_bring_statements(there)
        file.writelines(content(lines))
        with workers(there, processes=1, slots=8):
            pid = int(there.one("SELECT pid FROM workflows_worker WHERE ended_at IS NULL"))
            began = time.monotonic()
            statement, size = _upload(there, receiver, File(file))
            uploaded = time.monotonic()
            _begin(there, statement)
            there.until(lambda: there.one("SELECT state FROM statements_statement") == "read", 1800)
            read = time.monotonic()
            _apply(there, statement)
            applied = time.monotonic()
            there.until(lambda: there.one("SELECT ended_at FROM statements_matchrun"), 1800)
            matched = time.monotonic()
            assert there.one("SELECT count(*) FROM statements_statementline") == lines
            taken = int(there.one("SELECT taken FROM statements_matchrun"))
            spans = (uploaded - began, read - uploaded, applied - read, matched - applied)
            return Reconciled(*spans, taken, _most_held(pid), size)


def content(lines: int) -> Iterator[bytes]:
    """A table as banks write it, in chunks: a third names our key, a third the receiver's id, a third a reference, and one
    line in fifty is nobody's."""
    day = f"{datetime.now(UTC):%d.%m.%Y}"
    yield "Buchungstag;Valuta;Betrag;Währung;Kennung;Referenz;Verwendungszweck;Empfänger\r\n".encode()
    for first in range(1, lines + 1, 1000):
        yield "".join(_row(n, day) for n in range(first, min(first + 1000, lines + 1))).encode()


def _row(n: int, day: str) -> str:
    minor = n % 100_000 + 1
    amount = (
        f"-{minor // 100_000}.{minor // 100 % 1000:03d},{minor % 100:02d}"
        if minor >= 100_000
        else f"-{minor // 100},{minor % 100:02d}"
    )
    receivers_id = f"R-{n}" if n % 3 == 1 else ""
    reference = f"inv-{n}" if n % 3 == 2 else ""
    key = hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest()
    text = (
        "card fee"
        if n % 50 == 0
        else f"SEPA CT K{key.upper()}"
        if n % 3 == 0
        else f"Rechnung {n} für Leistungen"
    )
    return f"{day};{day};{amount};EUR;{receivers_id};{reference};{text};Müller & Söhne {n % 9973}\r\n"


def _may_bring_statements(there: Installation) -> None:
    from access.models import Membership
    from access.roles import Role
    from access.tenancy import acting

    with acting(there.tenant_id):
        Membership.objects.create(tenant_id=there.tenant_id, person_id=there.person_id, role=Role.OPERATOR)


def _upload(there: Installation, receiver_id: int, file: File[bytes]) -> tuple[int, int]:
    from django.utils import timezone

    from statements.actions.uploading import upload_statement

    made = upload_statement(
        tenant_id=there.tenant_id, receiver_id=receiver_id, account="", name="august.csv",
        content=file.chunks, person_id=there.person_id, now=timezone.now(),
    )  # fmt: skip
    return made.statement_id, int(there.one("SELECT size FROM statements_statement"))


def _begin(there: Installation, statement_id: int) -> None:
    from django.utils import timezone

    from statements.actions.mapping import read_statement
    from statements.terms import Terms

    columns = {
        "booked_on": "Buchungstag", "value_on": "Valuta", "amount": "Betrag", "currency": "Währung",
        "receivers_id": "Kennung", "reference": "Referenz", "counterparty": "Empfänger",
    }  # fmt: skip
    terms = Terms.model_validate(
        {
            "delimiter": ";", "columns": columns, "texts": ["Verwendungszweck"], "dates": "DD.MM.YYYY",
            "numbers": "1.234,50", "time_zone": "Europe/Berlin",
        }
    )  # fmt: skip
    read_statement(
        tenant_id=there.tenant_id,
        statement_id=statement_id,
        terms=terms,
        person_id=there.person_id,
        now=timezone.now(),
    )


def _apply(there: Installation, statement_id: int) -> None:
    from django.utils import timezone

    from statements.actions.settling import apply_statement

    apply_statement(
        tenant_id=there.tenant_id,
        statement_id=statement_id,
        reading_no=1,
        person_id=there.person_id,
        now=timezone.now(),
    )


def _most_held(pid: int) -> float:
    """The high-water mark of a process's memory."""
    (line,) = [n for n in Path(f"/proc/{pid}/status").read_text().splitlines() if n.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024 / 1_000_000
