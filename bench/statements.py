"""A statement of a million lines: uploaded, read by one real worker process, applied; how long each takes, and the memory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.core.files.base import File

from bench.installation import Installation, installation, workers


@dataclass(frozen=True)
class Imported:
    """Seconds of each step; the most that the worker process has held at once, in MB; bytes of the file."""

    uploaded: float
    read: float
    applied: float
    megabytes: float
    size: int

    @property
    def seconds(self) -> float:
        return self.uploaded + self.read + self.applied


def imported(lines: int) -> Imported:
    """Bring a file of so many lines from upload to applied."""
    with installation() as there, workers(there, processes=1, slots=8), tempfile.TemporaryFile() as file:
        receiver = _receiver(there)
        file.writelines(content(lines))
        pid = int(there.one("SELECT pid FROM workflows_worker WHERE ended_at IS NULL"))
        began = time.monotonic()
        statement, size = _upload(there, receiver, File(file))
        uploaded = time.monotonic()
        _begin(there, statement)
        there.until(lambda: there.one("SELECT state FROM statements_statement") == "read", 1800)
        read = time.monotonic()
        _apply(there, statement)
        applied = time.monotonic()
        assert there.one("SELECT count(*) FROM statements_statementline") == lines
        return Imported(uploaded - began, read - uploaded, applied - read, _most_held(pid), size)


def content(lines: int) -> Iterator[bytes]:
    """A table as banks write it, in chunks."""
    yield "Buchungstag;Valuta;Betrag;Währung;Referenz;Verwendungszweck;Empfänger\r\n".encode()
    for first in range(0, lines, 1000):
        yield "".join(
            f"{1 + n % 28:02d}.08.2026;{1 + n % 28:02d}.08.2026;-{n % 90}.{n % 900 + 100},{n % 100:02d};EUR;CF-{n:08d}-01;"
            f"Rechnung {n} für Leistungen;Müller & Söhne {n % 9973}\r\n"
            for n in range(first, min(first + 1000, lines))
        ).encode()


def _receiver(there: Installation) -> int:
    from access.models import Membership
    from access.roles import Role
    from access.tenancy import acting
    from dispatch.models import Receiver

    with acting(there.tenant_id):
        Membership.objects.create(tenant_id=there.tenant_id, person_id=there.person_id, role=Role.OPERATOR)
        receiver = Receiver.objects.create(
            tenant_id=there.tenant_id, name="bank", title="The bank", base_url="http://127.0.0.1:1"
        )
    return receiver.pk


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
        "reference": "Referenz", "counterparty": "Empfänger",
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
