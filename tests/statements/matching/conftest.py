"""The workflow of these tests in place of whatever is installed; the real renderer, the real machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import forget_workflows, install


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any) -> Iterator[None]:
    install(settings, "tests.workflows_for_tests")
    yield
    forget_workflows()
