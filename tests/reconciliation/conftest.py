"""The workflow of these tests in place of whatever is installed; the real renderer, the real machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from workflows import registry


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any) -> Iterator[None]:
    settings.COUNTERFOIL_WORKFLOWS = ["tests.workflows_for_tests"]
    registry.workflows.cache_clear()
    registry.digests.cache_clear()
    yield
    registry.workflows.cache_clear()
    registry.digests.cache_clear()
