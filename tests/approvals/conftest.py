"""The workflow and the receiver of these tests, in place of whatever is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from approvals import rendering
from tests.approvals.world import World, render
from workflows import registry


@pytest.fixture(autouse=True)
def _own_workflow_and_receiver(settings: Any) -> Iterator[None]:
    settings.COUNTERFOIL_WORKFLOWS = ["tests.workflows_for_tests"]
    registry.workflows.cache_clear()
    registry.digests.cache_clear()
    before = rendering.renders_operations(render)
    yield
    if before is not None:
        rendering.renders_operations(before)
    registry.workflows.cache_clear()
    registry.digests.cache_clear()


@pytest.fixture
def world(transactional_db: None) -> World:
    return World.make()
