"""Reading what a workflow's `propose` returned, with every reason why it cannot become a proposal. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from pydantic import ValidationError

from approvals import canonical
from workflows.authoring import ProposalDraft
from workflows.authoring.values import check_decimals


class NotFrozen(Exception):
    """The draft cannot become a proposal. The message is a sentence."""


def read_draft(draft_json: str) -> ProposalDraft:
    """A saved draft, if it could become a proposal, or NotFrozen or NotCanonical."""
    try:
        draft = ProposalDraft.model_validate(canonical.parse(draft_json))
    except ValidationError as invalid:
        first = invalid.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise NotFrozen(f"The draft is not a proposal: {place}: {first['msg']}.") from invalid
    for what, amount, currency in _money_of(draft):
        if (amount is None) != (currency is None):
            raise NotFrozen(f"{what} needs an amount and a currency together.")
        if amount is not None and currency is not None:
            try:
                check_decimals(amount, currency)
            except ValueError as wrong:
                raise NotFrozen(f"{what}: {wrong}.") from wrong
    for what, text in (("recipient", draft.recipient), ("amount label", draft.amount_label)):
        if len(text) > 300:
            raise NotFrozen(f"The {what} is longer than 300 characters.")
    return draft


def _money_of(draft: ProposalDraft) -> Iterator[tuple[str, Decimal | None, str | None]]:
    yield "The proposal", draft.amount, draft.currency
    for ordinal, one in enumerate(draft.operations, start=1):
        yield f"Operation {ordinal}", one.amount, one.currency
