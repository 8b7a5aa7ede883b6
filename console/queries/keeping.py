"""Figures that take long to find are not found anew for everybody who looks at once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """Answers of a slow question by key, in this process. What took t seconds is asked again after `patience` · t.

    So whoever polls costs the database at most one part in `patience` of its time, however much there is to count.
    """

    def __init__(self, *, patience: float = 20.0, entries: int = 200) -> None:
        self._patience = patience
        self._entries = entries
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """The answer that is kept, or a new one."""
        with self._lock:
            good_until, answer = self._kept.get(key, (0.0, None))
        began = time.monotonic()
        if answer is not None and began < good_until:
            return answer
        found = find()
        ended = time.monotonic()
        with self._lock:
            self._kept[key] = (ended + self._patience * (ended - began), found)
            self._kept.move_to_end(key)
            while len(self._kept) > self._entries:
                self._kept.popitem(last=False)
        return found
