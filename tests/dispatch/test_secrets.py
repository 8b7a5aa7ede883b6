"""A receiver's secret, once a process has read it, is in none of that process's messages."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.secrets import References
from access.tenancy import acting
from dispatch.actions.receivers import BadContract, BadReceiver, write_contract, write_receiver
from dispatch.models import Receiver
from dispatch.presets import KEYED
from dispatch.secrets import SecretMissing, secret_headers
from tests.dispatch.world import a_contract
from tests.support import make_person, make_tenant
from web import redaction
from web.redaction import hide

SECRET = "r3ceiver-secret-7"


def test_secret_that_was_read_is_hidden_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_SHOP", SECRET)
    try:
        headers = secret_headers("env:COUNTERFOIL_RECEIVER_SHOP", KEYED.contract)
        assert SECRET in next(iter(headers.values()))
        assert hide(f"the shop refused {SECRET}") == "the shop refused [hidden]"
    finally:
        redaction._remembered.discard(SECRET)
        redaction._values.cache_clear()


def test_secret_that_is_not_there_is_named_by_its_reference() -> None:
    with pytest.raises(SecretMissing, match="env:COUNTERFOIL_RECEIVER_NONE is not set here"):
        secret_headers("env:COUNTERFOIL_RECEIVER_NONE", KEYED.contract)


@pytest.mark.parametrize("family", ["RECEIVER", "WEBHOOK", "EVENTS"])
def test_a_reference_names_only_what_is_of_its_own_kind(family: str) -> None:
    """The database's password may lie in the same folder, and so may what signs another organisation's webhooks."""
    references, own = References(family), f"counterfoil_{family.lower()}_erp"
    assert references.allow(f"file:/run/secrets/{own}")
    assert references.allow(f"env:COUNTERFOIL_{family}_ERP")
    others = {"counterfoil_receiver_x", "counterfoil_webhook_x", "counterfoil_events_x"} - {f"{own[:-3]}x"}
    for file in ("postgres_password", "counterfoil_secret_key", "..", f"{own}/../x", *others):
        assert not references.allow(f"file:/run/secrets/{file}")
        with pytest.raises(SecretMissing, match="is no reference to a secret of this kind"):
            references.read(f"file:/run/secrets/{file}")


@pytest.mark.django_db(transaction=True)
def test_what_one_organisation_names_no_other_can_at_any_door() -> None:
    """An admin chooses the address too: who could name another's secret would be sent it, or a signature under it."""
    ours, theirs = ((tenant := make_tenant(), make_person(tenant, Role.ADMIN)) for _ in range(2))
    own, signing, authority = (f"env:COUNTERFOIL_RECEIVER_{name}" for name in ("OWN", "SIGNING", "AUTHORITY"))

    def receiver(who: tuple[Tenant, Person], secret: str) -> int:
        return write_receiver(
            tenant_id=who[0].pk, name="ledger", title="Ledger", base_url="https://ledger.example",
            secret_reference=secret, person_id=who[1].pk, now=timezone.now(),
        ).receiver_id  # fmt: skip

    def contract(who: tuple[Tenant, Person], receiver_id: int, **changes: Any) -> int:
        return write_contract(
            tenant_id=who[0].pk, receiver_id=receiver_id, terms=a_contract(**changes).model_dump(mode="json"),
            source="", person_id=who[1].pk, now=timezone.now(),
        ).version  # fmt: skip

    tls = {"authorities": authority}
    assert contract(ours, receiver(ours, own), signing={"secret_reference": signing}, tls=tls) == 1
    for taken in (own, signing):
        with pytest.raises(BadReceiver, match=f"{taken} belongs to another organisation"):
            receiver(theirs, taken)
    their_own = receiver(theirs, "env:COUNTERFOIL_RECEIVER_THEIRS")
    for taken in (own, signing):
        with pytest.raises(BadContract, match=f"{taken} belongs to another organisation"):
            contract(theirs, their_own, signing={"secret_reference": taken})
    with pytest.raises(BadContract, match="belongs to another organisation"):
        contract(theirs, their_own, tls={"certificate": own})
    assert contract(theirs, their_own, tls=tls) == 1, "whose certificates are believed is no secret"
    with pytest.raises(IntegrityError, match="belongs to another organisation"), acting(theirs[0].pk):
        Receiver.objects.create(
            tenant=theirs[0], name="x", title="x", base_url="http://x", secret_reference=own
        )
