"""What the journal's page says of an entry: with what it carries, and never half a sentence."""

from console.queries.journal import SENTENCES, sentence


def test_a_case_is_named_as_people_name_it() -> None:
    evidence = {"case": 3, "kind": "retry exhausted", "owner": "operator"}
    assert sentence("case.opened", evidence) == "Case RC-0003 opened: retry exhausted."
    assert (
        sentence("case.opened", {"case": 4, "kind": "conflicted"}) == "Case RC-0004 opened: answer differs."
    )


def test_an_entry_without_what_its_sentence_needs_keeps_a_whole_one() -> None:
    assert sentence("case.opened", {}) == "Case opened."
    assert sentence("operation.submitted", {}) == "Operation submitted."
    assert sentence("job.held", {}) == "Held."
    assert all(
        len(sentence(event, {}).split()) > 0 and sentence(event, {}).endswith(".") for event in SENTENCES
    )


def test_a_refusal_is_named_in_words_and_not_by_its_class() -> None:
    assert sentence("decision.refused", {"why": "SameAgain"}) == "A decision was refused: same again."
    assert sentence("answer.refused", {"why": "It is too late."}) == "An answer was refused: It is too late."
