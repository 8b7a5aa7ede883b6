"""q2's `qcluster`, made to end: with its parent, and also after one of its processes was killed.

q2's worker processes share one queue, whose lock a killed worker takes with it: the others would never read that
they should stop. So the cluster's main process tells them through a pipe that all of them inherit, and after a while
kills what is left. Every process of the tree gets SIGTERM when its parent dies, however that happened (Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections
from django_q.cluster import Cluster
from django_q.management.commands import qcluster

from workflows import known, tasks
from workflows.costs import currency
from workflows.engine import start
from workflows.engine.connections import connect

STOP_SECONDS = 11.0
_PR_SET_PDEATHSIG = 1


class EndingCluster(Cluster):  # type: ignore[misc]
    """A cluster whose `stop` comes to an end."""

    def stop(self) -> bool:
        """As q2's, which waits for its sentinel for ever: so many seconds here. False where none runs."""
        if self.sentinel is None or not self.sentinel.is_alive():
            return False
        start.announce_stop()
        self.stop_event.set()  # type: ignore[has-type]
        self.sentinel.join(STOP_SECONDS)
        if self.sentinel.is_alive():
            self.sentinel.kill()  # its children get SIGTERM by that
            self.sentinel.join()
        self.start_event = None
        self.stop_event = None
        return True


class Command(qcluster.Command):  # type: ignore[misc]
    help = "Run the worker processes."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            known.remember()
        except known.DefinitionChanged as changed:
            raise CommandError(str(changed)) from changed
        tasks.ensure_schedule()
        _settle_currency()
        connections.close_all()  # the children must not share our session
        start.open_stop_pipe()
        start.keep_what_is_loaded()
        if sys.platform == "linux":
            os.register_at_fork(after_in_child=_end_with_parent)
        qcluster.Cluster = EndingCluster
        super().handle(*args, **options)


def _settle_currency() -> None:
    with connect("cost book") as connection:
        try:
            currency.settle(connection, settings.COUNTERFOIL_COST_CURRENCY)
        except currency.AnotherCurrency as another:
            raise CommandError(str(another)) from another


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
