"""The page on callbacks: its contract is one, and its callback says what the page says."""

from __future__ import annotations

import re

from dispatch import contract_text
from dispatch.callback_terms import Callbacks, Progress
from dispatch.callbacks.reading import finding_of, read_callback
from dispatch.callbacks.taking import LARGEST, MOST_A_MINUTE, MOST_OF_NOTHING
from dispatch.contracts import Contract
from tests.docs.generated import ROOT

PAGE = (ROOT / "docs" / "callbacks.md").read_text("utf-8")
SENT = b'{"amount":"48200.00","iban":"FI2112345600000785"}'


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found.group(1)


def test_the_contract_of_the_page_reads_its_callback_as_the_page_says() -> None:
    contract = contract_text.read(block("toml"))
    assert isinstance(contract, Contract)
    assert contract_text.read(contract_text.write(contract)) == contract
    terms = contract.callbacks
    assert terms is not None
    told = read_callback(block("json").encode(), terms)
    assert (told.key, told.receipt_id) == ("nkvw7q2m5hzt3xcr", "P-77")
    assert finding_of(told, terms, sent=SENT, record="V-1").name == "applied"
    other = finding_of(told, terms, sent=SENT.replace(b"48", b"84"), record="V-1")
    assert (other.name, other.proves) == ("differs", True)


def test_every_field_and_limit_is_described() -> None:
    fields = [*Callbacks.model_fields, *Progress.model_fields]
    assert [f for f in fields if f"`{f}`" not in PAGE] == []
    for limit in (f"{LARGEST:,} bytes", f"{MOST_A_MINUTE} of one receiver", f"{MOST_OF_NOTHING:,} are kept"):
        assert limit in PAGE
