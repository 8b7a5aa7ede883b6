"""What a receiver promises, as data: `ReceiverContract.terms` holds one `Contract`.

Everything that dispatch does without asking follows from here. What a receiver does not promise is not assumed: an
unpublished retention counts as none, and a lookup proves nothing unless the contract says so.
"""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from approvals.rendering import LEFT_OUT
from dispatch.authentication import HeaderName, OAuth, Reference, Signing, Tls, is_header
from dispatch.callback_terms import Callbacks, Progress
from dispatch.item_terms import Items
from dispatch.paths import at_path, word_at
from dispatch.templates import places, unaskable_places, unknown_places

PERMANENT: Final = "permanent"
UNPUBLISHED: Final = "unpublished"
NO_RETENTION: Final = "none"
FAR_AWAY = timedelta(days=36_500)
_LEAST_KEY = 16
_KEPT: Final = "kept"
_LETTERS = "abcdefghjkmnpqrstuvwxyz"
_ANY_PLACE = re.compile(r"\{[^}]*\}")
_READ = {
    "success", "receipt_path", "receipt_required", "record_path", "echo_path", "echo_fields", "items", "errors_path",
}  # fmt: skip
"""The fields of an action by which an answer is read."""
_ESCAPED_PLACE = re.compile(r"\\\{[a-z_]+(?:\\\.(?:[A-Za-z0-9_]|\\-)+)*\\\}")
CLIENTS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te", "trailer", "upgrade",
     "expect", "if-match", "if-none-match")
)  # fmt: skip
"""Headers that no contract writes: of the connection, and of a precondition."""
_NOT_OURS = frozenset((*CLIENTS, *LEFT_OUT))
"""And those that are never frozen."""


Status = Annotated[int, Field(ge=100, le=599)]
Seconds = Annotated[float, Field(ge=0, le=100 * 365 * 86_400, allow_inf_nan=False)]
Wait = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _known_places(template: str) -> str:
    for wrong in unknown_places(template):
        raise ValueError(wrong)
    return template


def _askable(path: str, info: ValidationInfo) -> str:
    """Judged when a contract is written: one that was kept before this was asked is read as it is."""
    if info.context != _KEPT:
        for wrong in unaskable_places(path):
            raise ValueError(wrong)
    return path


class KeyLocation(StrEnum):
    """Where the operation key travels."""

    HEADER = "header"
    BODY = "body"
    QUERY = "query"
    URI = "uri"  # a part of the address itself
    NONE = "none"


class Meaning(StrEnum):
    """What a successful status says about the effect."""

    APPLIED = "applied"  # done; the answer is the receipt
    PENDING = "pending"  # accepted, done later: never a confirmation


class Signal(_Frozen):
    """One way to recognise an answer: its status and, where that is not enough, a value at a path of its JSON, as text: a
    number, true and false are written out."""

    status: Status
    path: str = ""
    equals: str = ""

    def matches(self, status: int | None, content: Any) -> bool:
        if status != self.status:
            return False
        told = at_path(content, self.path) if self.path else self.equals
        return isinstance(told, str | int) and (not self.path or word_at(content, self.path) == self.equals)


Template = Annotated[str, StringConstraints(max_length=500), AfterValidator(_known_places)]


