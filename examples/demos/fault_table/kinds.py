"""The kinds of contracts that a receiver can offer: the simulated ERP's, with times that a table can wait for."""

from __future__ import annotations

from dataclasses import dataclass

from dispatch.callback_terms import Progress
from dispatch.contracts import Contract, Meaning, Timeouts
from dispatch.item_terms import Items
from dispatch.presets import KEYED, LATER, LOOKUP_ONLY, NEITHER

READ_SECONDS, PATIENT_SECONDS = 1.5, 12.0
_QUICK = Timeouts(connect=2, read=READ_SECONDS, write=2, send_window=5)
_PATIENT = _QUICK.model_copy(update={"read": PATIENT_SECONDS})


@dataclass(frozen=True)
class Kind:
    """`recognises`: the receiver tells a repeat from a new request, or can be asked what became of the first."""

    name: str
    title: str
    contract: Contract
    recognises: bool = True

    @property
    def calls_back(self) -> bool:
        return self.contract.callbacks is not None

    def terms(self, *, patient: bool = False, callback_url: str = "") -> dict[str, object]:
        """The contract as a receiver is given it; a patient one waits for an answer until its process is killed."""
        changes: dict[str, object] = {"timeouts": _PATIENT if patient else _QUICK}
        if self.calls_back:
            write = self.contract.actions["write-record"]
            write = write.model_copy(update={"headers": {"X-Callback-Url": callback_url}})
            changes["actions"] = {"write-record": write}
        return self.contract.model_copy(update=changes).model_dump(mode="json")


def _hurried(contract: Contract) -> Contract:
    changes: dict[str, object] = {"in_flight_max": 2.0}
    if contract.lookup is not None:
        proof = None if contract.lookup.absence_is_proof_after is None else 1.0
        changes["lookup"] = contract.lookup.model_copy(
            update={"schedule": (0.5, 1.0, 2.0), "absence_is_proof_after": proof}
        )
    return _reads_items(contract.model_copy(update=changes))


def _reads_items(contract: Contract) -> Contract:
    """It also says how an answer that tells of each line by itself is read."""
    progress = Progress(path="status", applied=("201",), failed=("409",))
    items = Items(path="items", sent_path="lines", progress=progress)
    write = contract.actions["write-record"]
    success = {**write.success, "207": Meaning.APPLIED}
    write = write.model_copy(update={"items": items, "errors_path": "userErrors", "success": success})
    return contract.model_copy(update={"actions": {**contract.actions, "write-record": write}})


_KEY_ALONE = _hurried(KEYED.contract).model_copy(update={"lookup": None})
KINDS = (
    Kind("keyed", "key and look-up", _hurried(KEYED.contract)),
    Kind("key", "key", _KEY_ALONE),
    Kind(
        "old-key",
        "key, its time over",
        _KEY_ALONE.model_copy(update={"retention": 10.0, "retention_margin": 10.0}),
        recognises=False,
    ),
    Kind("lookup", "look-up", _hurried(LOOKUP_ONLY.contract)),
    Kind("later", "key and look-up, confirmed later", _hurried(LATER.contract)),
    Kind("neither", "neither", _hurried(NEITHER.contract), recognises=False),
)
