"""One question to a real provider process over HTTP: what comes back, what is recorded, what each fault becomes."""

from __future__ import annotations

from decimal import Decimal

import openai
import pytest
from django.utils import timezone
from pydantic import BaseModel, ValidationError

from examples.model_client import ask
from examples.simulators.client import ProviderControl
from workflows import providers
from workflows.authoring import Ctx, Retry
from workflows.authoring.asking import read_answer
from workflows.engine.outcomes import is_retryable, retry_after

pytestmark = pytest.mark.processes


class Answer(BaseModel):
    limit: str
    reason: str


def a_ctx() -> Ctx:
    return Ctx(
        tenant_id=1, job_id=2, reference="VC-1", item_key="1", attempt=1, request_key="test-2-assess-1"
    )


def question(ctx: Ctx) -> Answer:
    return ask(ctx, task="limit 7", prompt="What is it?", schema=Answer)


def test_answer_comes_back_in_its_shape_and_its_cost_is_recorded(provider: ProviderControl) -> None:
    answer = {"limit": "10.00", "reason": "Ødegård asked"}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    provider.set_script({"match": {"task": "limit 7"}, "answer": answer, "usage": usage})
    ctx = a_ctx()

    assert question(ctx) == Answer(**answer)

    assert (ctx.usage.route, ctx.usage.tokens_in, ctx.usage.tokens_out) == ("atlas-large", 1000, 100)
    assert ctx.usage.cost == Decimal("0.0035")
    (call,) = provider.calls()
    assert call["headers"]["x-request-key"] == "test-2-assess-1"
    assert call["last_user"] == "task: limit 7\nWhat is it?"


@pytest.mark.parametrize(
    "text",
    [
        "Sure! Here is the JSON.",
        '{"limit": "10.00"}',
        '{"limit": 10, "reason": "x"}',
        '{"limit": "10.00", "limit": "99.00", "reason": "x"}',
        '{"limit": "10.00", "reason": {"a": 1, "a": 2}}',
        '{"limit": "10.00", "reason": "cut',
        "[" * 5000,
    ],
)
def test_answer_of_another_shape_was_paid_for_and_is_tried_again(
    provider: ProviderControl, text: str
) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    provider.set_script({"match": {"task": "limit 7"}, "answer": text, "usage": usage})
    ctx = a_ctx()

    with pytest.raises(ValidationError) as refused:
        question(ctx)

    assert is_retryable(refused.value, Retry())
    assert (ctx.usage.tokens_in, ctx.usage.tokens_out) == (7, 3)


@pytest.mark.parametrize("fault", ["status_500", "status_429", "drop", "cut_json", "timeout"])
def test_fault_of_the_provider_is_tried_again_by_the_engine_and_only_by_it(
    provider: ProviderControl, fault: str
) -> None:
    rule = {"match": {"task": "limit 7"}, "fault": {"kind": fault, "seconds": 5, "retry_after": "7"}}
    provider.set_script(rule)

    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is the library's own matter
        question(a_ctx())

    assert is_retryable(raised.value, Retry())
    assert retry_after(raised.value, timezone.now()) == (7.0 if fault == "status_429" else None)
    assert len(provider.calls()) == 1


def test_refused_request_is_not_tried_again(provider: ProviderControl) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        ask(a_ctx(), task="limit 7", prompt="?", schema=Answer, model="")

    assert not is_retryable(refused.value, Retry())


def test_environment_of_proxies_is_not_asked(
    provider: ProviderControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    provider.set_script({"match": {"task": "limit 7"}, "answer": {"limit": "1", "reason": "x"}})

    assert question(a_ctx()).limit == "1"


def test_one_client_serves_a_process(provider: ProviderControl) -> None:
    provider.set_script({"match": {"task": "limit 7"}, "answer": {"limit": "1", "reason": "x"}})
    for _ in range(3):
        question(a_ctx())

    assert providers._client.cache_info().misses == 1


def test_key_that_is_given_twice_is_named() -> None:
    with pytest.raises(ValidationError, match="the key limit is given twice"):
        read_answer('{"limit": "1", "limit": "2", "reason": "x"}', Answer)
