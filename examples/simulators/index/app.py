"""Routes: collections, their entries and groups, and what tells of them."""

import math
from pathlib import Path
from typing import Any

from examples.simulators.database import Database
from examples.simulators.index import faults, store
from examples.simulators.index.faults import Watch
from examples.simulators.index.store import Entry, Store
from examples.simulators.page import page, stylesheet, table, text
from examples.simulators.wire import (
    Incoming,
    Refused,
    Reply,
    html_answer,
    json_answer,
    parse_json_object,
    problem,
)

MOST_ENTRIES, MOST_DIMENSIONS, SHOWN = 1000, 4096, 200


class Index:
    def __init__(self, *, database: Path) -> None:
        opened = Database(database, store.SCHEMA + faults.SCHEMA)
        self._store, self._watch = Store(opened), Watch(opened)

    def __call__(self, request: Incoming) -> Reply:
        if request.segments[0] == "collections":
            return self._watched(request)
        return self._control(request)

    def _watched(self, request: Incoming) -> Reply:
        fault = self._watch.take(request)
        number = self._watch.begin(request, fault)
        reply = self._served(request) if fault is None or fault.applies else None
        if fault is not None:
            reply = fault.distort(reply)
        assert reply is not None
        self._watch.end(number, reply)
        return reply

    def _served(self, request: Incoming) -> Reply:
        try:
            return self._serve(request)
        except Refused as refusal:
            return refusal.reply

    def _serve(self, request: Incoming) -> Reply:
        match request.method, request.segments:
            case "GET", ["collections"]:
                return json_answer(200, {"collections": self._store.collections()})
            case "PUT", ["collections", name] if name:
                return self._open(name, parse_json_object(request.read_body()))
            case "DELETE", ["collections", name] if name:
                gone = self._store.delete(name)
                return json_answer(200, {"deleted": name}) if gone else _no_collection(name)
            case "PUT", ["collections", name, "entries"]:
                return self._put(name, parse_json_object(request.read_body()))
            case "DELETE", ["collections", name, "groups", group] if group:
                count = self._store.delete_group(name, group)
                if not count:
                    return problem(404, "no_such_group", f"There is no group {group} in {name}.")
                return json_answer(200, {"deleted": count})
            case "POST", ["collections", name, "search"]:
                return self._search(name, parse_json_object(request.read_body()))
        return problem(404, "no_such_endpoint", f"{request.method} {request.path} is not offered here.")

    def _open(self, name: str, content: dict[str, Any]) -> Reply:
        dimensions = content.get("dimensions")
        if (
            not isinstance(dimensions, int)
            or isinstance(dimensions, bool)
            or not 1 <= dimensions <= MOST_DIMENSIONS
        ):
            return problem(422, "invalid", f"dimensions: a whole number from 1 to {MOST_DIMENSIONS}.")
        became = self._store.open(name, dimensions)
        if became == "other":
            return problem(409, "other_dimensions", f"{name} is there with other dimensions.")
        return json_answer(201 if became == "created" else 200, {"name": name, "dimensions": dimensions})

    def _put(self, name: str, content: dict[str, Any]) -> Reply:
        dimensions = self._store.dimensions(name)
        if dimensions is None:
            return _no_collection(name)
        group, given = content.get("group"), content.get("entries")
        if (
            not isinstance(group, str)
            or not group
            or not isinstance(given, list)
            or len(given) > MOST_ENTRIES
        ):
            return problem(422, "invalid", f"group: a text; entries: a list of at most {MOST_ENTRIES}.")
        entries = [_entry(one, dimensions) for one in given]
        return (
            json_answer(200, {"stored": len(entries)})
            if self._store.put(name, group, entries)
            else _no_collection(name)
        )

    def _search(self, name: str, content: dict[str, Any]) -> Reply:
        dimensions, limit = self._store.dimensions(name), content.get("limit", 5)
        if dimensions is None:
            return _no_collection(name)
        vector = _vector(content.get("vector"), dimensions)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_ENTRIES:
            return problem(422, "invalid", f"limit: a whole number from 1 to {MOST_ENTRIES}.")
        return json_answer(200, {"found": self._store.search(name, vector, limit)})

    def _control(self, request: Incoming) -> Reply:
        match request.method, request.path:
            case "GET" | "HEAD", "/":
                return html_answer(self._page())
            case "GET" | "HEAD", "/simulators.css":
                return stylesheet()
            case "GET" | "HEAD", "/healthz":
                return json_answer(200, {"status": "ok"})
            case "GET", "/changes.json":
                return json_answer(200, {"changes": self._store.changes(request.query.get("collection"))})
            case "GET", "/requests.json":
                return json_answer(200, {"requests": self._watch.requests()})
            case "GET", "/faults":
                return json_answer(200, {"faults": self._watch.pending()})
            case "POST", "/faults":
                return json_answer(201, self._watch.add(parse_json_object(request.read_body())))
            case "DELETE", "/faults":
                self._watch.clear()
                return json_answer(200, {"faults": []})
        return problem(404, "no_such_endpoint", f"{request.method} {request.path} is not offered here.")

    def _page(self) -> str:
        collections, changes = self._store.collections(), self._store.changes()[::-1]
        held = [[text(c["name"]), text(c["entries"]), text(c["dimensions"])] for c in collections]
        made = [
            [text(c["id"]), text(c["at"][11:19]), text(c["kind"]), text(c["collection"]), text(c["group"]), text(c["entries"])]
            for c in changes[:SHOWN]
        ]  # fmt: skip
        body = table(
            caption="Collections", heads=["Name", "Entries", "Dimensions"], rows=held, empty="None yet."
        ) + table(
            caption="Changes",
            heads=["No.", "At", "What", "Collection", "Group", "Entries"],
            rows=made,
            empty="Nothing was changed yet.",
        )
        return page(title="Document index", lead=f"{len(collections)} collections.", body=body)


def _no_collection(name: str) -> Reply:
    return problem(404, "no_such_collection", f"There is no collection {name}.")


def _entry(given: object, dimensions: int) -> Entry:
    """Raises `Refused` with 422."""
    if (
        not isinstance(given, dict)
        or not isinstance(given.get("id"), str)
        or not isinstance(given.get("text"), str)
    ):
        raise Refused(problem(422, "invalid", "an entry has an id and a text."))
    clean = str(given["text"]).encode("utf-8", "replace").decode()
    return Entry(str(given["id"]), clean, _vector(given.get("vector"), dimensions))


def _vector(given: object, dimensions: int) -> list[float]:
    """Raises `Refused` with 422."""
    fits = isinstance(given, list) and len(given) == dimensions
    if not fits or not all(isinstance(x, int | float) and math.isfinite(x) for x in given):  # type: ignore[attr-defined]
        raise Refused(problem(422, "invalid", f"vector: {dimensions} numbers."))
    assert isinstance(given, list)
    return [float(x) for x in given]
