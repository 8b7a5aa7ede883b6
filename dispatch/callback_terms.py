"""How a receiver tells later what became of an operation: who signs its callbacks, and which of its words mean what.

A part of the contract, as data. What a callback does not say is not assumed: a word that stands in none of the lists
settles nothing.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from dispatch.paths import word_at
from dispatch.secrets import RECEIVERS

STANDARD_TOLERANCE = 300.0
"""Seconds, both ways: what the library of Standard Webhooks takes."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SIGNED = re.compile(r"[^{}]*(\{timestamp\}[^{}]*)?\{body\}")

Place = Annotated[str, StringConstraints(max_length=200)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stage(StrEnum):
    """How far the receiver says it is with an operation."""

    APPLIED = "applied"
    FAILED = "failed"
    PENDING = "pending"
    UNCLEAR = "unclear"


class Progress(_Frozen):
    """Where the receiver tells how far it is, and which of its words mean what."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    applied: Annotated[tuple[Word, ...], Field(min_length=1)]
    failed: tuple[Word, ...] = ()
    pending: tuple[Word, ...] = ()

    def stage_of(self, content: Any) -> Stage:
        word = word_at(content, self.path)
        named = {Stage.APPLIED: self.applied, Stage.FAILED: self.failed, Stage.PENDING: self.pending}
        return next((stage for stage, words in named.items() if word in words), Stage.UNCLEAR)

    @model_validator(mode="after")
    def _means_one_thing(self) -> Self:
        words = [*self.applied, *self.failed, *self.pending]
        if twice := sorted({w for w in words if words.count(w) > 1}):
            raise ValueError(f"{twice[0]!r} cannot mean two things")
        return self


class Callbacks(_Frozen):
    """Who signs what the receiver sends by itself, and how it is read. `secrets`: references; each of them counts."""

    secrets: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]
    scheme: Literal["standard-webhooks", "hmac"] = "standard-webhooks"
    signature_header: Place = ""
    signature_prefix: Place = ""
    algorithm: Literal["sha256", "sha512"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    timestamp_header: Place = ""
    signed: Place = "{body}"
    """What is signed: `{body}`, with `{timestamp}` before it where a header names the time in seconds."""

    tolerance: Annotated[float, Field(gt=0, le=3600)] = STANDARD_TOLERANCE
    id_path: Place = ""
    """Where the message names itself, for `hmac`; without it the same bytes are the same message."""

    progress: Progress
    key_path: Place = ""
    receipt_path: Place = ""
    record_path: Place = ""
    echo_path: Place = ""
    compared: dict[Place, Place] = Field(default_factory=dict)
    """Places of the callback whose values have to equal those at places of the approved body."""

    @field_validator("secrets")
    @classmethod
    def _are_references(cls, secrets: tuple[str, ...]) -> tuple[str, ...]:
        for reference in secrets:
            if not RECEIVERS.allow(reference):
                raise ValueError(f"a secret is named as {RECEIVERS.forms}, never written here")
        return secrets

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        own = (self.signature_header, self.signature_prefix, self.timestamp_header, self.id_path)
        if self.scheme == "standard-webhooks" and (
            any(own) or self.signed != "{body}" or self.tolerance != STANDARD_TOLERANCE
        ):
            raise ValueError("Standard Webhooks says itself how it signs; leave that out, or use hmac")
        if self.scheme == "hmac" and not _HEADER.fullmatch(self.signature_header):
            raise ValueError(f"{self.signature_header!r} is no header that a signature stands in")
        if self.timestamp_header and not _HEADER.fullmatch(self.timestamp_header):
            raise ValueError(f"{self.timestamp_header!r} is no header's name")
        if not _SIGNED.fullmatch(self.signed):
            raise ValueError("what is signed ends in {body}, with {timestamp} at most once before it")
        if ("{timestamp}" in self.signed) != bool(self.timestamp_header):
            raise ValueError(
                "a time that counts is signed: name {timestamp} in what is signed, and its header"
            )
        if not (self.key_path or self.receipt_path):
            raise ValueError(
                "a callback names its operation by our key (key_path) or by its own id (receipt_path)"
            )
        return self

    @property
    def is_compared(self) -> bool:
        """Whether anything of what it says is held against what was approved."""
        return bool(self.record_path or self.echo_path or self.compared)
