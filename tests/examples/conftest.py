"""The simulated ERP, a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.simulators.client import ErpControl, start_erp


@pytest.fixture
def erp(tmp_path: Path, settings: Any) -> Iterator[ErpControl]:
    with start_erp(database=tmp_path / "erp.sqlite3") as running:
        settings.COUNTERFOIL_ERP_URL = running.base_url
        yield ErpControl(running.base_url)
