"""Routes: the OpenAI endpoints, and the control ones around them."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.simulators.database import Database
from examples.simulators.page import stylesheet
from examples.simulators.provider import calls, embeddings, pages, script
from examples.simulators.provider.calls import CallLog
from examples.simulators.provider.script import Question, Rule, Script, checked_rules
from examples.simulators.wire import (
    Answer,
    Hangup,
    Incoming,
    Refused,
    Reply,
    html_answer,
    json_answer,
    parse_json_object,
    problem,
)

MODELS = ("atlas-large", "atlas-small", "atlas-embed", "gpt-4o-mini")
HOLD_SECONDS = 30.0


class Provider:
    def __init__(self, *, database: Path, script: Path) -> None:
        self._database = Database(database, SCHEMA)
        self._script = Script(self._database, script.read_bytes())
        self._log = CallLog(self._database)

    def __call__(self, request: Incoming) -> Reply:
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                return self._complete(request)
            case "POST", "/v1/embeddings":
                return self._embed(request)
            case "GET", "/v1/models":
                return json_answer(200, {"object": "list", "data": [_model(name) for name in MODELS]})
            case "GET" | "HEAD", "/":
                return html_answer(
                    pages.calls_page(calls=self._log.calls()[::-1], rules=self._script.rules())
                )
            case "GET" | "HEAD", "/simulators.css":
                return stylesheet()
            case "GET" | "HEAD", "/healthz":
                return json_answer(200, {"status": "ok"})
            case "GET", "/calls.json":
                return json_answer(200, {"calls": self._log.calls(since=_since(request))})
            case "DELETE", "/calls":
                self._log.clear()
                return json_answer(200, {"calls": []})
            case "GET", "/script":
                return self._rules()
            case "POST", "/script":
                self._script.set_rules(checked_rules(parse_json_object(request.read_body())))
                return self._rules()
            case "DELETE", "/script":
                self._script.set_rules([])
                return self._rules()
        return _error(404, "not_found", f"Unknown request URL: {request.method} {request.path}.")

    def _complete(self, request: Incoming) -> Reply:
        question = _question(request)

        def answer(rule: Rule, number: int) -> Spoken:
            said = rule.answer_to(question)
            return Spoken(said, _completion(question, rule, number, said))

        return self._speak(request, question, answer)

    def _embed(self, request: Incoming) -> Reply:
        content = _content(request)
        asked = embeddings.read(content)
        if isinstance(asked, str):
            raise Refused(_error(400, "invalid_request_error", asked))
        question = _plain_question(
            request, content, "\n".join([f"task: embed {len(asked.texts)}", *asked.texts])
        )
        tokens = sum(_rough_tokens(text) for text in asked.texts)

        def answer(rule: Rule, number: int) -> Spoken:
            told = f"{len(asked.texts)} vectors of {asked.dimensions}"
            return Spoken(told, embeddings.answer(asked, question.model, tokens))

        return self._speak(request, question, answer)

    def _speak(self, request: Incoming, question: Question, answer: Callable[[Rule, int], "Spoken"]) -> Reply:
        """Log the call, let the script strike, and answer."""
        rule = self._script.take(question)
        number = self._log.start(question, rule.name)
        if request.client_leaves_within(rule.latency):
            self._log.finish(number, "client left")
            return Hangup()
        if rule.fault:
            reply = self._faulty_reply(request, rule, number, answer)
            if isinstance(reply, Answer):
                self._log.finish(number, rule.fault["kind"], status=reply.status)
            return reply
        spoken = answer(rule, number)
        self._log.finish(number, "answered", status=200, answer=spoken.told)
        return json_answer(200, spoken.body, X_Request_Id=f"req_{number:06d}")

    def _faulty_reply(
        self, request: Incoming, rule: Rule, number: int, answer: Callable[[Rule, int], "Spoken"]
    ) -> Reply:
        match rule.fault["kind"]:
            case "timeout":
                left = request.client_leaves_within(float(rule.fault.get("seconds", HOLD_SECONDS)))
                self._log.finish(number, "timeout, client left" if left else "timeout, connection closed")
                return Hangup()
            case "drop":
                self._log.finish(number, "drop")
                return Hangup()
            case "status_429":
                retry_after = str(rule.fault.get("retry_after", "2"))
                return _error(429, "rate_limit_exceeded", "Rate limit reached.", Retry_After=retry_after)
            case "cut_json":
                whole = json_answer(200, answer(rule, number).body).body
                return Answer(200, whole[: len(whole) // 2])
        return _error(500, "server_error", "The server had an error while processing your request.")

    def _rules(self) -> Answer:
        listed = [{"source": rule.source, "used": rule.used, **rule.content} for rule in self._script.rules()]
        return json_answer(200, {"rules": listed})


SCHEMA = script.SCHEMA + calls.SCHEMA


@dataclass(frozen=True)
class Spoken:
    """An answer: what the log keeps of it, and the body that leaves."""

    told: str
    body: dict[str, Any]


def _content(request: Incoming) -> dict[str, Any]:
    """Raises `Refused` in the protocol's own error shape. A refused request is no call and is not logged."""
    try:
        return parse_json_object(request.read_body())
    except Refused as refusal:
        if isinstance(refusal.reply, Hangup):
            raise
        raise Refused(
            _error(refusal.reply.status, "invalid_request_error", "The body cannot be read.")
        ) from None