class Action(_Frozen):
    """One kind of request: where it goes, what its answers mean and which values must come back as approved."""

    method: Literal["POST", "PUT", "PATCH", "DELETE", "SEND"]
    """SEND: what a connector does that does not speak HTTP."""

    precondition: Literal["none", "if_none_match", "if_match"] = "none"
    """The receiver refuses (412) where something is there already, or where the record has another version by now.

    That refuses this send and says nothing of an earlier one, which may be the reason.
    """

    path: Annotated[
        str,
        StringConstraints(pattern=r"^/[A-Za-z0-9/_.~{}-]*$", max_length=300),
        AfterValidator(_known_places),
    ]
    query: dict[str, Template] = Field(default_factory=dict)
    headers: dict[HeaderName, Template] = Field(default_factory=dict)
    body_as: Literal["json", "form", "none"] = "json"
    body: dict[str, Template | int | bool] = Field(default_factory=dict)
    """Where in the sent body each value goes, by dotted place; empty: the draft's body as it is."""

    success: dict[str, Meaning] = Field(default_factory=lambda: {"200": Meaning.APPLIED})
    receipt_path: str = "id"
    receipt_required: bool = True
    record_path: str = ""
    echo_path: str = ""
    """Where the answer repeats what was stored ("." is the answer itself); sent fields are compared with it."""

    echo_fields: tuple[str, ...] = ()
    """Which fields of the sent body it repeats; empty: every one."""

    items: Items | None = None
    errors_path: str = ""
    """Where a success lists why nothing was done; an empty list there, or none, is none."""

    @model_validator(mode="after")
    def _can_be_put_together(self) -> Self:
        lowered = [name.lower() for name in self.headers]
        if len(set(lowered)) < len(lowered):
            raise ValueError("a header stands there twice")
        if taken := sorted(_NOT_OURS.intersection(lowered)):
            raise ValueError(f"the header {taken[0]} is the client's own, or made when it is sent")
        if self.body_as == "none" and (self.body or self.echo_path):
            raise ValueError("where no body is sent there is none to map or to compare")
        for one in self.body:
            if not all(one.split(".")):
                raise ValueError(f"{one!r} is no place in a body")
            if any(other.startswith(f"{one}.") for other in self.body):
                raise ValueError(f"{one} cannot be a value and hold others")
        return self

    @property
    def shape(self) -> tuple[str, str]:
        """What its requests go to. Nothing that is frozen tells those of two actions of one shape apart."""
        return self.method, _ANY_PLACE.sub("{}", self.path)

    def reads_like(self, other: Action) -> bool:
        """Whether answers and look-ups mean the same for both."""
        return self.model_dump(include=_READ) == other.model_dump(include=_READ)

    def fits(self, method: str, path: str) -> bool:
        """Whether a frozen request (its path without the receiver's own) is one of this action."""
        pattern = _ESCAPED_PLACE.sub("[^/]+", re.escape(self.path))
        return method == self.method and re.fullmatch(pattern, path) is not None


class Timeouts(_Frozen):
    """Seconds. `send_window` is how long after its checks a submission may still begin to leave."""

    connect: Wait = 5.0
    read: Wait = 15.0
    write: Wait = 15.0
    send_window: Wait = 20.0

    @property
    def longest(self) -> timedelta:
        return timedelta(seconds=self.connect + self.read + self.write)


class Lookup(_Frozen):
    """A read of what became of an operation. `authoritative`: by our key, reads its own writes, whole retention."""

    path: Annotated[
        str,
        StringConstraints(pattern=r"^/[A-Za-z0-9/_.~{}?=&-]*$", max_length=300),
        AfterValidator(_askable),
    ]
    found: tuple[Status, ...] = (200,)
    absent: tuple[Signal, ...] = (Signal(status=404),)
    authoritative: bool = False
    absence_is_proof_after: Seconds | None = None
    lag: Seconds = 0.0
    """How long after it was done a look-up may still not see it."""

    schedule: tuple[Seconds, ...] = (1, 2, 5, 15, 60)
    count_path: str = ""
    """Where it says how many there are, as a number or as the list of them: none is "not there", whatever the status."""

    progress: Progress | None = None
    """Where what is found says how far it is, for a receiver that accepts first; without it what is found is done."""

    secret_reference: Reference | Literal[""] = ""
    """A secret that may only read there, for look-ups and for what steps read, instead of the one that sends."""

    @property
    def by_key(self) -> bool:
        """Whether it asks for our key; otherwise for the job's reference or the record, which others may have or change."""
        return "{operation_key}" in self.path

    @property
    def by_reference(self) -> bool:
        """Whether it asks for the business reference of the job, which its workflow puts into what it sends."""
        return "{reference}" in self.path

    def wait(self, number: int) -> float:
        """How long after a send the look-up of this number (from 0) is asked: never while it could not see it."""
        return max(self.schedule[number], self.lag)

    @model_validator(mode="after")
    def _says_by_what(self) -> Self:
        if not (self.by_key or self.by_reference or "{record}" in self.path):
            raise ValueError("the lookup's path names none of {operation_key}, {reference} and {record}")
        if self.absence_is_proof_after is not None and not self.authoritative:
            raise ValueError("absence can only prove something where the lookup is authoritative")
        if not self.schedule:
            raise ValueError("the schedule of lookups is empty; leave the lookup out instead")
        return self


