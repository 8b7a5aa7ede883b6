"""Every text role may sit on every surface, in both themes, at 4.5 to 1; borders of controls at 3 to 1."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

TOKENS = (Path(__file__).parents[2] / "static" / "css" / "tokens.css").read_text()
PAIRS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+):\s*light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)", TOKENS)
}
SURFACES = ("paper", "sheet", "stub", "tint", "ok-t", "wait-t", "doubt-t", "fail-t", "move-t")
WORDS = ("ink", "ink-2", "ink-3", "pen", "ok", "wait", "doubt", "fail", "move")


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("words", "surface"), list(product(WORDS, SURFACES)))
def test_text_reads_on_every_surface(words: str, surface: str, theme: int) -> None:
    assert round(contrast(PAIRS[words][theme], PAIRS[surface][theme]), 1) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_on_a_pen_button_and_edges_of_controls_can_be_seen(theme: int) -> None:
    assert contrast(PAIRS["on-pen"][theme], PAIRS["pen"][theme]) >= 4.5
    assert contrast(PAIRS["sheet"][theme], PAIRS["fail"][theme]) >= 4.5
    assert round(contrast(PAIRS["edge"][theme], PAIRS["sheet"][theme]), 1) >= 3


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
