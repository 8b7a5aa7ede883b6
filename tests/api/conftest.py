"""The test workflow is the one that is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from workflows import registry


@pytest.fixture(autouse=True)
def _installed(settings: Settings) -> Iterator[None]:
    settings.COUNTERFOIL_WORKFLOWS = ["tests.console.workflows"]
    registry.workflows.cache_clear()
    registry.digests.cache_clear()
    yield
    registry.workflows.cache_clear()
    registry.digests.cache_clear()
