"""Who answers `Ctx.ask` in an installation: the provider at COUNTERFOIL_PROVIDER_URL, in the protocol of OpenAI's API.

The client neither retries nor remembers: an attempt is one call. Its key is OPENAI_API_KEY of the environment, its
time-out COUNTERFOIL_PROVIDER_TIMEOUT in seconds.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings

from workflows.authoring.asking import Completion, Prompt, Provider

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import CompletionUsage

DEFAULT_TIMEOUT = 20.0


def provider() -> Provider:
    """The provider of this process."""
    return _ChatCompletions(settings.COUNTERFOIL_PROVIDER_URL)


class _ChatCompletions:
    def __init__(self, url: str) -> None:
        self._url = url

    def complete(self, prompt: Prompt) -> Completion:
        answer = _client(os.getpid(), self._url).chat.completions.create(
            model=prompt.model,
            messages=[
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.text},
            ],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": prompt.schema_name, "schema": prompt.schema},
            },
            max_completion_tokens=prompt.longest_answer,
            extra_headers={"X-Request-Key": prompt.request_key},
        )
        choice = answer.choices[0] if answer.choices else None
        unfinished = ""
        if choice is None:
            unfinished = "nothing came"
        elif choice.finish_reason != "stop" or choice.message.content is None:
            unfinished = choice.message.refusal or choice.finish_reason
        text = (choice.message.content or "") if choice is not None else ""
        return _completion(text, answer.usage, unfinished)


def _completion(text: str, usage: CompletionUsage | None, unfinished: str) -> Completion:
    if usage is None:
        return Completion(text, unfinished=unfinished)
    asked, answered = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = (asked.cached_tokens if asked else None) or 0
    reasoning = (answered.reasoning_tokens if answered else None) or 0
    return Completion(
        text,
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
        tokens_cached=min(cached, usage.prompt_tokens),  # of a provider that counts them apart, what fits
        tokens_reasoning=min(reasoning, usage.completion_tokens),
        unfinished=unfinished,
    )


@cache
def _client(pid: int, url: str) -> OpenAI:
    """One a process: making a client costs as much as several calls, and a connection must not cross a fork."""
    from openai import DefaultHttpxClient, OpenAI  # a second's import, which only who asks should pay

    timeout = float(os.environ.get("COUNTERFOIL_PROVIDER_TIMEOUT", DEFAULT_TIMEOUT))
    return OpenAI(
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
        base_url=f"{url}/v1",
        max_retries=0,
        timeout=timeout,
        http_client=DefaultHttpxClient(trust_env=False, timeout=timeout),
    )
