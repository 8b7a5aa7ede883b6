"""The page on waiting: its blocks are run in order, as one module."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from access.secrets import References
from access.signatures import is_signed
from api import events
from tests.docs.generated import ROOT
from workflows.actions.event_sources import LONGEST_GRACE
from workflows.authoring import Workflow
from workflows.authoring.waits import ANSWERING, LONGEST_KEY, LONGEST_QUESTION, Woken
from workflows.expectations import JOURNALLED_MISFITS

PAGE = (ROOT / "docs" / "waiting.md").read_text("utf-8")


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the blocks define. An assertion in them that does not hold fails here."""
    names: dict[str, Any] = {"__name__": "docs.waiting"}
    for block in re.finditer(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        line = PAGE[: block.start(1)].count("\n")
        exec(compile("\n" * line + block.group(1), "docs/waiting.md", "exec", dont_inherit=True), names)
    return names


def test_the_example_is_a_workflow_whose_steps_wait(page: dict[str, Any]) -> None:
    shipping = page["shipping"]
    assert isinstance(shipping, Workflow)
    assert [(s.name, s.waits, s.result_type) for s in shipping.steps[:3]] == [
        ("let-it-rest", True, Woken),
        ("shipped", True, page["Shipment"]),
        ("transport", True, page["Transport"]),
    ]
    assert len(shipping.configuration_digest()) == 64
    light = page["Order"](reference="R-1", weight=2)
    assert shipping.steps[2](None, light, None) == page["Transport"](way="by hand")


def test_the_signature_on_the_page_is_one_that_is_taken(page: dict[str, Any]) -> None:
    at = str(int(time.time()))
    signed = page["sign"](page["SECRET"], "e-1", at, b"{}")
    headers = {"webhook-id": "e-1", "webhook-timestamp": at, "webhook-signature": signed}
    assert is_signed(b"{}", headers, [page["SECRET"]])
    assert not is_signed(b"{ }", headers, [page["SECRET"]])


def test_the_numbers_on_the_page_are_those_in_the_code() -> None:
    assert f"1 to {LONGEST_KEY} printable characters" in PAGE
    assert f"up to {LONGEST_QUESTION:,} characters" in PAGE
    assert f"up to {events.LARGEST:,} bytes" in PAGE
    assert ", ".join(ANSWERING[:-1]) + f" or {ANSWERING[-1]}" in PAGE
    assert References("EVENTS").allow("env:COUNTERFOIL_EVENTS_CARRIER")
    assert LONGEST_GRACE.days > 1
    assert JOURNALLED_MISFITS == 10
