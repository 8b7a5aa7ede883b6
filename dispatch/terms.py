"""A file of terms: the approval policies and receivers that a package's workflows need in an organisation. Pure.

    [policies.invoices]
    quorum = 1

    [receivers.ledger]
    title = "Ledger"
    base_url = "https://ledger.example/api"
    secret_reference = "env:COUNTERFOIL_RECEIVER_LEDGER"

    [receivers.ledger.contract.actions.put]
    method = "PUT"
    path = "/records/{record}"

`manage.py write_terms` writes them; the test kit reads the same file.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from approvals.ruleset import RuleSet
from dispatch.contracts import Contract
from workflows.wording import problems_in

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,79}$")]


class BadTerms(Exception):
    """The file cannot be read, or does not say what it must; the message names the first fault."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReceiverTerms(_Frozen):
    """One receiver with its contract. `source`: where its promises are written."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    base_url: str
    account: str = ""
    secret_reference: str = ""
    source: str = ""
    contract: Contract


class Terms(_Frozen):
    """Everything that one file says."""

    policies: dict[Name, RuleSet] = Field(default_factory=dict)
    receivers: dict[Name, ReceiverTerms] = Field(default_factory=dict)


def read_terms(file: Path) -> Terms:
    """The terms of a TOML file, or BadTerms. A contract without a title takes its receiver's."""
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except OSError as unreadable:
        raise BadTerms(f"{file} cannot be read: {unreadable.strerror}.") from unreadable
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as broken:
        raise BadTerms(f"{file} is not TOML: {broken}.") from broken
    try:
        return Terms.model_validate_json(_as_json(content))
    except ValidationError as invalid:
        place, said = next(problems_in(invalid))
        raise BadTerms(f"{file}: {place}: {said}.") from invalid


def _as_json(content: dict[str, Any]) -> str:
    for receiver in content.get("receivers", {}).values():
        if isinstance(receiver, dict) and isinstance(receiver.get("contract"), dict):
            receiver["contract"].setdefault("title", receiver.get("title", ""))
    return json.dumps(content, default=str)
