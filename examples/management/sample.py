"""The sample organisation: one person a role, a group, four policies, four receivers, an endpoint, a limit. Written once; a repeat changes nothing."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.urls import reverse

from access import signatures, tenant_journal
from access.actions.groups import add_to_group, make_group
from access.models import Group, GroupMember, Membership, Person, Tenant
from access.roles import WORKER, Role
from access.tenancy import acting, reading
from approvals.models import Policy
from approvals.policies import write_policy
from approvals.ruleset import Level, RuleSet
from approvals.ruleset import Limit as AmountLimit
from config.var import var_file
from dispatch.actions.receivers import write_contract, write_receiver
from dispatch.models import Receiver
from dispatch.presets import PRESETS
from examples.simulators.client import ErpControl
from outbox import events
from outbox.actions.endpoints import add_endpoint, change_endpoint
from outbox.models import Endpoint
from workflows.actions.limits import Terms, set_limit
from workflows.models import Limit

SLUG, NAME = "harrow-lyle", "Harrow Lyle Freight"
SUBMITTER, MANAGER, SECOND_MANAGER = "s.varga", "m.okafor", "p.quint"
OPERATOR, ADMIN, AUDITOR = "d.rourke", "t.abara", "a.lindqvist"
PEOPLE = {
    SUBMITTER: Role.SUBMITTER,
    MANAGER: Role.MANAGER,
    SECOND_MANAGER: Role.MANAGER,
    OPERATOR: Role.OPERATOR,
    ADMIN: Role.ADMIN,
    AUDITOR: Role.AUDITOR,
}
CONTROLLERS = "controllers"
APPROVAL_LIMIT = Decimal("50000.00")
ENDPOINT = "post-office"
LIMITS = {"credit-ratings": Terms(concurrency=4)}
RECEIVERS = {
    "keyed": "Astrel ERP",
    "lookup": "Astrel ERP (look-up only)",
    "neither": "Astrel ERP (no key, no look-up)",
    "later": "Astrel ERP (confirms later)",
}
SIGNED_BY = "COUNTERFOIL_RECEIVER_ERP_CALLBACKS"
"""The variable that holds what the ERP signs its callbacks with, as its contract names it."""


@dataclass(frozen=True)
class Sample:
    """The organisation's id, and its people's by handle."""

    tenant_id: int
    people: dict[str, int]


def load(*, now: datetime, sign_in: bool = True) -> Sample:
    """Make what is missing, and point the receivers at where the simulated ERP listens now.

    Without `sign_in` new people get no password and no endpoint is told: hashing takes seconds, and a demo has neither
    a browser nor a post office.
    """
    tenant, _ = Tenant.objects.get_or_create(slug=SLUG, defaults={"name": NAME})
    sample = Sample(tenant.pk, _people(tenant, sign_in))
    _group(sample)
    _policies(tenant.pk, now)
    _limits(sample, now)
    for name, title in RECEIVERS.items():
        preset = PRESETS[name]
        receiver = write_receiver(
            tenant_id=tenant.pk,
            name=f"astrel-erp-{name}",
            title=title,
            base_url=settings.COUNTERFOIL_ERP_URL,
            person_id=sample.people[ADMIN],
            now=now,
        )
        write_contract(
            tenant_id=tenant.pk,
            receiver_id=receiver.receiver_id,
            terms=preset.contract.model_dump(mode="json"),
            source=preset.source,
            person_id=sample.people[ADMIN],
            now=now,
        )
    if sign_in:
        _endpoint(sample, now)
    return sample


def loaded() -> Sample | None:
    """The sample organisation if it is there."""
    tenant = Tenant.objects.filter(slug=SLUG).first()
    people = dict(Person.objects.filter(username__in=PEOPLE).values_list("username", "pk"))
    if tenant is None or set(people) != set(PEOPLE):
        return None
    return Sample(tenant.pk, people)


def hear_from(erp: ErpControl, tenant_id: int, *, web: str, secret: str) -> None:
    """Have the simulated ERP call back, signed with this secret, where the web server listens."""
    with reading(tenant_id):
        address = Receiver.objects.get(name="astrel-erp-later").public_id
    erp.call_back(f"{web}{reverse('api:callback', args=[address])}", secret)


def a_callback_secret() -> str:
    """A new one."""
    return signatures.make_secret()


def password() -> str:
    """The one password of all sample people: made once for this installation, kept in its var folder."""
    path = password_file()
    if not path.exists():
        beginning = path.with_suffix(f".{os.getpid()}")
        beginning.touch(mode=0o600)
        beginning.write_text(secrets.token_urlsafe(9))
        beginning.rename(path)
    return path.read_text().strip()


def password_file() -> Path:
    """Where that password is kept."""
    return var_file("sample-password")


def _people(tenant: Tenant, sign_in: bool) -> dict[str, int]:
    known = {p.username: p for p in Person.objects.filter(username__in=PEOPLE)}
    # The database may have come from another folder: what is printed has to open the door.
    stale = sign_in and any(not p.check_password(password()) for p in list(known.values())[:1])
    for handle in PEOPLE:
        person = known.setdefault(handle, Person(username=handle))
        if person._state.adding or stale or not person.email:
            person.email = f"{handle}@{SLUG}.example"
            if person._state.adding or stale:
                person.set_password(password() if sign_in else None)
            person.save()
    with acting(tenant.pk):
        for handle, role in PEOPLE.items():
            held = Membership.objects.filter(person=known[handle], role=role, ended_at__isnull=True)
            if not held.exists():
                Membership.objects.create(tenant=tenant, person=known[handle], role=role)
                tenant_journal.record(
                    event="membership.began", actor=WORKER, evidence={"person": handle, "role": role.value}
                )
    return {handle: person.pk for handle, person in known.items()}


def _group(sample: Sample) -> None:
    """The controllers: a policy is published once one of them and then another manager has signed."""
    who = {"tenant_id": sample.tenant_id, "person_id": sample.people[ADMIN]}
    with reading(sample.tenant_id):
        group = Group.objects.filter(name=CONTROLLERS).values_list("pk", flat=True).first()
        ever = GroupMember.objects.filter(group__name=CONTROLLERS).exists()
    if not ever:
        group = group or make_group(name=CONTROLLERS, **who)
        add_to_group(group_id=group, member_id=sample.people[MANAGER], **who)


def _policies(tenant_id: int, now: datetime) -> None:
    with reading(tenant_id):
        known = set(Policy.objects.values_list("name", flat=True))
    limit = AmountLimit(amount=APPROVAL_LIMIT, currency="EUR")
    for name, rules in {
        "vendor-records": RuleSet(limits=(limit,)),
        "document-records": RuleSet(limits=(limit,), bulk=True),
        "policy-publishing": RuleSet(levels=(Level(name="controller", group=CONTROLLERS), Level())),
        "vendor-enrichment": RuleSet(bulk=True),
    }.items():
        if name not in known:
            write_policy(tenant_id=tenant_id, name=name, rules=rules, created_by=WORKER, now=now)


def _endpoint(sample: Sample, now: datetime) -> None:
    """The simulated post office, told of everything, at the address where it listens now."""
    secret, everything = "env:COUNTERFOIL_WEBHOOK_SAMPLE", list(events.declared())
    same: dict[str, Any] = {
        "tenant_id": sample.tenant_id, "url": f"{settings.COUNTERFOIL_POST_URL}/hook", "secret_reference": secret,
        "chosen": everything, "person_id": sample.people[ADMIN], "now": now,
    }  # fmt: skip
    with reading(sample.tenant_id):
        known = Endpoint.objects.filter(name=ENDPOINT).first()
    if known is None:
        add_endpoint(name=ENDPOINT, **same)
    else:
        change_endpoint(endpoint_id=known.pk, grace=timedelta(0), **same)


def _limits(sample: Sample, now: datetime) -> None:
    with reading(sample.tenant_id):
        known = set(Limit.objects.values_list("name", flat=True))
    for name, terms in LIMITS.items():
        if name not in known:
            admin = sample.people[ADMIN]
            set_limit(tenant_id=sample.tenant_id, name=name, terms=terms, person_id=admin, now=now)
