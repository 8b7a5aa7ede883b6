"""Verifying an exported decision with nothing but the file and the key that is trusted. Pure: no database, no settings.

What it proves: the installation that holds the key wrote down that this person, known in this way, gave this verdict
at this time on exactly these bytes; and that the job's history up to the export is the one that the chain was made of.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from approvals import canonical
from approvals.proof.signing import fingerprint, is_signed
from workflows.chain import Link, hash_of

FORMAT = "counterfoil.decision/1"
EVENTS = {
    "approve": ("decision.recorded", "proposal.approved"),
    "reject": ("proposal.rejected",),
    "request changes": ("changes.requested",),
}
BROKEN = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError),
    *(OverflowError, RecursionError, binascii.Error, struct.error),
)


class NotAnExport(Exception):
    """The file is not one that was exported here; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, with what was found. `ok` False: the file proves nothing."""

    what: str
    ok: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Verified:
    """Everything that was looked at, and what it proves in one sentence; "" where it proves nothing."""

    findings: list[Finding]
    proves: str

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


def verify(text: str, *, trusted: str) -> Verified:
    """Look at everything in an export. `trusted`: the public key, in hexadecimal, that has to have signed it.

    Raises NotAnExport where the text is not an export at all.
    """
    value = _read(text)
    looks: list[tuple[str, Callable[[dict[str, Any]], str], str]] = [
        (
            "Signature",
            lambda v: _signature(v, trusted),
            "the trusted key signed everything that this file says",
        ),
        ("Document", _document, "the document has the digest that the decision is about"),
        ("Operations", _operations, "the bytes of every operation are those in the document"),
        ("Journal", _journal, "every row of the job's journal follows from the one before it"),
        ("Decision", _decision, "the journal tells of this decision, by this person, on this digest"),
    ]
    findings = []
    for what, look, holds in looks:
        wrong = _or_broken(look, value)
        findings.append(Finding(what, not wrong, wrong or holds))
    ok = all(finding.ok for finding in findings)
    return Verified(findings, _proves(value) if ok else "")


def _read(text: str) -> dict[str, Any]:
    try:
        value = canonical.parse(text)
    except canonical.NotCanonical as broken:
        raise NotAnExport(str(broken)) from broken
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise NotAnExport(f"This is no export of the format {FORMAT}.")
    return value


def _or_broken(look: Callable[[dict[str, Any]], str], value: dict[str, Any]) -> str:
    """A look at a file that anybody may have written: what is missing in it is a fault of it, not of ours."""
    try:
        return look(value)
    except BROKEN as broken:
        return f"it is incomplete or malformed: {type(broken).__name__} {broken}"
    except canonical.NotCanonical as broken:
        return str(broken)


def _signature(value: dict[str, Any], trusted: str) -> str:
    if not is_signed(value):
        return "its signature is not that of its key over its content"
    if value["key"] != trusted:
        theirs, ours = fingerprint(value["key"]), fingerprint(trusted)
        return f"it was signed with the key {theirs}, and the trusted one is {ours}"
    return ""


def _document(value: dict[str, Any]) -> str:
    digest = canonical.sha256(value["proposal"]["document"])
    if digest != value["proposal"]["digest"]:
        return "the document is not the one of the digest beside it"
    return "" if digest == value["decision"]["digest"] else "the decision is about another digest"


def _operations(value: dict[str, Any]) -> str:
    signed = {o["ordinal"]: o for o in canonical.parse(value["proposal"]["document"])["operations"]}
    if [o["ordinal"] for o in value["operations"]] != list(signed):
        return "there are other operations than the document has"
    for one in value["operations"]:
        told, body = signed[one["ordinal"]], base64.b64decode(one["body"], validate=True)
        if canonical.sha256(body) != told["body_digest"]:
            return f"operation {one['ordinal']} has another body than the document says"
        stored = {**one, "headers": canonical.parse(one["headers"])}
        for name in ("operation_key", "receiver", "account", "record", "method", "target", "headers"):
            if stored[name] != told[name]:
                return f"operation {one['ordinal']}: the {name} differs from the document"
    return ""


def _journal(value: dict[str, Any]) -> str:
    before = b""
    for number, row in enumerate(value["journal"], start=1):
        if row["sequence"] != number:
            return f"row {number} is missing"
        if bytes.fromhex(row["previous"]) != before:
            return f"row {number} does not follow the row before it"
        if hash_of(_link(value, row)) != bytes.fromhex(row["hash"]):
            return f"row {number} is not what was hashed when it was written"
        before = bytes.fromhex(row["hash"])
    return "" if value["journal"] else "it has no rows"


def _link(value: dict[str, Any], row: dict[str, Any]) -> Link:
    return Link(
        numbers=(value["tenant"]["id"], value["proposal"]["job"], row["sequence"]),
        texts=(row["event"], row["from_state"], row["to_state"]),
        actor_kind=row["actor_kind"],
        actor_id=row["actor_id"],
        actor_name=row["actor_name"],
        evidence=row["evidence"],
        at=datetime.fromisoformat(row["at"]),
        previous=bytes.fromhex(row["previous"]),
    )


def _decision(value: dict[str, Any]) -> str:
    decision, proposal = value["decision"], value["proposal"]
    frozen = [r for r in value["journal"] if _tells(r, ("proposal.frozen",), proposal=proposal["id"])]
    if [json.loads(r["evidence"])["digest"] for r in frozen] != [proposal["digest"]]:
        return "the journal does not tell that this document was frozen"
    events = EVENTS[decision["verdict"]]
    told = [r for r in value["journal"] if _tells(r, events, decision=decision["id"])]
    if len(told) != 1:
        return "the journal does not tell of this decision"
    evidence = json.loads(told[0]["evidence"])
    if evidence["digest"] != decision["digest"] or evidence["proposal"] != proposal["id"]:
        return "the journal tells of another digest"
    who = (told[0]["actor_id"], told[0]["actor_name"])
    if who != (decision["person"]["id"], decision["person"]["handle"]):
        return f"the journal says that {told[0]['actor_name']} decided"
    lent = decision["on_behalf_of"]
    if evidence.get("on_behalf_of") != (lent["id"] if lent else None):
        return "the journal tells of another authority"
    return ""


def _tells(row: dict[str, Any], events: tuple[str, ...], **has: int) -> bool:
    if row["event"] not in events:
        return False
    evidence = json.loads(row["evidence"])
    return all(evidence.get(name) == wanted for name, wanted in has.items())


DID = {"approve": "approved", "reject": "rejected", "request changes": "asked for changes to"}


def _proves(value: dict[str, Any]) -> str:
    decision, proposal = value["decision"], value["proposal"]
    lent = f" for {decision['on_behalf_of']['handle']}" if decision["on_behalf_of"] else ""
    again = ", the password entered again" if decision["authenticated_at"] else ""
    void = (
        f" It stopped counting at {decision['void']['at']}: {decision['void']['why']}."
        if decision["void"]
        else ""
    )
    count = len(value["operations"])
    return (
        f"{decision['person']['handle']}{lent} {DID[decision['verdict']]} proposal {proposal['label']}"
        f" (SHA-256 {proposal['digest']}), {count} operation{'' if count == 1 else 's'}, at {decision['decided_at']},"
        f" signed in by {decision['authenticated_by']}{again}.{void}"
    )
