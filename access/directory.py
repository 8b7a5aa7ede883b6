"""Who is who in a tenant at one moment: roles, groups, who is away, whose authority was lent to whom. Two queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from access.roles import Role
from access.statements import Asked, execute
from access.tenancy import require_scope


@dataclass(frozen=True, slots=True)
class Member:
    """One active person with the roles and groups they hold now. `away`: they said that they are out of office."""

    person_id: int
    handle: str
    roles: frozenset[Role]
    groups: frozenset[str]
    away: bool


@dataclass(frozen=True, slots=True)
class Lent:
    """One delegation that is in force. `policies` empty: all of them. `most`: a cap in `currency`, or None."""

    delegation_id: int
    giver_id: int
    taker_id: int
    policies: frozenset[str]
    most: Decimal | None
    currency: str
    until: datetime

    def covers(self, policy: str) -> bool:
        return not self.policies or policy in self.policies


@dataclass(frozen=True, slots=True)
class Directory:
    """Active members by id, and the delegations between them that are in force."""

    members: dict[int, Member]
    lent: tuple[Lent, ...]

    def with_role(self, role: Role) -> frozenset[int]:
        return frozenset(m.person_id for m in self.members.values() if role in m.roles)

    def taken_by(self, person_id: int) -> list[Lent]:
        return [one for one in self.lent if one.taker_id == person_id]


def directory(at: datetime | None = None) -> Directory:
    """The scope's tenant at a moment; without one, at the database's own time now."""
    of_members, of_lent = asked(at)
    members = {
        row[0]: Member(row[0], row[1], frozenset(map(Role, row[2])), frozenset(row[3]), row[4])
        for row in execute(*of_members).fetchall()
    }
    lent = tuple(
        Lent(row[0], row[1], row[2], frozenset(row[3].split("\n")) - {""}, row[4], row[5], row[6])
        for row in execute(*of_lent).fetchall()
    )
    return Directory(members, tuple(one for one in lent if {one.giver_id, one.taker_id} <= members.keys()))


def asked(at: datetime | None = None) -> tuple[Asked, Asked]:
    """What `directory` will ask, to be asked `ahead`."""
    places = {"tenant": require_scope(), "at": at}
    return (_MEMBERS, places), (_LENT, places)


_MEMBERS = """
SELECT p.id, p.username, array_agg(m.role),
  ARRAY(SELECT g.name FROM access_groupmember gm JOIN access_group g ON g.id = gm.group_id
    WHERE gm.person_id = p.id AND gm.tenant_id = %(tenant)s AND gm.ended_at IS NULL),
  EXISTS (SELECT FROM access_absence a WHERE a.person_id = p.id AND a.tenant_id = %(tenant)s AND a.ended_at IS NULL
    AND a.starts_at <= coalesce(%(at)s, clock_timestamp()) AND a.ends_at > coalesce(%(at)s, clock_timestamp()))
FROM access_membership m JOIN access_person p ON p.id = m.person_id
WHERE m.tenant_id = %(tenant)s AND m.ended_at IS NULL AND p.is_active
GROUP BY p.id, p.username ORDER BY p.username
"""
_LENT = """
SELECT id, giver_id, taker_id, policies, most_amount, most_currency, ends_at FROM access_delegation
WHERE tenant_id = %(tenant)s AND revoked_at IS NULL
  AND starts_at <= coalesce(%(at)s, clock_timestamp()) AND ends_at > coalesce(%(at)s, clock_timestamp())
ORDER BY id
"""