def _question(request: Incoming) -> Question:
    content = _content(request)
    messages = content.get("messages")
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(message, dict) for message in messages)
    ):
        raise Refused(_error(400, "missing_required_parameter", "messages: a list of objects is required."))
    if content.get("stream"):
        raise Refused(_error(400, "unsupported_value", "stream: this provider answers in one piece only."))
    return _plain_question(request, content, _last_user(messages))


def _plain_question(request: Incoming, content: dict[str, Any], said: str) -> Question:
    model, metadata = content.get("model"), content.get("metadata")
    if not isinstance(model, str) or not model:
        raise Refused(_error(400, "missing_required_parameter", "model: a string is required."))
    return Question(
        model=_storable(model),
        last_user=_storable(said),
        script=_text_or_none(metadata.get("script") if isinstance(metadata, dict) else None),
        user=_text_or_none(content.get("user")),
        headers={name.lower(): str(value) for name, value in request.headers.items()},
        schema=_schema(content.get("response_format")),
    )


def _schema(asked: object) -> dict[str, Any] | None:
    """The JSON schema of a request's `response_format`, where it has one."""
    described = asked.get("json_schema") if isinstance(asked, dict) else None
    schema = described.get("schema") if isinstance(described, dict) else None
    return schema if isinstance(schema, dict) else None


def _last_user(messages: list[dict[str, Any]]) -> str:
    content = next(
        (message.get("content") for message in reversed(messages) if message.get("role") == "user"), ""
    )
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _storable(value: str) -> str:
    return value.encode("utf-8", "replace").decode("utf-8")  # JSON may carry lone surrogates, SQLite may not


def _text_or_none(value: object) -> str | None:
    return _storable(value) if isinstance(value, str) else None


def _completion(question: Question, rule: Rule, number: int, answer: str) -> dict[str, Any]:
    usage: dict[str, int] = rule.content.get("usage", {})
    prompt = usage.get("prompt_tokens", _rough_tokens(question.last_user))
    completion = usage.get("completion_tokens", _rough_tokens(answer))
    message = {"role": "assistant", "content": answer, "refusal": None}
    return {
        "id": f"chatcmpl-{number:06d}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


def _rough_tokens(content: str) -> int:
    return max(1, len(content) // 4)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1767225600, "owned_by": "simulator"}


def _error(status: int, code: str, message: str, **headers: str) -> Answer:
    kind = "invalid_request_error" if status < 500 and status != 429 else code
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Answer(
        status,
        json.dumps({"error": error}).encode(),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def _since(request: Incoming) -> int:
    since = request.query.get("since", "0")
    if not re.fullmatch(r"[0-9]{1,18}", since):
        raise Refused(problem(400, "bad_since", "since: the id of a call."))
    return int(since)
