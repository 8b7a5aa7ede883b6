"""The test workflows installed, and an engine in this process for the tests that ask for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from access.models import Person, Tenant
from access.roles import Role
from tests.support import make_person, make_tenant
from workflows import registry
from workflows.engine.engine import Engine


@pytest.fixture(autouse=True)
def test_workflows(settings: Any) -> Iterator[None]:
    settings.COUNTERFOIL_WORKFLOWS = ["tests.workflows.definitions"]
    registry.workflows.cache_clear()
    registry.digests.cache_clear()
    yield
    registry.workflows.cache_clear()
    registry.digests.cache_clear()


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def submitter(tenant: Tenant) -> Person:
    return make_person(tenant, Role.SUBMITTER)


@pytest.fixture
def engine(transactional_db: None) -> Iterator[Engine]:
    """Four slots in this process, stopped and signed off at the end."""
    running = Engine(slots=4, lease_seconds=20)
    running.start_threads()
    yield running
    running.request_stop()
    running.join()
