"""People, tenants and who may do what where."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q

from access.roles import Role
from access.tenancy import Rights, TenantModel


class Person(AbstractUser):
    """Somebody who signs in. The username is the handle that the screens and the journal show."""

    def __str__(self) -> str:
        return self.username


class Tenant(models.Model):
    """An organisation. Holds no content of its own, so it stands outside row level security."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=200)
    time_zone = models.CharField(max_length=64, default="UTC")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.slug


class Membership(TenantModel):
    """One role of one person in one tenant, until `ended_at`."""

    app_rights: ClassVar = Rights(insert=True, update=("ended_at",))

    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=20, choices=[(r.value, r.label) for r in Role])
    began_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "person", "role"],
                condition=Q(ended_at__isnull=True),
                name="one_live_membership_a_role",
            )
        ]

    def __str__(self) -> str:
        return f"{self.person_id} as {self.role}"


class TenantHead(models.Model):
    """Version and last hash of a tenant's own journal; only the journal's trigger function writes it."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, primary_key=True)
    version = models.BigIntegerField(default=0)
    head = models.BinaryField(default=b"")

    def __str__(self) -> str:
        return f"{self.tenant_id} at {self.version}"


class TenantEntry(TenantModel):
    """A tenant's journal: what has no job (people, policies, receivers). Append-only, hash-chained."""

    append_only: ClassVar = True
    app_rights: ClassVar = Rights(insert=True, insert_columns=(
        "tenant_id", "event", "actor_kind", "actor_id", "actor_name", "evidence",
    ))  # fmt: skip

    sequence = models.BigIntegerField()
    event = models.CharField(max_length=60)
    actor_kind = models.CharField(max_length=20)
    actor_id = models.BigIntegerField(default=0)
    actor_name = models.CharField(max_length=200)
    evidence = models.TextField(default="{}")
    at = models.DateTimeField()
    previous = models.BinaryField()
    hash = models.BinaryField()

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "sequence"], name="one_entry_a_sequence")
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id}/{self.sequence} {self.event}"
