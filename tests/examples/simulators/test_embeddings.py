"""The provider's vectors: the same words, the same vector, through the client that people use."""

from __future__ import annotations

import math
from collections.abc import Iterator

import httpx
import openai
import pytest

from examples.simulators.client import ProviderControl, Running


@pytest.fixture
def client(provider: Running) -> Iterator[openai.OpenAI]:
    transport = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        api_key="none", base_url=f"{provider.base_url}/v1", max_retries=0, http_client=transport
    ) as made:
        yield made


def vectors(client: openai.OpenAI, *texts: str, dimensions: int = 32) -> list[list[float]]:
    answer = client.embeddings.create(model="atlas-embed", input=list(texts), dimensions=dimensions)
    assert [one.index for one in answer.data] == list(range(len(texts)))
    return [one.embedding for one in answer.data]


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_the_same_text_has_the_same_vector_of_length_one(client: openai.OpenAI) -> None:
    first, again, other = vectors(client, "The frame contract", "the FRAME contract!", "A cold store")
    assert first == again
    assert first != other
    assert math.isclose(math.hypot(*first), 1, abs_tol=1e-6)


def test_more_words_in_common_are_nearer(client: openai.OpenAI) -> None:
    asked, near, far = vectors(
        client,
        "total price of the contract",
        "The total price is 12",
        "Deliveries come by rail",
        dimensions=256,
    )
    assert cosine(asked, near) > cosine(asked, far)


def test_both_forms_of_an_answer_say_the_same(client: openai.OpenAI) -> None:
    plain = client.embeddings.create(model="atlas-embed", input="A text", encoding_format="float")
    coded = client.embeddings.create(model="atlas-embed", input="A text")
    assert plain.data[0].embedding == list(coded.data[0].embedding)


def test_a_call_is_logged_and_says_what_it_used(
    client: openai.OpenAI, provider_control: ProviderControl
) -> None:
    answer = client.embeddings.create(
        model="atlas-embed", input=["x" * 400, "y" * 40], extra_headers={"X-Request-Key": "k-1"}
    )
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (110, 110)
    (call,) = provider_control.calls()
    assert call["last_user"].splitlines()[0] == "task: embed 2"
    assert (call["outcome"], call["answer"], call["headers"]["x-request-key"]) == (
        "answered",
        "2 vectors of 64",
        "k-1",
    )


def test_the_script_strikes_here_too(client: openai.OpenAI, provider_control: ProviderControl) -> None:
    provider_control.set_script({"match": {"task": "embed"}, "fault": "status_429", "times": 1})
    with pytest.raises(openai.RateLimitError) as refused:
        vectors(client, "A text")
    assert refused.value.response.headers["retry-after"] == "2"
    assert len(vectors(client, "A text")) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"input": "a"},
        {"model": "atlas-embed"},
        {"model": "atlas-embed", "input": []},
        {"model": "atlas-embed", "input": ["a", ""]},
        {"model": "atlas-embed", "input": [1, 2]},
        {"model": "atlas-embed", "input": "a", "dimensions": 0},
        {"model": "atlas-embed", "input": "a", "dimensions": True},
        {"model": "atlas-embed", "input": "a", "encoding_format": "xml"},
    ],
)
def test_what_cannot_be_embedded_is_refused_in_the_protocols_words(
    provider: Running, provider_control: ProviderControl, body: dict[str, object]
) -> None:
    answer = httpx.post(f"{provider.base_url}/v1/embeddings", json=body, trust_env=False)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    assert provider_control.calls() == []
