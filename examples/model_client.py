"""How the pipelines ask a model: `ctx.ask` with the task's name in front, by which the simulated provider knows it.

Embeddings are a call of another kind, made with the openai client; what it used is told with `ctx.record`. The provider
is COUNTERFOIL_PROVIDER_URL; its key is OPENAI_API_KEY of the environment, its time-out COUNTERFOIL_PROVIDER_TIMEOUT in
seconds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from django.conf import settings
from pydantic import BaseModel

from workflows.authoring import Ctx, Retryable

if TYPE_CHECKING:
    from openai import OpenAI

M = TypeVar("M", bound=BaseModel)
DEFAULT_TIMEOUT = 20.0


def ask(ctx: Ctx, *, task: str, prompt: str, schema: type[M], model: str = "atlas-large") -> M:
    """The model's answer as a `schema`. Raises what `Ctx.ask` raises."""
    return ctx.ask(f"task: {task}\n{prompt}", answer=schema, model=model)


def embed(
    ctx: Ctx, texts: Sequence[str], *, model: str = "atlas-embed", dimensions: int = 64
) -> list[list[float]]:
    """A vector for each text, in their order. Raises what the library raises, Retryable for an answer that does not fit."""
    answer = _client(os.getpid(), settings.COUNTERFOIL_PROVIDER_URL).embeddings.create(
        model=model,
        input=list(texts),
        dimensions=dimensions,
        extra_headers={"X-Request-Key": ctx.request_key},
    )
    ctx.record(route=model, tokens_in=answer.usage.prompt_tokens)
    vectors = [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]
    if len(vectors) != len(texts) or any(len(v) != dimensions for v in vectors):
        raise Retryable(f"{model} was asked for {len(texts)} vectors of {dimensions} and gave others.")
    return vectors


@cache
def _client(pid: int, provider: str) -> OpenAI:
    """One a process: making a client costs as much as several calls, and a connection must not cross a fork."""
    from openai import DefaultHttpxClient, OpenAI  # a second's import, which only who asks should pay

    timeout = float(os.environ.get("COUNTERFOIL_PROVIDER_TIMEOUT", DEFAULT_TIMEOUT))
    return OpenAI(
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
        base_url=f"{provider}/v1",
        max_retries=0,
        timeout=timeout,
        http_client=DefaultHttpxClient(trust_env=False, timeout=timeout),
    )
