"""Tables for spreadsheets: what would run there is text, and comes back as it was."""

from __future__ import annotations

import pytest

from web.spreadsheets import as_it_was, harmless


@pytest.mark.parametrize("text", ["＝1+1", " ＠SUM(1)", "'=1", "=1", "plain", "'"])
def test_a_formula_of_full_width_is_made_harmless_and_comes_back(text: str) -> None:
    kept = harmless(text)
    assert (kept == f"'{text}", as_it_was(kept)) == (text != "plain", text)
