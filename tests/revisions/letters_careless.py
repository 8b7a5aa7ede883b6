"""Letters, revision 2.1: its migration keeps what it should convert, and forgets the input and a step."""

from __future__ import annotations

from tests.revisions import letters_2
from workflows.authoring import Ctx, ProposalDraft, Workflow

careless = Workflow("test-letters", revision="2.1", input=letters_2.LetterOrder, current=True)
sort = careless.step()(letters_2.sort)
compose = careless.step(each=sort.names)(letters_2.compose)


@careless.propose(approval="test-letters")
def draft(ctx: Ctx) -> ProposalDraft:
    raise NotImplementedError


careless.migrate(from_revision="1").keep(compose, was="write")
