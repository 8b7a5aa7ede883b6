"""Which organisations a person is in: the one question that has to look across tenants.

The policies stay as they are. A function of the database's owner answers for one person, and says only where they
belong, not as what.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection


@dataclass(frozen=True, slots=True)
class Belonging:
    """One organisation that a person is in."""

    tenant_id: int
    slug: str
    name: str


def tenants_of(person_id: int) -> list[Belonging]:
    """The organisations in which a person holds a role now, by name. Needs no scope."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, slug, name FROM access_tenants_of(%s)", [person_id])
        return [Belonging(*row) for row in cursor.fetchall()]


def statements() -> str:
    """The function, which stays its owner's, so that row level security does not stand in its way."""
    return """
CREATE OR REPLACE FUNCTION access_tenants_of(person bigint)
RETURNS TABLE (id bigint, slug varchar, name varchar) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
  SELECT t.id, t.slug, t.name FROM access_tenant t
  WHERE EXISTS (SELECT FROM access_membership m
    WHERE m.tenant_id = t.id AND m.person_id = person AND m.ended_at IS NULL)
  ORDER BY t.name, t.id
$$;
REVOKE ALL ON FUNCTION access_tenants_of(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION access_tenants_of(bigint) TO counterfoil_app;
"""
