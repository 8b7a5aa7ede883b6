"""The document index at COUNTERFOIL_INDEX_URL: collections of passages with their vectors, which the workflow owns.

Every change can be made again: a collection that is there stays, an entry takes the place of one with its id, what is
gone already is deleted. Raises httpx's errors, whose status says what retries.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx
from django.conf import settings

TIMEOUT = 10.0


@dataclass(frozen=True)
class Entry:
    """One passage as the index keeps it."""

    id: str
    text: str
    vector: list[float]


def open_collection(name: str, *, dimensions: int, key: str) -> None:
    """Make a collection, if it is not there."""
    _ask("PUT", f"/collections/{quote(name, safe='')}", key, {"dimensions": dimensions})


def delete_collection(name: str, *, key: str) -> None:
    """Delete a collection with all that is in it, if it is there."""
    _ask("DELETE", f"/collections/{quote(name, safe='')}", key, gone=404)


def store(collection: str, group: str, entries: Sequence[Entry], *, key: str) -> None:
    """Put entries into a collection, to be found by their group."""
    content = {"group": group, "entries": [vars(e) for e in entries]}
    _ask("PUT", f"/collections/{quote(collection, safe='')}/entries", key, content)


def delete_group(collection: str, group: str, *, key: str) -> None:
    """Delete every entry of a group, if there are any."""
    _ask("DELETE", f"/collections/{quote(collection, safe='')}/groups/{quote(group, safe='')}", key, gone=404)


def search(collection: str, vector: Sequence[float], *, limit: int, key: str) -> list[str]:
    """The nearest passages, the nearest first."""
    content = {"vector": list(vector), "limit": limit}
    answer = _ask("POST", f"/collections/{quote(collection, safe='')}/search", key, content)
    return [str(one["text"]) for one in answer["found"]]


def _ask(method: str, path: str, key: str, content: Any = None, *, gone: int = 0) -> Any:
    client = _client(os.getpid(), settings.COUNTERFOIL_INDEX_URL)
    answer = client.request(method, path, json=content, headers={"X-Request-Key": key})
    if answer.status_code == gone:
        return None
    answer.raise_for_status()
    return answer.json()


@cache
def _client(pid: int, url: str) -> httpx.Client:
    """One a process: a connection must not cross a fork."""
    return httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False)
