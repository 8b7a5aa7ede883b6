"""The document index: what it keeps, how it searches, and that its log tells only what was really changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.simulators.client import IndexControl, Running, start_index


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Running]:
    with start_index(database=tmp_path / "index.sqlite3") as running:
        yield running


@pytest.fixture
def control(index: Running) -> IndexControl:
    return IndexControl(index.base_url)


@pytest.fixture
def http(index: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=index.base_url, trust_env=False, timeout=10) as client:
        yield client


def entry(name: str, *vector: float) -> dict[str, Any]:
    return {"id": name, "text": f"text of {name}", "vector": list(vector)}


def fill(http: httpx.Client, name: str = "docs") -> None:
    assert http.put(f"/collections/{name}", json={"dimensions": 2}).status_code == 201
    for group, entries in (("g-1", [entry("a", 1, 0), entry("b", 0, 1)]), ("g-2", [entry("c", 1, 1)])):
        answer = http.put(f"/collections/{name}/entries", json={"group": group, "entries": entries})
        assert answer.json() == {"stored": len(entries)}


def told(control: IndexControl) -> list[tuple[str, str, int]]:
    return [(c["kind"], c["group"], c["entries"]) for c in control.changes()]


def test_the_nearest_entries_are_found_first(http: httpx.Client) -> None:
    fill(http)
    found = http.post("/collections/docs/search", json={"vector": [1, 0.1], "limit": 2}).json()["found"]
    assert [(f["id"], f["text"]) for f in found] == [("a", "text of a"), ("c", "text of c")]


def test_a_group_is_deleted_as_a_whole_and_the_log_tells_it_once(
    http: httpx.Client, control: IndexControl
) -> None:
    fill(http)
    assert http.delete("/collections/docs/groups/g-1").json() == {"deleted": 2}
    assert http.delete("/collections/docs/groups/g-1").status_code == 404
    assert http.delete("/collections/docs").status_code == 200
    assert http.delete("/collections/docs").status_code == 404
    assert told(control) == [
        ("collection created", "", 0),
        ("entries stored", "g-1", 2),
        ("entries stored", "g-2", 1),
        ("group deleted", "g-1", 2),
        ("collection deleted", "", 1),
    ]
    assert len(control.requests()) == 7
    assert control.collections() == []


def test_the_same_entries_again_take_the_place_of_the_first(
    http: httpx.Client, control: IndexControl
) -> None:
    fill(http)
    http.put("/collections/docs/entries", json={"group": "g-1", "entries": [entry("a", 0, 1)]})
    assert [c["entries"] for c in control.collections()] == [3]
    assert http.put("/collections/docs", json={"dimensions": 2}).status_code == 200
    assert http.put("/collections/docs", json={"dimensions": 3}).status_code == 409


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/collections/docs/entries", {"group": "g", "entries": [entry("a", 1)]}, 422),
        ("PUT", "/collections/docs/entries", {"group": "", "entries": []}, 422),
        ("PUT", "/collections/docs/entries", {"group": "g", "entries": [{"id": 1}]}, 422),
        ("PUT", "/collections/none/entries", {"group": "g", "entries": []}, 404),
        ("POST", "/collections/docs/search", {"vector": [1]}, 422),
        ("POST", "/collections/docs/search", {"vector": [1, 2], "limit": 0}, 422),
        ("POST", "/collections/none/search", {"vector": [1, 2]}, 404),
        ("PUT", "/collections/other", {"dimensions": 0}, 422),
        ("DELETE", "/collections/docs/groups/none", None, 404),
        ("GET", "/collections/docs/nothing", None, 404),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    http: httpx.Client, control: IndexControl, method: str, path: str, body: Any, status: int
) -> None:
    fill(http)
    before = told(control)
    assert http.request(method, path, json=body).status_code == status
    assert told(control) == before


@pytest.mark.parametrize(
    ("kind", "status", "deleted"),
    [("status_503", 503, False), ("status_403", 403, False), ("slow_after", 200, True)],
)
def test_a_fault_strikes_once_and_does_what_it_says(
    http: httpx.Client, control: IndexControl, kind: str, status: int, deleted: bool
) -> None:
    fill(http)
    control.set_fault(kind, method="DELETE", contains="/groups/g-2", seconds=0.1)
    assert http.delete("/collections/docs/groups/g-1").status_code == 200
    assert http.delete("/collections/docs/groups/g-2").status_code == status
    assert (told(control)[-1] == ("group deleted", "g-2", 1)) is deleted
    assert http.delete("/collections/docs/groups/g-2").status_code == (404 if deleted else 200)


def test_a_dropped_answer_was_done_all_the_same(http: httpx.Client, control: IndexControl) -> None:
    fill(http)
    control.set_fault("drop_after", method="DELETE")
    with pytest.raises(httpx.RemoteProtocolError):
        http.delete("/collections/docs/groups/g-1")
    assert told(control)[-1] == ("group deleted", "g-1", 2)
    assert control.requests()[-1]["outcome"] == "dropped"


def test_what_was_kept_survives_a_kill(index: Running, http: httpx.Client, tmp_path: Path) -> None:
    fill(http)
    index.kill()
    with start_index(database=tmp_path / "index.sqlite3") as again:
        assert [c["entries"] for c in IndexControl(again.base_url).collections()] == [3]
        page = httpx.get(again.base_url, trust_env=False)
        assert "<td>3</td>" in page.text
        assert "script" not in page.headers["content-security-policy"]
