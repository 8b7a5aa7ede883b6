"""What a receiver's operator has set about matching, as one value."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

LARGEST_GROUP = 8


class Settings(BaseModel):
    """How far the ladder may go for one receiver. The defaults take nothing by reference and forgive no difference."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    direction: Literal["out", "in"] = "out"
    """Which way operations at this receiver move money, seen from the account of the statement."""

    takes_references: bool = False
    """Whether an equal reference and amount, unique both ways, is enough for the machine."""

    tolerance: int = Field(default=0, ge=0, le=10**12)
    """By how much the amount may differ either way, in the smallest unit, for a suggestion or with a second person."""

    window_days: int = Field(default=5, ge=0, le=90)
    """How many days after its first send an operation may be booked, to be suggested by its amount."""

    likeness: float = Field(default=0.6, ge=0.3, le=1)
    """The least share of an operation's words that the line must have, to be suggested by them."""

    largest_group: int = Field(default=6, ge=2, le=LARGEST_GROUP)
    """How many are tried together, at most."""

    alone_up_to: int = Field(default=0, ge=0, le=10**15)
    """Up to which amount, in the smallest unit, one person alone sets a line aside; above it a second has to agree."""
