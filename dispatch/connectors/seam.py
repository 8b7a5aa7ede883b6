"""What dispatch asks of a connector. A contract names it; what it renders is frozen, shown, signed and sent to the byte.

A connector is one object for all threads and keeps nothing between two sends but what it may lose. It knows no rows, is
called outside any transaction (`render` alone inside one, where it calls no network), and ends within the contract's
timeouts: whoever takes an operation over counts on that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from approvals.rendering import FrozenRequest
from dispatch.classification import Reading
from dispatch.contracts import Action, Contract
from dispatch.requests import Place
from dispatch.sights import Sight
from dispatch.wire import PUBLIC, Barrier, Exchange, Request, Security
from workflows.authoring import OperationDraft


@dataclass(frozen=True, slots=True)
class Credentials:
    """What authenticates requests: read from where a row or a contract says, at the moment of use, and never kept."""

    headers: dict[str, str] = field(default_factory=dict, repr=False)
    signing_key: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    security: Security = PUBLIC

    def at(self, who: str) -> Credentials:
        """The same, its addresses checked for this "organisation/receiver"."""
        return replace(self, security=replace(self.security, who=who))


@dataclass(frozen=True, slots=True)
class Sending:
    """One frozen request under its contract, with what sending it or asking about it needs. `action`: None where the
    contract does not name this request. `reference`: the job's, where it is asked about."""

    request: Request
    contract: Contract
    action: Action | None
    operation_key: str
    record: str
    base_url: str
    account: str = ""
    credentials: Credentials = field(default_factory=Credentials, repr=False)
    reference: str = ""


class Connector(Protocol):
    """One way to reach receivers. `schemes`: how their addresses begin.

    `calls_barrier`: it calls the barrier itself, just before the first byte that could have an effect. One that does not
    say so is marked before it is called, so that every fault of it is doubt.
    """

    @property
    def schemes(self) -> tuple[str, ...]: ...

    @property
    def calls_barrier(self) -> bool: ...

    def problems(self, contract: Contract) -> Iterable[str]:
        """What this contract says that the connector cannot do, each a sentence. Such a contract is not written."""
        ...

    def credentials(self, reference: str, contract: Contract) -> Credentials:
        """The credentials of a receiver. `reference`: where its secret is. Raises SecretMissing; calls no network."""
        ...

    def render(
        self, draft: OperationDraft, contract: Contract, place: Place, key: str | None
    ) -> FrozenRequest:
        """The exact request. A key that was made before is kept if the contract takes it. Raises CannotRender."""
        ...

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        """Send once. What `barrier` raises (NotBegun) ends it with nothing sent, and so does a NotBegun of its own before it
        asked. Anything else raised is a fault, and doubt: what surely did not leave is returned, or raised as NotBegun."""
        ...

    def read(self, seen: Exchange, sending: Sending, now: datetime) -> Reading:
        """What an exchange means for the effect. Pure."""
        ...

    def look_up(self, sending: Sending) -> Sight:
        """Ask what became of it; changes nothing there. Called only where the contract has a look-up."""
        ...
