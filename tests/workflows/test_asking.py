"""`ctx.ask` in an installation, over HTTP to a real provider process: what comes back, and what each fault becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import openai
import pytest
from django.utils import timezone
from pydantic import BaseModel, ValidationError

from examples.simulators.client import ProviderControl
from workflows.authoring import Completion, Ctx, Prompt, Retryable
from workflows.engine.outcomes import retry_after

pytestmark = pytest.mark.processes


class Kind(BaseModel):
    kind: Literal["travel", "office"]
    reason: str


@pytest.fixture
def ctx() -> Ctx:
    return Ctx(tenant_id=1, job_id=2, reference="R", item_key="1", attempt=1, request_key="test-2-sort-1")


def question(ctx: Ctx) -> Kind:
    return ctx.ask("Which kind is this?\n<<<\nA hotel\n>>>", answer=Kind, model="atlas-small")


def test_the_answer_comes_back_in_its_shape_and_its_tokens_are_recorded(
    provider: ProviderControl, ctx: Ctx
) -> None:
    answer = {"kind": "travel", "reason": "Ødegård slept there"}
    usage = {"prompt_tokens": 900, "completion_tokens": 40}
    provider.set_script({"match": {"contains": "hotel"}, "answer": answer, "usage": usage})

    assert question(ctx) == Kind(kind="travel", reason="Ødegård slept there")

    assert (ctx.usage.route, ctx.usage.tokens_in, ctx.usage.tokens_out) == ("atlas-small", 900, 40)
    (call,) = provider.calls()
    assert (call["headers"]["x-request-key"], call["model"]) == ("test-2-sort-1", "atlas-small")


def test_the_simulated_provider_answers_any_schema_without_a_script(
    provider: ProviderControl, ctx: Ctx
) -> None:
    assert question(ctx).reason == "A hotel"
    assert ctx.ask("office, please", answer=Kind, model="m") == Kind(kind="office", reason="office, please")


@pytest.mark.parametrize("text", ["Sure!", '{"kind": "travel"}', '{"kind": "travel", "kind": "office", "reason": ""}'])  # fmt: skip
def test_an_answer_of_another_shape_is_refused_and_was_paid_for(
    provider: ProviderControl, ctx: Ctx, text: str
) -> None:
    provider.set_script({"answer": text, "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    with pytest.raises(ValidationError):
        question(ctx)
    assert (ctx.usage.tokens_in, ctx.usage.tokens_out) == (7, 3)


def test_a_provider_that_is_busy_says_when_to_come_again(provider: ProviderControl, ctx: Ctx) -> None:
    provider.set_script({"fault": {"kind": "status_429", "retry_after": "17"}})
    with pytest.raises(openai.RateLimitError) as busy:
        question(ctx)
    assert retry_after(busy.value, timezone.now()) == 17.0
    assert len(provider.calls()) == 1


def test_a_provider_that_does_not_answer_is_asked_once_and_given_up(
    provider: ProviderControl, ctx: Ctx
) -> None:
    provider.set_script({"fault": {"kind": "timeout", "seconds": 5}})
    with pytest.raises(openai.APITimeoutError):
        question(ctx)
    assert len(provider.calls()) == 1


def test_an_answer_that_was_cut_short_is_tried_again_whatever_it_says(ctx: Ctx) -> None:
    class CutShort:
        def complete(self, prompt: Prompt) -> Completion:
            return Completion('{"kind": "travel", "reason": "wh', tokens_out=4000, unfinished="length")

    with pytest.raises(Retryable, match="atlas-small did not finish its answer: length"):
        question(replace(ctx, provider=CutShort()))
    assert ctx.usage.tokens_out == 4000, "it was paid for"
