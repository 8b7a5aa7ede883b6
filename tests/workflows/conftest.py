"""The test workflows installed, and an engine in this process for the tests that ask for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from tests.support import forget_workflows, install, make_person, running_engine
from tests.workflows.keeping import Keep, Kept
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine


@pytest.fixture(autouse=True)
def test_workflows(settings: Any) -> Iterator[None]:
    install(settings, "tests.workflows.definitions")
    yield
    forget_workflows()


@pytest.fixture
def fan_outs_installed(settings: Any, test_workflows: None) -> None:
    """The workflows of `fan_outs` beside them."""
    settings.COUNTERFOIL_WORKFLOWS = [*settings.COUNTERFOIL_WORKFLOWS, "tests.workflows.fan_outs"]


@pytest.fixture
def engine(transactional_db: None) -> Iterator[Engine]:
    """Four slots in this process, stopped and signed off at the end."""
    with running_engine(4) as running:
        yield running


@pytest.fixture
def keep(tenant: Tenant, submitter: Person, settings: Any, tmp_path: Path) -> Keep:
    """Submits a job: `keep(parts=3, fails=True, slow=[])`."""
    install(settings, "tests.workflows.compensated")
    operator, admin = make_person(tenant, Role.OPERATOR), make_person(tenant, Role.ADMIN)

    def submit(**value: Any) -> Kept:
        made = submit_job(
            tenant_id=tenant.pk,
            workflow="test-keeping",
            value={"folder": str(tmp_path), **value},
            submission_key="k",
            person_id=submitter.pk,
            source="test",
            now=timezone.now(),
        )
        return Kept(tenant, submitter, operator, admin, made.job_id, tmp_path)

    return submit
