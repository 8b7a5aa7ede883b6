"""Starting the simulators and asking them what they saw, for tests and demos. Standard library only."""

import json
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 20.0
STOP_SECONDS = 5.0
ANSWER_SECONDS = 30.0
LISTENING = "listening on "


class Effect(TypedDict):
    id: str
    contract: str
    operation_key: str | None
    method: str
    path: str
    record: str
    version: int
    body_sha256: str
    fields: dict[str, Any]
    applied_at: str


class LoggedRequest(TypedDict):
    id: int
    at: str
    method: str
    path: str
    key: str | None
    headers: dict[str, str]
    body: str | None
    body_sha256: str | None
    fault: str | None
    outcome: str | None
    status: int | None
    answer: str | None
    answered_at: str | None


class Call(TypedDict):
    id: int
    started_at: str
    finished_at: str | None
    outcome: str | None
    status: int | None
    model: str
    headers: dict[str, str]
    script: str | None
    user: str | None
    last_user: str
    rule: str
    answer: str | None


class BureauControl:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def requests(self, *, key: str | None = None, path: str | None = None) -> list[LoggedRequest]:
        """What arrived at the APIs, oldest first; `path` is a prefix."""
        logged = _ask(self.base_url, "GET", "/requests.json", query={"key": key, "path": path})["requests"]
        return cast(list[LoggedRequest], logged)

    def set_fault(
        self,
        kind: str,
        *,
        contract: str | None = None,
        path: str | None = None,
        method: str | None = None,
        times: int = 1,
        **params: Any,
    ) -> dict[str, Any]:
        """Queue a fault for the next matching requests. Params: seconds, retry_after, applied, field, value."""
        match = {"contract": contract, "path": path, "method": method, "times": times}
        return _ask(self.base_url, "POST", "/faults", {"kind": kind, **match, **params})

    def faults(self) -> list[dict[str, Any]]:
        return cast(list[dict[str, Any]], _ask(self.base_url, "GET", "/faults")["faults"])

    def clear_faults(self) -> None:
        _ask(self.base_url, "DELETE", "/faults")


class ErpControl(BureauControl):
    def effects(self, *, key: str | None = None, record: str | None = None) -> list[Effect]:
        """What was really done, oldest first."""
        return cast(
            list[Effect],
            _ask(self.base_url, "GET", "/effects.json", query={"key": key, "record": record})["effects"],
        )

    def call_back(self, url: str, secret: str, *, seconds: float = 0.2) -> None:
        """Where the contract `later` sends its callbacks, and how long after it has accepted."""
        _ask(self.base_url, "POST", "/callbacks", {"url": url, "secret": secret, "seconds": seconds})

    def plan_callbacks(self, name: str, *, seconds: float = 0.2) -> None:
        """What the callbacks of the next accepted write do wrong."""
        _ask(self.base_url, "POST", "/callbacks/plans", {"name": name, "seconds": seconds})

    def callbacks(self) -> list[dict[str, Any]]:
        """Every callback, oldest first, with how it was answered."""
        return cast(list[dict[str, Any]], _ask(self.base_url, "GET", "/callbacks.json")["callbacks"])


class ProviderControl:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def calls(self, *, since: int = 0) -> list[Call]:
        """Every call after the id `since`, oldest first, those that were never answered included."""
        return cast(
            list[Call], _ask(self.base_url, "GET", "/calls.json", query={"since": str(since)})["calls"]
        )

    def clear_calls(self) -> None:
        _ask(self.base_url, "DELETE", "/calls")

    def set_script(self, *rules: dict[str, Any]) -> None:
        """Replace the rules set at run time, which come before the file's. None at all leaves the file's alone."""
        _ask(self.base_url, "POST", "/script", {"rules": list(rules)})

    def clear_script(self) -> None:
        _ask(self.base_url, "DELETE", "/script")

    def script(self) -> list[dict[str, Any]]:
        return cast(list[dict[str, Any]], _ask(self.base_url, "GET", "/script")["rules"])


class Change(TypedDict):
    id: int
    at: str
    kind: str
    collection: str
    group: str
    entries: int