class StatementFeed(_Frozen):
    """Where what a receiver did can be read later, apart from its answers."""

    kind: Literal["csv", "api"]
    lag: Seconds = 86_400.0


class Contract(_Frozen):
    """One version of what a receiver promises. Durations are in seconds."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    connector: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")] = "http"
    """What carries its requests: "http" and "smtp" ship, packages of the user's own bring others."""

    actions: Annotated[dict[str, Action], Field(min_length=1)]
    key_location: KeyLocation = KeyLocation.NONE
    key_name: str = ""
    key_max_len: Annotated[int, Field(ge=_LEAST_KEY, le=255)] = 64
    key_charset: Literal["lower", "upper", "digits and lower"] = "lower"
    deduplicates: bool = False
    scope: str = "account"
    retention: Seconds | Literal["permanent", "unpublished", "none"] = NO_RETENTION
    retention_margin: Seconds = 600.0
    retention_source_url: str = ""
    mismatch_signals: tuple[Signal, ...] = ()
    in_progress_signals: tuple[Signal, ...] = ()
    duplicate_signals: tuple[Signal, ...] = ()
    duplicate_is_proof: bool = False
    duplicate_receipt_path: str = ""
    caches_errors: Literal["none", "all", "2xx only"] = "none"
    replay_kind: Literal["first", "latest", "rebuilt"] = "first"
    replay_header: str = ""
    lookup: Lookup | None = None
    callbacks: Callbacks | None = None
    cancel_by_key: Annotated[str, StringConstraints(max_length=200)] = ""
    statement_feed: StatementFeed | None = None
    definite_not_applied_codes: frozenset[Status] = frozenset()
    in_flight_max: Seconds = 60.0
    timeouts: Timeouts = Timeouts()
    automatic_resubmissions: Annotated[int, Field(ge=0, le=2)] = 0
    confirmation: Literal["sync", "later"] = "sync"
    confirmation_within: Seconds = 3600.0
    retry_after_max: Seconds = 900.0
    auth_header: str = "Authorization"
    auth_scheme: str = "Bearer"
    signing: Signing | None = None
    oauth: OAuth | None = None
    tls: Tls | None = None
    sandbox: bool = False

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        in_address = self.key_location is KeyLocation.URI
        if (self.key_location is KeyLocation.NONE or in_address) != (not self.key_name):
            raise ValueError("a key has a place and a name, or neither; one in the address has no name")
        if any(("{operation_key}" in a.path) != in_address for a in self.actions.values()):
            raise ValueError(
                "paths of actions name {operation_key} where the key is in the address, only there"
            )
        if self.key_location is KeyLocation.HEADER and not is_header(self.key_name):
            raise ValueError(f"{self.key_name!r} is no header's name")
        if self.connector == "http" and any(a.method == "SEND" for a in self.actions.values()):
            raise ValueError("over HTTP an action's method is POST, PUT, PATCH or DELETE")
        made = {n.lower() for n in self.made_headers}
        if any(name.lower() in made for a in self.actions.values() for name in a.headers):
            raise ValueError(
                "a header that carries the key, a signature or a secret is not written by an action"
            )
        if self.deduplicates and self.key_location is KeyLocation.NONE:
            raise ValueError("a receiver that deduplicates is sent a key")
        if self.automatic_resubmissions and not (self.deduplicates or self._proves_absence):
            raise ValueError("nothing is sent again by itself where neither key nor lookup makes it safe")
        if self.duplicate_is_proof and not (self.duplicate_signals and self.duplicate_receipt_path):
            raise ValueError("a duplicate proves something where it is recognised and names what is there")
        if self.duplicate_is_proof and self.key_location is KeyLocation.NONE:
            raise ValueError("a duplicate can only prove that it is ours where a key was sent")
        by_reference_alone = self.lookup is not None and self.lookup.by_reference and not self.lookup.by_key
        if by_reference_alone and not all(a.record_path or a.echo_path for a in self.actions.values()):
            raise ValueError(
                "a lookup by {reference} may find another operation of the job: its actions name record_path or"
                " echo_path, by which what is found is compared"
            )
        if self.oauth is not None and self.lookup is not None and self.lookup.secret_reference:
            raise ValueError(
                "a lookup under a secret of its own and OAuth exclude each other: the client has one secret"
            )
        if any(not re.fullmatch("2[0-9][0-9]", code) for a in self.actions.values() for code in a.success):
            raise ValueError("success codes are written as text, from 200 to 299")
        return self

    @property
    def made_headers(self) -> list[str]:
        """Headers that come from elsewhere in the contract: the key's, where it travels in one, and the secret ones."""
        key = [self.key_name] if self.key_location is KeyLocation.HEADER else []
        return [*key, *self.secret_headers]

    @property
    def secret_headers(self) -> list[str]:
        """Those that are made when it is sent, and that no approver sees."""
        signed = [self.signing.header, self.signing.timestamp_header] if self.signing is not None else []
        return [self.auth_header, *(name for name in signed if name)]

    def reading_secret(self, sending: str) -> str:
        """Where the secret is that reading is authenticated with. `sending`: the receiver's own, where there is no other."""
        return self.lookup.secret_reference or sending if self.lookup is not None else sending

    @classmethod
    def of(cls, terms: dict[str, Any]) -> Contract:
        """What a stored version's terms say. Equal terms are read once in a process: a send asks half a dozen times."""
        text = repr(terms)
        found = _read.get(text)
        if found is None:
            if len(_read) >= _MOST_READ:
                _read.clear()
            found = _read[text] = cls.model_validate(terms, context=_KEPT)
        return found

    @property
    def _proves_absence(self) -> bool:
        return self.lookup is not None and self.lookup.absence_is_proof_after is not None

    @property
    def has_window(self) -> bool:
        """Whether the same key can be sent again without a second effect, for a published time."""
        return self.deduplicates and self.retention not in (UNPUBLISHED, NO_RETENTION)

    def resubmit_safe_until(self, first_sent_at: datetime) -> datetime | None:
        """Until when the same key and bytes are still one effect, counted from the first send; None: never."""
        if not self.has_window:
            return None
        if self.retention == PERMANENT:
            return first_sent_at + FAR_AWAY
        seconds = max(0.0, float(self.retention) - self.retention_margin)
        return first_sent_at + timedelta(seconds=seconds)

    def absence_counts_from(self, quiet_at: datetime) -> datetime | None:
        """From when a lookup that finds nothing proves that nothing was applied; None: never."""
        if self.lookup is None or self.lookup.absence_is_proof_after is None:
            return None
        wait = self.in_flight_max + self.lookup.lag + self.lookup.absence_is_proof_after
        return quiet_at + timedelta(seconds=wait)

    def action_of(self, method: str, path: str) -> Action | None:
        """The action that a frozen request is one of; None where it may be one of two whose answers are read differently."""
        fitting = [a for a in self.actions.values() if a.fits(method, path)]
        first = min(fitting, key=lambda a: len(places(a.path)), default=None)
        if first is None or any(a.shape == first.shape and not a.reads_like(first) for a in fitting):
            return None
        return first

    def new_key(self) -> str:
        """A random operation key that this receiver takes whole: never cut, never like a number."""
        letters, digits = self._alphabet()
        length = min(self.key_max_len, 32)
        # A letter first and no letter e: 219e01 would come back from a spreadsheet as 2.19E+03.
        return secrets.choice(letters) + "".join(secrets.choice(letters + digits) for _ in range(length - 1))

    def takes_key(self, key: str) -> bool:
        """Whether a key that was made before fits this contract."""
        letters, digits = self._alphabet()
        every = set(letters + digits) | {"e" if letters.islower() else "E", "-"}
        return _LEAST_KEY <= len(key) <= self.key_max_len and set(key) <= every and key[0].isalpha()

    def _alphabet(self) -> tuple[str, str]:
        letters = _LETTERS.replace("e", "")
        return (letters.upper() if self.key_charset == "upper" else letters), "23456789"


_read: dict[str, Contract] = {}
_MOST_READ = 1000
