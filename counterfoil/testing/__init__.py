"""The test kit: a workflow run in the memory of one test, with scripted models and receivers and a clock of its own.

    run = Kit(invoices).submit({"reference": "R-1"}, provider=Script(Kind(kind="travel")), receivers=[ledger])
    assert run.state == "AWAITING_APPROVAL"
    run.approve()
    assert run.state == "CONFIRMED"

No database, no network, no waiting: a retry or a look-up that is due later moves the kit's clock. What an error means,
what is stored of a result, what is sent and what an answer says about the effect is decided by the functions that
decide it in an installation; `tests/counterfoil` runs the same workflows through both and compares.
"""

from counterfoil.testing.kit import Kit, Run
from counterfoil.testing.memory import Attempt, Entry, Item, KitFailure, Policy, Unscripted
from counterfoil.testing.operations import Operation, Submission
from counterfoil.testing.providers import Call, Reply, Script, busy, refused, timeout
from counterfoil.testing.receivers import Effect, Fate, Receiver

__all__ = [
    "Attempt",
    "Call",
    "Effect",
    "Entry",
    "Fate",
    "Item",
    "Kit",
    "KitFailure",
    "Operation",
    "Policy",
    "Receiver",
    "Reply",
    "Run",
    "Script",
    "Submission",
    "Unscripted",
    "busy",
    "refused",
    "timeout",
]