class IndexControl:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def changes(self, *, collection: str | None = None) -> list[Change]:
        """What was really changed, oldest first."""
        told = _ask(self.base_url, "GET", "/changes.json", query={"collection": collection})["changes"]
        return cast(list[Change], told)

    def collections(self) -> list[dict[str, Any]]:
        return cast(list[dict[str, Any]], _ask(self.base_url, "GET", "/collections")["collections"])

    def requests(self) -> list[dict[str, Any]]:
        """Every request about collections, oldest first, those that were never answered included."""
        return cast(list[dict[str, Any]], _ask(self.base_url, "GET", "/requests.json")["requests"])

    def set_fault(
        self, kind: str, *, method: str = "any", contains: str = "", seconds: float = 2, times: int = 1
    ) -> None:
        """Queue a fault for the next requests whose path contains this."""
        fault = {"kind": kind, "method": method, "contains": contains, "seconds": seconds, "times": times}
        _ask(self.base_url, "POST", "/faults", fault)

    def clear_faults(self) -> None:
        _ask(self.base_url, "DELETE", "/faults")


class PostControl:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def letters(self) -> list[dict[str, Any]]:
        """Newest first."""
        return cast(list[dict[str, Any]], _ask(self.base_url, "GET", "/letters.json")["letters"])

    def hooks(self) -> list[dict[str, Any]]:
        """Newest first, with what their signatures are worth."""
        return cast(list[dict[str, Any]], _ask(self.base_url, "GET", "/hooks.json")["hooks"])


@dataclass(frozen=True)
class Running:
    """A simulator process. `stop` ends it in order, `kill` with SIGKILL; both wait, and both may be repeated."""

    base_url: str
    process: subprocess.Popen[str]
    database: Path

    @property
    def port(self) -> int:
        return int(self.base_url.rsplit(":", 1)[1])

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._reap()

    def kill(self) -> None:
        self.process.kill()
        self._reap()

    def _reap(self) -> None:
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *ignored: object) -> None:
        self.stop()


def start_erp(
    *, database: Path | str, port: int = 0, host: str = "127.0.0.1", retention: float | None = None
) -> Running:
    """Returns once it listens. `retention` is in seconds and defaults to a day."""
    options = [] if retention is None else ["--retention", str(retention)]
    return _start("examples.simulators.erp", Path(database), port, host, options)


def start_provider(
    *, database: Path | str, port: int = 0, host: str = "127.0.0.1", script: Path | str | None = None
) -> Running:
    """Returns once it listens. `script` defaults to the file that ships with the simulators."""
    options = [] if script is None else ["--script", str(script)]
    return _start("examples.simulators.provider", Path(database), port, host, options)


def start_bureau(*, database: Path | str, port: int = 0, host: str = "127.0.0.1") -> Running:
    """Returns once it listens."""
    return _start("examples.simulators.bureau", Path(database), port, host, [])


def start_index(*, database: Path | str, port: int = 0, host: str = "127.0.0.1") -> Running:
    """Returns once it listens."""
    return _start("examples.simulators.index", Path(database), port, host, [])


def start_post(
    *, database: Path | str, port: int = 0, host: str = "127.0.0.1", mail: bool = False
) -> Running:
    """Returns once it listens: the page with the webhook endpoint, or the mail server."""
    return _start("examples.simulators.post", Path(database), port, host, ["--mail"] if mail else [])


def _start(module: str, database: Path, port: int, host: str, options: list[str]) -> Running:
    command = [sys.executable, "-m", module, "--host", host, "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--database", str(database.resolve()), *options],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Running(_listening_address(process, module), process, database)


def _listening_address(process: subprocess.Popen[str], module: str) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline().strip() if readable else ""
    if not line.startswith(LISTENING):
        process.kill()
        process.wait()
        process.stdout.close()
        raise NotListening(f"{module} did not start: {line or 'it said nothing'}")
    return line.removeprefix(LISTENING)


class NotListening(Exception):
    """The process ended, or did not listen in time; its stderr says why."""


def _ask(
    base_url: str,
    method: str,
    path: str,
    content: dict[str, Any] | None = None,
    query: dict[str, str | None] | None = None,
) -> dict[str, Any]:
    wanted = urlencode({name: value for name, value in (query or {}).items() if value is not None})
    body = None if content is None else json.dumps(content).encode()
    request = Request(f"{base_url}{path}?{wanted}", data=body, method=method)  # noqa: S310  (our own http address)
    request.add_header("Content-Type", "application/json")
    # Without the environment's proxies: the simulators are on this machine.
    with build_opener(ProxyHandler({})).open(request, timeout=ANSWER_SECONDS) as answer:
        return cast(dict[str, Any], json.loads(answer.read()))
