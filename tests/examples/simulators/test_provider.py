import json
import operator
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from examples.simulators.client import ProviderControl, Running, start_provider
from tests.examples.simulators.waiting import wait_until

pytestmark = pytest.mark.processes


def ask(running: Running, message: str, *, timeout: float = 10, **more: Any) -> str:
    with client_of(running, timeout) as client:
        completion = client.chat.completions.create(
            model="atlas-large", messages=[{"role": "user", "content": message}], **more
        )
    return completion.choices[0].message.content or ""


def client_of(running: Running, timeout: float = 10) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{running.base_url}/v1",
        api_key="none",
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


def test_the_openai_client_gets_a_completion(provider: Running, provider_control: ProviderControl) -> None:
    with client_of(provider) as client:
        completion = client.chat.completions.create(
            model="atlas-large",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "task: vendor-change\nx"},
            ],
            extra_headers={"X-Request-Key": "step-7"},
        )
    content = completion.choices[0].message.content or ""
    calls = provider_control.calls()

    assert json.loads(content)["credit_limit"] == "48200.00"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.total_tokens) == (1840, 1936)
    assert len(calls) == 1
    assert (calls[0]["outcome"], calls[0]["status"], calls[0]["answer"]) == ("answered", 200, content)
    assert (calls[0]["model"], calls[0]["last_user"]) == ("atlas-large", "task: vendor-change\nx")
    assert calls[0]["headers"]["x-request-key"] == "step-7"


def test_models_are_listed(provider: Running) -> None:
    with client_of(provider) as client:
        assert "atlas-large" in [model.id for model in client.models.list()]


@pytest.mark.long
def test_every_rule_of_the_policy_is_written_and_its_tests_tell_right_from_wrong(provider: Running) -> None:
    policy = json.loads(ask(provider, "task: parse-policy\n…"))
    assert len(policy["rules"]) == 20
    for number in range(1, 21):
        rule = json.loads(ask(provider, f"task: write-rule {number}\n{policy['rules'][number - 1]}"))
        test = json.loads(ask(provider, f"task: write-test {number}\n"))
        assert set(rule) == {"number", "name", "condition", "severity"}
        assert (rule["number"], test["rule"]) == (number, number)
        assert rule["severity"] in ("block", "flag")
        assert holds(rule["condition"], test["passes"])
        assert not holds(rule["condition"], test["fails"])


def test_the_same_question_gets_the_same_bytes(provider: Running) -> None:
    assert ask(provider, "task: write-rule 14") == ask(provider, "task: write-rule 14")
    assert json.loads(ask(provider, "task: write-rule 140"))["number"] == 140


def test_without_a_rule_the_message_is_echoed_as_json(provider: Running) -> None:
    said = 'She said "no"\n{last_user}'
    assert json.loads(ask(provider, said)) == {"answer": said}


def test_a_rule_set_at_run_time_comes_first_and_falls_through_when_used_up(
    provider: Running, provider_control: ProviderControl
) -> None:
    rule = {"match": {"task": "write-rule 14"}, "answer": "once: {last_user}", "times": 1}
    provider_control.set_script(rule)
    assert ask(provider, "task: write-rule 13").startswith('{"number":13')
    assert ask(provider, "task: write-rule 14") == "once: task: write-rule 14"
    assert ask(provider, "task: write-rule 14").startswith('{"number":14')
    assert [shown["used"] for shown in provider_control.script()][:1] == [1]


@pytest.mark.parametrize(
    ("match", "more"),
    [
        ({"model": "atlas-large"}, {}),
        ({"contains": "needle"}, {}),
        ({"user": "u-1"}, {"user": "u-1"}),
        ({"script": "s-1"}, {"metadata": {"script": "s-1"}}),
        ({"header": {"name": "X-Script", "value": "h-1"}}, {"extra_headers": {"x-script": "h-1"}}),
    ],
)
def test_a_rule_matches_by(
    provider: Running, provider_control: ProviderControl, match: dict[str, Any], more: dict[str, Any]
) -> None:
    provider_control.set_script(
        {"match": {"model": "another"}, "answer": "no"}, {"match": match, "answer": "yes"}
    )
    assert ask(provider, "a needle", **more) == "yes"
    provider_control.set_script({"match": {**match, "contains": "absent"}, "answer": "yes"})
    assert ask(provider, "a needle", **more) != "yes"


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        ("status_500", openai.InternalServerError),
        ({"kind": "status_429", "retry_after": 3}, openai.RateLimitError),
        ("drop", openai.APIConnectionError),
        ("cut_json", json.JSONDecodeError),
        ({"kind": "timeout", "seconds": 60}, openai.APITimeoutError),
    ],
)
def test_a_fault_reaches_the_client_and_the_log(
    provider: Running, provider_control: ProviderControl, fault: Any, raised: type[Exception]
) -> None:
    provider_control.set_script({"fault": fault, "times": 1})
    with pytest.raises(raised) as failure:
        ask(provider, "task: write-rule 14", timeout=1 if raised is openai.APITimeoutError else 10)
    if isinstance(failure.value, openai.RateLimitError):
        assert failure.value.response.headers["Retry-After"] == "3"
    assert len(provider_control.calls()) == 1
    assert ask(provider, "task: write-rule 14").startswith('{"number":14')


