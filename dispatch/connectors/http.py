"""HTTP by configuration alone: everything that is sent and asked follows from the contract."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import combinations

from approvals.rendering import LEFT_OUT, CannotRender, FrozenRequest
from dispatch.authentication import is_header
from dispatch.classification import Outcome, Reading, read_exchange
from dispatch.connectors.seam import Credentials, Sending
from dispatch.contracts import CLIENTS, Contract, KeyLocation
from dispatch.requests import Place, fill, request_of
from dispatch.secrets import RECEIVERS, secret_headers
from dispatch.sights import Found, Sight, read_sight
from dispatch.signing import signed_headers
from dispatch.tokens import Client, NoToken, forget, token_of
from dispatch.wire import NO_TOKEN, TOKEN_REFUSED, Barrier, Exchange, NotBegun, Request, Security, exchange
from web.redaction import hide
from workflows import clock
from workflows.authoring import OperationDraft

log = logging.getLogger(__name__)


class HttpConnector:
    """The careful client of `dispatch/wire.py`. A class of one's own may derive from it and change one part."""

    schemes: tuple[str, ...] = ("http", "https")
    calls_barrier = True

    def problems(self, contract: Contract) -> Iterable[str]:
        """What is made when it is sent takes the place of no header that was approved, and of none of the connection's; an
        answer is known by where its request went."""
        taken: set[str] = {"accept", "content-type", "user-agent", *CLIENTS}
        if contract.key_location is KeyLocation.HEADER:
            if contract.key_name.lower() in {*taken, *LEFT_OUT}:
                yield f"The key cannot be the header {contract.key_name}, which the client or its authentication makes."
            taken.add(contract.key_name.lower())
        for (one, a), (other, b) in combinations(contract.actions.items(), 2):
            if a.shape == b.shape and not a.reads_like(b):
                yield f"The actions {one} and {other} go to one address: nothing says whose answer comes, so they are read alike."
        for name in contract.secret_headers:
            if not is_header(name) or name.lower() in taken:
                yield f"What authenticates a request cannot be the header {name!r}, which is none, or is approved or the client's."

    def credentials(self, reference: str, contract: Contract) -> Credentials:
        signing, oauth = contract.signing, contract.oauth
        return Credentials(
            headers={} if oauth is not None else secret_headers(reference, contract),
            signing_key=RECEIVERS.read(signing.secret_reference) if signing is not None else "",
            client_secret=RECEIVERS.read(reference) if oauth is not None else "",
            security=_security(contract),
        )

    def render(
        self, draft: OperationDraft, contract: Contract, place: Place, key: str | None
    ) -> FrozenRequest:
        return request_of(draft, contract, place, key)

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        return self._exchange(
            sending.request, sending.contract, sending.credentials, sending.operation_key, barrier=barrier
        )

    def read(self, seen: Exchange, sending: Sending, now: datetime) -> Reading:
        if sending.action is None:
            return Reading(Outcome.UNKNOWN, "the contract does not name this request")
        return read_exchange(
            seen, sending.contract, sending.action, sent=sending.request.body, record=sending.record, now=now
        )

    def look_up(self, sending: Sending) -> Sight:
        lookup = sending.contract.lookup
        assert lookup is not None, "only a contract with a look-up is asked"
        try:
            path = fill(lookup.path, **_asked_by(sending))
        except CannotRender as cannot:
            return Sight(Found.UNCLEAR, f"it could not be asked: {cannot}")
        asked = _getting(path, sending.base_url)
        seen = self.ask(asked, sending.contract, sending.credentials)
        sight = read_sight(
            seen, sending.contract, sending.action, sent=sending.request.body, record=sending.record
        )
        return sight.of(asked, seen)

    def get(self, path: str, base_url: str, contract: Contract, credentials: Credentials) -> Exchange:
        """GET what is at a path below a receiver's address; changes nothing there."""
        return self.ask(_getting(path, base_url), contract, credentials)

    def ask(self, request: Request, contract: Contract, credentials: Credentials) -> Exchange:
        """A request that changes nothing there, authenticated as sends are; nobody is asked for a mark."""
        return self._exchange(replace(request, security=credentials.security), contract, credentials, "")

    def authenticate(
        self, request: Request, contract: Contract, credentials: Credentials, key: str, token: str
    ) -> Request:
        """The request with what says who sends it, made now. A class of one's own signs here in another way, and sends
        nothing: whatever it raises, nothing has left."""
        headers = dict(credentials.headers)
        if token:
            headers[contract.auth_header] = f"Bearer {token}"
        if contract.signing is not None:
            at = int(clock.now().timestamp())
            headers |= signed_headers(contract.signing, credentials.signing_key, request, key=key, at=at)
        return replace(request, secret_headers=headers)

    def _exchange(
        self, request: Request, contract: Contract, credentials: Credentials, key: str, *, barrier: Barrier | None = None
    ) -> Exchange:  # fmt: skip
        if contract.oauth is None:
            asked = self._authenticated(request, contract, credentials, key, "")
            return exchange(asked, contract.timeouts, barrier=barrier)
        client = Client(contract.oauth, credentials.client_secret, Security(who=credentials.security.who))
        try:
            token = token_of(client, contract.timeouts)
        except NoToken as none:
            return Exchange(
                marked=False, exception=TOKEN_REFUSED if none.refused else NO_TOKEN, message=str(none)
            )
        asked = self._authenticated(request, contract, credentials, key, token.value)
        seen = exchange(asked, contract.timeouts, barrier=barrier)
        if seen.status != 401:
            return seen
        forget(client, token.value)
        return replace(seen, old_token=token.kept)

    def _authenticated(
        self, request: Request, contract: Contract, credentials: Credentials, key: str, token: str
    ) -> Request:
        try:
            return self.authenticate(request, contract, credentials, key, token)
        except Exception as failed:  # perhaps somebody else's code, and nothing has been opened yet
            log.exception("The connector %s could not sign a request", type(self).__name__)
            raise NotBegun(f"it could not be signed: {hide(str(failed))}"[:300]) from failed


def _asked_by(sending: Sending) -> dict[str, str]:
    """What the places of a look-up's path are filled with, by the names that `templates.ASKED_BY` allows."""
    return {
        "operation_key": sending.operation_key,
        "reference": sending.reference,
        "record": sending.record,
        "account": sending.account,
    }


def _getting(path: str, base_url: str) -> Request:
    return Request("GET", f"{base_url.rstrip('/')}/{path.lstrip('/')}", {"Accept": "application/json"})


def _security(contract: Contract) -> Security:
    tls = contract.tls
    if tls is None:
        return Security()
    certificate, key, authorities = (
        RECEIVERS.path(reference) if reference else "" for reference in (tls.certificate, tls.key, tls.authorities)
    )  # fmt: skip
    return Security("", certificate, key, authorities)
