"""HTTP by configuration alone: everything that is sent and asked follows from the contract."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from approvals.rendering import FrozenRequest
from dispatch.classification import Outcome, Reading, read_exchange
from dispatch.connectors.seam import Credentials, Sending
from dispatch.contracts import Contract
from dispatch.requests import Place, fill, request_of
from dispatch.secrets import secret_headers
from dispatch.sights import Sight, read_sight
from dispatch.wire import Barrier, Exchange, Request, exchange
from workflows.authoring import OperationDraft


class HttpConnector:
    """The careful client of `dispatch/wire.py`. A class of one's own may derive from it and change one part."""

    schemes: tuple[str, ...] = ("http", "https")
    calls_barrier = True

    def problems(self, contract: Contract) -> Iterable[str]:
        return ()

    def credentials(self, reference: str, contract: Contract) -> Credentials:
        return Credentials(secret_headers(reference, contract))

    def render(
        self, draft: OperationDraft, contract: Contract, place: Place, key: str | None
    ) -> FrozenRequest:
        return request_of(draft, contract, place, key)

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        return exchange(sending.request, sending.contract.timeouts, barrier=barrier)

    def read(self, seen: Exchange, sending: Sending, now: datetime) -> Reading:
        if sending.action is None:
            return Reading(Outcome.UNKNOWN, "the contract does not name this request")
        return read_exchange(
            seen, sending.contract, sending.action, sent=sending.request.body, record=sending.record, now=now
        )

    def look_up(self, sending: Sending) -> Sight:
        lookup = sending.contract.lookup
        assert lookup is not None, "only a contract with a look-up is asked"
        path = fill(lookup.path, operation_key=sending.operation_key, record=sending.record)
        seen = self.get(path, sending.base_url, sending.contract, sending.credentials)
        return read_sight(
            seen, sending.contract, sending.action, sent=sending.request.body, record=sending.record
        )

    def get(self, path: str, base_url: str, contract: Contract, credentials: Credentials) -> Exchange:
        """GET what is at a path below a receiver's address; changes nothing there."""
        url = f"{base_url.rstrip('/')}/{path.lstrip('/')}"
        asked = Request("GET", url, {"Accept": "application/json"}, b"", credentials.headers)
        return exchange(asked, contract.timeouts)
