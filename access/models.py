"""People, tenants and who may do what where."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import F, Q

from access.roles import Role
from access.tenancy import Rights, TenantForeignKey, TenantModel


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
    revoked_at = models.DateTimeField(null=True, blank=True)
    """Since when nothing is sent for it."""
    revoke_reason = models.CharField(max_length=1000, default="", db_default="", blank=True)
    restored_at = models.DateTimeField(null=True, blank=True)
    """When its rows were last put back from a backup: what was approved before may have been sent since. It stays."""
    known_until = models.DateTimeField(null=True, blank=True)
    """Of that backup: when its journals end."""
    shut_at = models.DateTimeField(null=True, blank=True)
    """Since when nothing is sent for it because of that; empty once a person has opened dispatch."""

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(shut_at__isnull=True) | Q(restored_at__isnull=False, known_until__isnull=False),
                name="what_is_shut_was_restored",
            )
        ]

    def __str__(self) -> str:
        return self.slug


class Membership(TenantModel):
    """One role of one person in one tenant, until `ended_at`."""

    app_rights: ClassVar = Rights(insert=True, update=("ended_at",))
    ended_by: ClassVar = "ended_at"

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


class Group(TenantModel):
    """A named group of people of a tenant that approval policies can ask for ("controllers")."""

    app_rights: ClassVar = Rights(insert=True, update=("name", "ended_at", "end_by", "end_reason"))
    ended_by: ClassVar = "ended_at"

    name = models.CharField(max_length=80)
    made_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    end_by = models.CharField(max_length=200, default="", db_default="", blank=True)
    end_reason = models.CharField(max_length=1000, default="", db_default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(ended_at__isnull=True), name="one_group_a_name"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, end_by="", end_reason="")
                | (Q(ended_at__isnull=False) & ~Q(end_by="") & ~Q(end_reason="")),
                name="an_ended_group_says_why",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class GroupMember(TenantModel):
    """One person in one group, until `ended_at`."""

    app_rights: ClassVar = Rights(insert=True, update=("ended_at",))
    ended_by: ClassVar = "ended_at"

    group = TenantForeignKey(Group)
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    began_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["group", "person"], condition=Q(ended_at__isnull=True), name="one_live_member_a_group"
            )
        ]

    def __str__(self) -> str:
        return f"{self.person_id} in {self.group_id}"


class Delegation(TenantModel):
    """Authority to approve that one person lends another for a time. One step deep, and it never raises a limit.

    `policies`: names, one a line; empty means all. `most_amount`: no more than this, in `most_currency`.
    """

    app_rights: ClassVar = Rights(insert=True, update=("revoked_at", "revoked_by"))
    ended_by: ClassVar = "revoked_at"

    giver = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    taker = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    policies = models.TextField(default="", blank=True)
    most_amount = models.DecimalField(max_digits=20, decimal_places=4, null=True, blank=True)
    most_currency = models.CharField(max_length=3, default="", blank=True)
    reason = models.CharField(max_length=1000)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    given_at = models.DateTimeField()
    given_by = models.CharField(max_length=200)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=200, default="", blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(giver=F("taker")), name="nobody_delegates_to_themselves"),
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="a_delegation_ends_later"),
            models.CheckConstraint(
                condition=Q(most_amount__isnull=True, most_currency="")
                | (Q(most_amount__gte=0) & ~Q(most_currency="")),
                name="a_cap_has_its_currency",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="a_delegation_has_a_reason"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["tenant", "ends_at"], condition=Q(revoked_at__isnull=True), name="delegation_in_force"
            )
        ]

    def __str__(self) -> str:
        return f"{self.giver_id} to {self.taker_id}"


class Absence(TenantModel):
    """A time in which a person is out of office: nobody waits for them, and nothing is decided by it."""

    app_rights: ClassVar = Rights(insert=True, update=("ended_at",))
    ended_by: ClassVar = "ended_at"

    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    noted_at = models.DateTimeField()
    noted_by = models.CharField(max_length=200)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="an_absence_ends_later")
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["tenant", "person", "ends_at"],
                condition=Q(ended_at__isnull=True),
                name="absence_noted",
            )
        ]

    def __str__(self) -> str:
        return f"{self.person_id} away until {self.ends_at}"


class PasswordEntry(models.Model):
    """One time that somebody was asked for their password again, and whether it was right. A person's, of no tenant."""

    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+", db_index=False)
    session = models.CharField(max_length=64)
    """SHA-256 of the session's key: the entry counts for this session alone."""
    right = models.BooleanField()
    at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["person", "at"], name="entry_of_person")]

    def __str__(self) -> str:
        return f"{self.person_id} at {self.at}"


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
