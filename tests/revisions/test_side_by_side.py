"""Two revisions of one workflow in one process: old jobs end as they began, new jobs take the new one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.revisions.conftest import BOTH, RELEASE_1, Deploy, LetterJob
from workflows import registry
from workflows.authoring import BadDefinition, Workflow
from workflows.engine.engine import Engine

pytestmark = pytest.mark.django_db(transaction=True)


def test_old_jobs_end_on_their_revision_while_new_ones_take_the_new_one(
    deploy: Deploy, letter_job: Callable[..., LetterJob], engine: Callable[[], Engine]
) -> None:
    deploy(RELEASE_1)
    old = letter_job("Bob", "Ada")
    deploy(BOTH)
    new = letter_job("Dan", "Cem", language="en")
    engine()
    old.wait_until_drafted()
    new.wait_until_drafted()

    assert (old.now.revision, new.now.revision) == ("1", "2")
    assert {n.revision for n in old.notes()} == {"1"}
    assert {n.revision for n in new.notes()} == {"2"}
    assert old.saved("write") == {
        "1": '{"name":"Ada","text":"Dear Ada"}',
        "2": '{"name":"Bob","text":"Dear Bob"}',
    }
    assert sorted(new.saved("compose").values()) == [
        '{"body":"Dear Cem,","language":"en","name":"Cem"}',
        '{"body":"Dear Dan,","language":"en","name":"Dan"}',
    ]
    assert old.saved("bind") == {"1": '{"letters":2}'}


def test_new_jobs_take_the_revision_that_says_so(deploy: Deploy) -> None:
    deploy(BOTH)
    assert registry.current("test-letters").revision == "2"
    deploy("tests.revisions.letters_2", RELEASE_1)
    assert registry.current("test-letters").revision == "2"
    deploy(RELEASE_1)
    assert registry.current("test-letters").revision == "1"


def test_one_module_can_hold_several_revisions_that_share_their_handlers(deploy: Deploy) -> None:
    from tests.revisions import letters_1

    later = Workflow("test-letters", revision="1.1", input=letters_1.Order, settings={"tone": "warm"})
    sort = later.step(title="Sort")(letters_1.sort)
    later.step(each=sort.names)(letters_1.write)
    later.step()(letters_1.bind)
    later.propose(approval="test-letters")(letters_1.propose)

    assert [s.name for s in later.steps] == [s.name for s in letters_1.letters.steps]
    assert later.steps[0].handler is letters_1.sort.handler
    assert later.configuration_digest() != letters_1.letters.configuration_digest()


@pytest.mark.parametrize("revision", ["", "a b", "-1", "1/2", "x" * 51])
def test_a_revision_has_a_plain_name(revision: str) -> None:
    from tests.revisions.letters_1 import Order

    with pytest.raises(BadDefinition, match="a revision is named by"):
        Workflow("test-letters", revision=revision, input=Order)
