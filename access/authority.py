"""Who may do what: read from the rows at the moment of asking, never from the request or from memory."""

from __future__ import annotations

from access.models import Membership, Person
from access.refusals import NotPermitted
from access.roles import WORKER, Actor, ActorKind, Role
from access.statements import Values
from access.tenancy import require_scope


def roles_of(person_id: int) -> frozenset[Role]:
    """The roles that an active person holds now in the scope's tenant."""
    return frozenset(Role(role) for (role,) in _ROLES.all(person_id))


def require(person_id: int, *roles: Role) -> Actor:
    """The person as an actor in the first of `roles` that they hold, or NotPermitted. Reads the database."""
    if (actor := _in_first_of(person_id, roles)) is None:
        raise NotPermitted(who_may(*roles))
    return actor


def noted(person_id: int, *roles: Role) -> Actor:
    """As whom a refused person is journalled: in the first of `roles` that they hold; without any, the machine says so."""
    return _in_first_of(person_id, roles) or WORKER


def _in_first_of(person_id: int, roles: tuple[Role, ...]) -> Actor | None:
    held = roles_of(person_id)
    for role in roles:
        if role in held:
            ((name,),) = _NAME.all(person_id)
            return Actor(kind=ActorKind(role.value), name=name, person_id=person_id)
    return None


_ROLES = Values(
    lambda person: Membership.objects.filter(
        person__pk=person, ended_at__isnull=True, person__is_active=True
    ).values_list("role")
)
_NAME = Values(lambda person: Person.objects.filter(pk=person).values_list("username"))


def who_may(*roles: Role) -> str:
    """The sentence that says who may do what was just refused."""
    *most, last = (f"{'an' if r[0] in 'aeiou' else 'a'} {r}" for r in roles)
    allowed = f"{', '.join(most)} or {last}" if most else last
    return f"Only {allowed} of this organisation may do this."


def people_with(role: Role) -> list[Person]:
    """Active people who hold a role in the scope's tenant, by handle."""
    rows = Membership.objects.filter(
        role=role, ended_at__isnull=True, person__is_active=True, tenant_id=require_scope()
    )
    return [m.person for m in rows.select_related("person").order_by("person__username")]
