"""Passages: all words, none too long, and what stands on a border stands whole in one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.chunking import passages

WORDS = st.text(alphabet="abcdefghij", min_size=1, max_size=12)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", ". ", "\n\n", "\n"])), max_size=200).map(
    lambda pairs: "".join(word + border for word, border in pairs)
)


@given(TEXTS)
def test_no_word_is_lost_and_no_passage_is_too_long(text: str) -> None:
    found = passages(text, longest=100, overlap=20)
    assert all(0 < len(p) <= 100 and p.strip() for p in found)
    words = iter(" ".join(found).split())
    assert all(word in words for word in text.split()), "the words stand in the passages in their order"


def test_text_is_cut_at_paragraphs_where_they_fit() -> None:
    paragraphs = [f"Paragraph {n} " + "says something. " * 4 for n in range(4)]
    found = passages("\n\n".join(paragraphs), longest=170, overlap=0)
    assert [p.count("Paragraph") for p in found] == [2, 2]
    assert all(p.startswith("Paragraph") and "\n\n" in p for p in found)


def test_what_stands_on_a_border_stands_whole_in_the_next_passage() -> None:
    text = "one two three four five six seven eight nine ten " * 20
    first, second, *_ = passages(text, longest=120, overlap=30)
    assert second.split()[0] in first.split()[-8:]


def test_a_word_longer_than_a_passage_is_cut() -> None:
    assert "".join(passages("x" * 250, longest=100, overlap=0)).replace("\n", "") == "x" * 250


@pytest.mark.parametrize("text", ["", "  \n\n \t"])
def test_nothing_has_no_passages(text: str) -> None:
    assert passages(text) == []


def test_an_overlap_of_half_a_passage_is_refused() -> None:
    with pytest.raises(ValueError, match="less than half"):
        passages("text", longest=100, overlap=50)
