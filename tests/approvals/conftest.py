"""The workflow and the receiver of these tests, in place of whatever is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from approvals import rendering
from tests.approvals.world import World, render
from tests.support import forget_workflows, install


@pytest.fixture(autouse=True)
def _own_workflow_and_receiver(settings: Any) -> Iterator[None]:
    install(settings, "tests.workflows_for_tests")
    before = rendering.renders_operations(render)
    yield
    if before is not None:
        rendering.renders_operations(before)
    forget_workflows()


@pytest.fixture
def world(transactional_db: None) -> World:
    return World.make()
