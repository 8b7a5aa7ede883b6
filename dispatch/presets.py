"""Contracts to start from. What others publish changes, so each is a proposal to review, not a constant.

Those of the simulated receiver are here; what others publish is data, in `presets.toml`.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from dispatch.callback_terms import Callbacks, Progress
from dispatch.contracts import Action, Contract, KeyLocation, Lookup, Meaning, Signal, Timeouts


@dataclass(frozen=True, slots=True)
class Preset:
    """A contract with where it comes from, when it was last compared with that ("": never), and what to know of it."""

    name: str
    contract: Contract
    source: str
    reviewed_on: str = ""
    note: str = ""


def _erp_actions(prefix: str) -> dict[str, Action]:
    success = {"200": Meaning.APPLIED, "201": Meaning.APPLIED, "202": Meaning.PENDING}
    return {
        "update-vendor": Action(
            method="PUT",
            path=f"/{prefix}/vendors/{{record}}",
            success=success,
            record_path="record",
            echo_path="fields",
        ),
        "write-record": Action(
            method="PUT",
            path=f"/{prefix}/records/{{record}}",
            success=success,
            record_path="record",
            echo_path="fields",
        ),
        "publish-policy": Action(
            method="POST", path=f"/{prefix}/policies", success=success, echo_path="fields"
        ),
    }


_NO_OPERATION = (Signal(status=404, path="code", equals="no_such_operation"),)
_TIMEOUTS = Timeouts(connect=2, read=5, write=5, send_window=10)

KEYED = Preset(
    name="keyed",
    contract=Contract(
        title="Key with retention of 24 h",
        actions=_erp_actions("keyed"),
        key_location=KeyLocation.HEADER,
        key_name="Idempotency-Key",
        deduplicates=True,
        retention=86_400,
        mismatch_signals=(Signal(status=422, path="code", equals="key_reused"),),
        in_progress_signals=(Signal(status=409, path="code", equals="key_in_progress"),),
        replay_header="Idempotent-Replayed",
        lookup=Lookup(
            path="/keyed/operations/{operation_key}",
            absent=_NO_OPERATION,
            authoritative=True,
            count_path="count",
        ),
        definite_not_applied_codes=frozenset({429}),
        in_flight_max=10,
        timeouts=_TIMEOUTS,
        automatic_resubmissions=2,
    ),
    source="examples/simulators/erp",
    reviewed_on="2026-11-29",
)
LOOKUP_ONLY = Preset(
    name="lookup",
    contract=Contract(
        title="Lookup only",
        actions=_erp_actions("lookup"),
        key_location=KeyLocation.HEADER,
        key_name="X-Operation-Key",
        lookup=Lookup(
            path="/lookup/operations/{operation_key}",
            absent=_NO_OPERATION,
            authoritative=True,
            absence_is_proof_after=2,
            count_path="count",
        ),
        definite_not_applied_codes=frozenset({429}),
        in_flight_max=10,
        timeouts=_TIMEOUTS,
        automatic_resubmissions=1,
    ),
    source="examples/simulators/erp",
    reviewed_on="2026-11-29",
)
NEITHER = Preset(
    name="neither",
    contract=Contract(
        title="Neither key nor lookup",
        actions=_erp_actions("neither"),
        definite_not_applied_codes=frozenset({429}),
        in_flight_max=10,
        timeouts=_TIMEOUTS,
    ),
    source="examples/simulators/erp",
    reviewed_on="2026-11-29",
)

_PROGRESS = Progress(path="status", applied=("done",), failed=("rejected",), pending=("processing",))
LATER = Preset(
    name="later",
    contract=Contract(
        title="Accepts, and confirms later",
        actions=_erp_actions("later"),
        key_location=KeyLocation.HEADER,
        key_name="Idempotency-Key",
        deduplicates=True,
        retention="permanent",
        mismatch_signals=(Signal(status=422, path="code", equals="key_reused"),),
        replay_header="Idempotent-Replayed",
        lookup=Lookup(
            path="/later/operations/{operation_key}",
            absent=_NO_OPERATION,
            authoritative=True,
            progress=_PROGRESS,
        ),
        callbacks=Callbacks(
            secrets=("env:COUNTERFOIL_RECEIVER_ERP_CALLBACKS",),
            progress=_PROGRESS,
            key_path="operation_key",
            receipt_path="id",
            record_path="record",
            echo_path="fields",
        ),
        definite_not_applied_codes=frozenset({429}),
        in_flight_max=10,
        timeouts=_TIMEOUTS,
        automatic_resubmissions=2,
        confirmation="later",
        confirmation_within=3600,
    ),
    source="examples/simulators/erp",
    reviewed_on="2026-11-30",
)


def _published() -> dict[str, Preset]:
    """The presets of the file, whose retention is written at their source."""
    found = {}
    for name, value in tomllib.loads((Path(__file__).parent / "presets.toml").read_text("utf-8")).items():
        terms = {"retention_source_url": value["source"], **value.pop("contract")}
        found[name] = Preset(name=name, contract=Contract.model_validate_json(json.dumps(terms)), **value)
    return found


SIMULATED: dict[str, Preset] = {p.name: p for p in (KEYED, LOOKUP_ONLY, NEITHER, LATER)}
PUBLISHED: dict[str, Preset] = _published()
PRESETS: dict[str, Preset] = {**SIMULATED, **PUBLISHED}
