"""A file of terms: read, refused with the place that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatch.contracts import Contract
from dispatch.terms import BadTerms, read_terms

TERMS = """
[policies.invoices]
quorum = 2
limit_amount = "5000.00"
limit_currency = "EUR"

[receivers.ledger]
title = "The ledger"
base_url = "http://127.0.0.1:8101"
source = "ledger handbook, chapter 3"

[receivers.ledger.contract]
key_location = "header"
key_name = "Idempotency-Key"
deduplicates = true
retention = 86400

[receivers.ledger.contract.actions.put]
method = "PUT"
path = "/keyed/records/{record}"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counterfoil.toml"
    path.write_text(TERMS)
    return path


def test_a_file_says_policies_and_contracts(file: Path) -> None:
    terms = read_terms(file)
    assert list(terms.policies) == ["invoices"]
    ledger = terms.receivers["ledger"]
    assert isinstance(ledger.contract, Contract)
    assert (ledger.contract.title, ledger.contract.retention) == ("The ledger", 86400.0)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("[policies.invoices]", "[policies.invoices", "is not TOML: "),
        ("quorum = 2", "quorum = 0", "policies.invoices.levels.0.quorum: has to be at least 1"),
        ("quorum = 2", "quorums = 2", "policies.invoices.quorums: is not known here; leave it out"),
        ('"5000.00"', "5000.0", "policies.invoices.limits.0.amount: write an amount as text"),
        ("[policies.invoices]", "[policies.In_voices]", "policies.In_voices.[key]: "),
        ('method = "PUT"', 'method = "GET"', "receivers.ledger.contract.actions.put.method: has to be"),
        ('key_name = "Idempotency-Key"', "", "receivers.ledger.contract: a key has a place"),
        ('title = "The ledger"', "", "receivers.ledger.title: is missing; give it"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(file: Path, before: str, after: str, why: str) -> None:
    assert before in TERMS
    file.write_text(TERMS.replace(before, after))
    with pytest.raises(BadTerms) as refused:
        read_terms(file)
    assert why in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadTerms, match=r"nothing\.toml cannot be read: No such file or directory\."):
        read_terms(tmp_path / "nothing.toml")
