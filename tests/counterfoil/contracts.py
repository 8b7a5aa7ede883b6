"""Contracts of the simulated receiver, for records of any kind."""

from __future__ import annotations

from typing import Any

from dispatch.contracts import Action, Contract, Meaning
from dispatch.presets import PRESETS


def contract(name: str, **changes: Any) -> Contract:
    """A preset whose one action is `put`, with a wait short enough for a test on real clocks."""
    preset = PRESETS[name].contract
    put = Action(
        method="PUT",
        path=f"/{name}/records/{{record}}",
        success={"200": Meaning.APPLIED, "201": Meaning.APPLIED, "202": Meaning.PENDING},
        record_path="record",
        echo_path="fields",
    )
    return preset.model_copy(update={"actions": {"put": put}, **changes})
