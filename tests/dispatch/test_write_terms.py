"""`manage.py write_terms`: everything once, what changed as the next version, and nothing where it is refused."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from approvals.models import Policy
from dispatch.models import Receiver, ReceiverContract
from tests.dispatch.test_terms import TERMS
from tests.support import make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counterfoil.toml"
    path.write_text(TERMS)
    return path


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def admin(tenant: Tenant) -> Person:
    return make_person(tenant, Role.ADMIN, handle="ada")


def said(*arguments: Any) -> list[str]:
    told = StringIO()
    call_command("write_terms", *map(str, arguments), stdout=told)
    return told.getvalue().splitlines()


def rows(tenant: Tenant) -> tuple[int, int, int]:
    with reading(tenant.pk):
        return Policy.objects.count(), Receiver.objects.count(), ReceiverContract.objects.count()


def test_everything_is_written_once(tenant: Tenant, admin: Person, file: Path) -> None:
    assert said("acme", file, "--as", "ada") == [
        "Policy invoices: revision 1 written.",
        "Receiver ledger: written, with version 1 of its contract.",
    ]
    assert said("acme", file, "--as", "ada") == [
        "Policy invoices: revision 1 says this already.",
        "Receiver ledger: version 1 of its contract says this already.",
    ]
    assert rows(tenant) == (1, 1, 1)
    with reading(tenant.pk):
        policy, receiver = Policy.objects.get(), Receiver.objects.get()
    assert (policy.quorum, f"{policy.ruleset.limits[0].amount:.2f}", policy.created_by) == (
        2,
        "5000.00",
        "ada",
    )
    assert (receiver.base_url, receiver.title) == ("http://127.0.0.1:8101", "The ledger")


def test_what_changed_becomes_the_next_version(tenant: Tenant, admin: Person, file: Path) -> None:
    said("acme", file, "--as", "ada")
    file.write_text(TERMS.replace("quorum = 2", "quorum = 1").replace("86400", "3600"))
    assert said("acme", file, "--as", "ada") == [
        "Policy invoices: revision 2 written.",
        "Receiver ledger: written, with version 2 of its contract.",
    ]


def test_a_receiver_can_stand_elsewhere_here(tenant: Tenant, admin: Person, file: Path) -> None:
    said("acme", file, "--as", "ada", "--url", "ledger=http://127.0.0.1:9000/api")
    with reading(tenant.pk):
        assert Receiver.objects.get().base_url == "http://127.0.0.1:9000/api"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nobody", "--as", "ada"], "There is no organisation nobody here. There are: acme."),
        (["acme", "--as", "eve"], "There is nobody called eve here."),
        (["acme", "--as", "sam"], "Only an admin of this organisation may do this."),
        (["acme", "--as", "ada", "--url", "ledger"], "write it as receiver=https://host/path."),
        (["acme", "--as", "ada", "--url", "erp=https://erp.example"], "The file names no receiver erp."),
        (["acme", "--as", "ada", "--url", "ledger=ftp://x"], "receivers.ledger: An address begins with http"),
    ],
)  # fmt: skip
def test_a_refusal_writes_nothing(
    tenant: Tenant, admin: Person, file: Path, arguments: list[str], why: str
) -> None:
    make_person(tenant, Role.SUBMITTER, handle="sam")
    slug, *rest = arguments
    with pytest.raises(CommandError) as refused:
        said(slug, file, *rest)
    assert why in str(refused.value)
    assert rows(tenant) == (0, 0, 0)


def test_a_limit_without_its_currency_writes_nothing(tenant: Tenant, admin: Person, file: Path) -> None:
    file.write_text(TERMS.replace('limit_currency = "EUR"\n', ""))
    with pytest.raises(CommandError, match=r"policies\.invoices: a limit needs an amount and a currency"):
        said("acme", file, "--as", "ada")
    assert rows(tenant) == (0, 0, 0)
