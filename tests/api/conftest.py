"""The test workflow is the one that is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.support import forget_workflows, install


@pytest.fixture(autouse=True)
def _installed(settings: Settings) -> Iterator[None]:
    install(settings, "tests.console.workflows")
    yield
    forget_workflows()
