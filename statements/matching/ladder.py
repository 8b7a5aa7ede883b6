"""The rungs of the ladder, surest first. Imports nothing of ours; rows store these numbers."""

from __future__ import annotations

from enum import IntEnum

VERSION = 1
"""Of the rules below, kept with every match: raise it when what one of them means changes."""


class Tier(IntEnum):
    """By what a line and an operation belong together. The machine takes the first three, people take any."""

    OUR_KEY = 0  # the line names our operation key; amount, currency, direction and account are equal
    RECEIVERS_ID = 1  # the line has the receiver's id that the receipt had; the same are equal
    REFERENCE = 2  # the reference is the record, the amount is exact, and no other line or operation fits
    NEAR = 3  # the amount is inside the band and the day inside the window; suggested only
    TEXT = 4  # the words of the line are like those of the operation; suggested only
    TOGETHER = 5  # several add up to one exactly; suggested only
    NONE = 9  # nothing but a person's word


TAKEN_BY_ITSELF = (Tier.OUR_KEY, Tier.RECEIVERS_ID, Tier.REFERENCE)

NAMES: dict[Tier, str] = {
    Tier.OUR_KEY: "our key",
    Tier.RECEIVERS_ID: "the receiver’s id",
    Tier.REFERENCE: "reference and amount",
    Tier.NEAR: "amount and day",
    Tier.TEXT: "words",
    Tier.TOGETHER: "sum of several",
    Tier.NONE: "a person’s word",
}
"""What each is called on a page."""