def test_a_call_that_times_out_is_logged_before_and_after_the_client_leaves(
    provider: Running, provider_control: ProviderControl
) -> None:
    provider_control.set_script({"fault": {"kind": "timeout", "seconds": 60}})
    with pytest.raises(openai.APITimeoutError):
        ask(provider, "x", timeout=0.5)
    wait_until(lambda: provider_control.calls()[0]["outcome"] is not None)
    assert [call["outcome"] for call in provider_control.calls()] == ["timeout, client left"]


def test_latency_delays_the_answer(provider: Running, provider_control: ProviderControl) -> None:
    provider_control.set_script({"latency": 0.4, "answer": "late"})
    with pytest.raises(openai.APITimeoutError):
        ask(provider, "x", timeout=0.1)
    assert ask(provider, "x") == "late"


def test_calls_since_an_id_and_cleared_calls(provider: Running, provider_control: ProviderControl) -> None:
    for message in ("a", "b", "c"):
        ask(provider, message)
    first = provider_control.calls()[0]["id"]
    assert [call["last_user"] for call in provider_control.calls(since=first)] == ["b", "c"]
    provider_control.clear_calls()
    assert provider_control.calls() == []
    ask(provider, "d")
    assert [call["last_user"] for call in provider_control.calls(since=first)] == ["d"]


def test_calls_and_run_time_rules_outlive_the_process(tmp_path: Path) -> None:
    database = tmp_path / "provider.sqlite3"
    with start_provider(database=database) as running:
        ProviderControl(running.base_url).set_script({"answer": "kept", "times": 2})
        assert ask(running, "x") == "kept"
        running.kill()
    with start_provider(database=database) as running:
        assert [ask(running, "x") == "kept" for _ in range(2)] == [True, False]
        assert len(ProviderControl(running.base_url).calls()) == 3


def test_a_script_file_can_be_another(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": [{"answer": {"from": "file"}}]}))
    with start_provider(database=tmp_path / "provider.sqlite3", script=script) as running:
        assert ask(running, "task: vendor-change") == '{"from":"file"}'


@pytest.mark.parametrize(
    "rule",
    [
        {"fault": "earthquake"},
        {"match": {"task": 14}},
        {"match": {"colour": "x"}},
        {"times": 0},
        {"latency": "long"},
        {"function": "eval"},
        {"usage": {"prompt_tokens": -1}},
        {"answers": "x"},
        "x",
    ],
)
def test_a_rule_that_cannot_be_is_refused(
    provider: Running, provider_control: ProviderControl, rule: Any
) -> None:
    refused = httpx.post(f"{provider.base_url}/script", json={"rules": [rule]}, trust_env=False)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_script")
    assert {shown["source"] for shown in provider_control.script()} == {"file", "default"}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"{}",
        b'{"model": "m", "messages": []}',
        b'{"model": "m", "messages": [1]}',
        b'{"model": "m", "messages": [{}], "stream": true}',
    ],
)
def test_a_request_that_is_wrong_is_refused_in_the_protocols_shape(
    provider: Running, provider_control: ProviderControl, body: bytes
) -> None:
    refused = httpx.post(f"{provider.base_url}/v1/chat/completions", content=body, trust_env=False)
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")
    assert provider_control.calls() == []


def test_the_page_shows_calls_and_the_script_and_escapes_them(provider: Running) -> None:
    ask(provider, "<script>alert(1)</script>")
    page = httpx.get(provider.base_url, trust_env=False)
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    assert "vendor-change" in page.text


OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
}


def holds(condition: str, facts: dict[str, Any]) -> bool:
    return all(_holds(part, facts) for part in condition.split(" and "))


def _holds(comparison: str, facts: dict[str, Any]) -> bool:
    left, sign, right = comparison.split(" ", 2)
    return bool(OPERATORS[sign](_value(left, facts), _value(right, facts)))


def _value(term: str, facts: dict[str, Any]) -> Any:
    if term in ("true", "false"):
        return term == "true"
    value = term[1:-1] if term.startswith("'") else facts.get(term, term)
    return Decimal(value) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", str(value)) else value
