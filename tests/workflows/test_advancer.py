"""What follows a batch is done by several threads, and the same thing by one at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import cast

import pytest

from workflows.engine import advancer
from workflows.engine.advancer import Advancer
from workflows.engine.engine import Engine

pytestmark = pytest.mark.django_db(transaction=True)
LONG = 30.0


class Advanced(Advancer):
    """Holds whoever advances a job until it is let go, and keeps who was at it at the same time."""

    def __init__(self) -> None:
        super().__init__(cast(Engine, None))
        self.begun: dict[int, threading.Semaphore] = {job: threading.Semaphore(0) for job in (1, 2)}
        self.let_go: dict[int, threading.Semaphore] = {job: threading.Semaphore(0) for job in (1, 2)}
        self.at_once: list[int] = []
        self._now: list[int] = []

    def _advance(self, tenant_id: int, job_id: int) -> None:
        self._now.append(job_id)
        self.at_once.append(self._now.count(job_id))
        self.begun[job_id].release()
        assert self.let_go[job_id].acquire(timeout=LONG)
        self._now.remove(job_id)


@pytest.fixture
def advanced() -> Iterator[Advanced]:
    made = Advanced()
    threads = [threading.Thread(target=made.run) for _ in range(advancer.THREADS)]
    for thread in threads:
        thread.start()
    yield made
    for gate in made.let_go.values():
        gate.release(10)
    made.stop()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()


def test_a_job_that_takes_long_does_not_hold_up_another(advanced: Advanced) -> None:
    advanced.advance(1, 1)
    assert advanced.begun[1].acquire(timeout=LONG)
    advanced.advance(1, 2)
    assert advanced.begun[2].acquire(timeout=LONG)


def test_what_is_asked_for_while_it_runs_is_done_once_more_after(advanced: Advanced) -> None:
    """The first may have looked before what the second is about; a third and a fourth are the second."""
    advanced.advance(1, 1)
    assert advanced.begun[1].acquire(timeout=LONG)
    for _ in range(3):
        advanced.advance(1, 1)
        advanced.advance(1, 2)
        assert advanced.begun[2].acquire(timeout=LONG)
        advanced.let_go[2].release()
    advanced.let_go[1].release()
    assert advanced.begun[1].acquire(timeout=LONG)
    advanced.let_go[1].release()
    advanced.advance(1, 2)
    assert advanced.begun[2].acquire(timeout=LONG)
    assert not advanced.begun[1].acquire(blocking=False)
    assert set(advanced.at_once) == {1}
