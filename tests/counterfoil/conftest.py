"""An installation for the conformance tests: a tenant, an engine of one slot, a receiver and a provider as processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import WORKER, Role
from access.tenancy import acting
from approvals.policies import read_rules, write_policy
from dispatch.actions.receivers import keep_contract, keep_receiver
from dispatch.contracts import Contract
from examples.simulators.client import ErpControl, ProviderControl, start_erp, start_provider
from tests.support import forget_workflows, make_person, make_tenant
from workflows import providers
from workflows.engine.engine import Engine


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("simulators")
    with (
        start_erp(database=folder / "erp.sqlite3") as erp,
        start_provider(database=folder / "provider.sqlite3") as provider,
    ):
        yield erp.base_url, provider.base_url


@dataclass
class Installation:
    tenant: Tenant
    submitter: Person
    managers: list[Person]
    operator: Person
    admin: Person
    erp: ErpControl
    provider: ProviderControl

    def receiver(self, name: str, contract: Contract) -> None:
        with acting(self.tenant.pk):
            receiver = keep_receiver(
                tenant_id=self.tenant.pk, name=name, title=name, base_url=self.erp.base_url, account="",
                secret_reference="", actor=WORKER,
            )  # fmt: skip
            keep_contract(
                receiver_id=receiver.receiver_id, terms=contract.model_dump(mode="json"), source="test",
                actor=WORKER, now=timezone.now(),
            )  # fmt: skip

    def policy(self, name: str, **rules: Any) -> None:
        write_policy(
            tenant_id=self.tenant.pk,
            name=name,
            rules=read_rules(rules),
            created_by=WORKER,
            now=timezone.now(),
        )


@pytest.fixture
def installation(addresses: tuple[str, str], transactional_db: None, settings: Any) -> Iterator[Installation]:
    settings.COUNTERFOIL_WORKFLOWS = ["tests.counterfoil.workflows", "tests.counterfoil.more_workflows"]
    settings.COUNTERFOIL_PROVIDER_URL = addresses[1]
    forget_workflows()
    providers._client.cache_clear()
    erp, provider = ErpControl(addresses[0]), ProviderControl(addresses[1])
    erp.clear_faults()
    tenant = make_tenant()
    made = Installation(
        tenant,
        make_person(tenant, Role.SUBMITTER),
        [make_person(tenant, Role.MANAGER) for _ in range(2)],
        make_person(tenant, Role.OPERATOR),
        make_person(tenant, Role.ADMIN),
        erp,
        provider,
    )
    engine = Engine(slots=1, lease_seconds=20)
    engine.start_threads()
    yield made
    engine.request_stop()
    engine.join()
    provider.clear_script()
    forget_workflows()
    providers._client.cache_clear()
