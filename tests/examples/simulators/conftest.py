from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples.simulators.client import (
    BureauControl,
    ErpControl,
    ProviderControl,
    Running,
    start_bureau,
    start_erp,
    start_provider,
)


@pytest.fixture
def erp(tmp_path: Path) -> Iterator[Running]:
    with start_erp(database=tmp_path / "erp.sqlite3") as running:
        yield running


@pytest.fixture
def control(erp: Running) -> ErpControl:
    return ErpControl(erp.base_url)


@pytest.fixture
def http(erp: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=erp.base_url, trust_env=False, timeout=10) as client:
        yield client


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Running]:
    with start_provider(database=tmp_path / "provider.sqlite3") as running:
        yield running


@pytest.fixture
def provider_control(provider: Running) -> ProviderControl:
    return ProviderControl(provider.base_url)


@pytest.fixture
def bureau(tmp_path: Path) -> Iterator[Running]:
    with start_bureau(database=tmp_path / "bureau.sqlite3") as running:
        yield running


@pytest.fixture
def bureau_control(bureau: Running) -> BureauControl:
    return BureauControl(bureau.base_url)
