"""A bank that goes away while it books, and comes back knowing what it has booked."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from access.models import Person
from access.roles import WORKER
from access.tenancy import reading
from reconciliation.actions.bulk import confirm_bulk, plan_bulk
from reconciliation.bulk import working
from reconciliation.bulk.selecting import Filters
from reconciliation.incidents import sweeping
from reconciliation.models import BulkEntry, Case, Incident
from tests.dispatch.faults import FaultServer, read_all
from tests.dispatch.world import receipt
from tests.reconciliation.world import Desk, now


@dataclass
class Bank:
    """Takes every write and answers none. Once it is back it answers, and a look-up finds what is in `booked`."""

    booked: set[str] = field(default_factory=set)
    back: bool = False
    asked: dict[str, str] = field(default_factory=dict)
    writes: int = 0

    def serve(self, connection: socket.socket) -> bytes:
        raw = read_all(connection)
        head = raw.decode().split("\r\n")
        path = head[0].split()[1]
        if head[0].startswith("PUT"):
            key = next(line.split(": ")[1] for line in head if line.lower().startswith("idempotency-key"))
            self.asked[key] = path.rpartition("/")[2]
            if self.back:
                self.writes += 1
                self.booked.add(self.asked[key])
                connection.sendall(self._answer(key))
        else:
            connection.sendall(self._answer(path.rpartition("/")[2]))
        connection.close()
        return raw

    def _answer(self, key: str) -> bytes:
        record = self.asked[key]
        status, body = (500, b"") if not self.back else (404, b"{}")
        if self.back and record in self.booked:
            status, body = 200, receipt(record)
        head = (
            f"HTTP/1.1 {status} Some\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def door(self) -> FaultServer:
        return FaultServer(*[self.serve] * 200)


def sweep(desk: Desk) -> sweeping.Swept:
    return sweeping.sweep(desk.tenant_id, WORKER, now())


def incidents(desk: Desk) -> list[Incident]:
    with reading(desk.tenant_id):
        return list(Incident.objects.select_related("receiver").order_by("pk"))


def members(desk: Desk, incident: Incident) -> list[Case]:
    with reading(desk.tenant_id):
        return list(Case.objects.filter(incident=incident).order_by("pk"))


def in_bulk(desk: Desk, verb: str, person: Person, **filters: str) -> list[BulkEntry]:
    """Plan it, confirm it and do it; what came of each."""
    planned = plan_bulk(
        tenant_id=desk.tenant_id, person_id=person.pk, verb=verb, filters=Filters.read(filters), now=now()
    )
    return finished(desk, planned.bulk_id, person)


def finished(desk: Desk, bulk_id: int, person: Person) -> list[BulkEntry]:
    """Confirm a planned bulk and do it; what came of each."""
    confirm_bulk(
        tenant_id=desk.tenant_id, bulk_id=bulk_id, person_id=person.pk, reason="the bank is back",
        attempts=None, now=now(),
    )  # fmt: skip
    while working.turn(desk.tenant_id, bulk_id, "w1"):
        pass
    with reading(desk.tenant_id):
        return list(BulkEntry.objects.filter(bulk=bulk_id).order_by("case_id"))
