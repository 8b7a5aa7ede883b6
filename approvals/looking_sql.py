"""The triggers that have open proposals looked at again: whoever changes the world, raw SQL included, leaves a row.

The functions run as their owner, since a person's account belongs to no tenant and is changed outside of any scope.
"""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

_HEAD = """RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$"""


def statements() -> str:
    """Functions and triggers; repeatable."""
    return _FUNCTIONS + "".join(_trigger(*one) for one in _TRIGGERS)


_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION approvals_people_changed() {_HEAD}
BEGIN
  INSERT INTO approvals_lookagain (tenant_id, at) VALUES (NEW.tenant_id, now());
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION approvals_dated_changed() {_HEAD}
BEGIN
  -- What it changes now, and at the moments at which it begins and ends by itself.
  INSERT INTO approvals_lookagain (tenant_id, at)
  SELECT NEW.tenant_id, m FROM unnest(CASE TG_OP WHEN 'INSERT' THEN ARRAY[now(), NEW.starts_at, NEW.ends_at]
    ELSE ARRAY[now()] END) AS m WHERE m >= now() AND isfinite(m);
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION approvals_account_changed() {_HEAD}
BEGIN
  INSERT INTO approvals_lookagain (tenant_id, at)
  SELECT DISTINCT m.tenant_id, now() FROM access_membership m WHERE m.person_id = NEW.id AND m.ended_at IS NULL;
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION approvals_policy_changed() {_HEAD}
BEGIN
  INSERT INTO approvals_lookagain (tenant_id, at, policy) VALUES (NEW.tenant_id, now(), NEW.name);
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION approvals_reserved_changed() {_HEAD}
BEGIN
  INSERT INTO approvals_lookagain (tenant_id, at, policy) VALUES (NEW.tenant_id, now(), NEW.policy_name);
  RETURN NULL;
END $$;
"""
_TRIGGERS = (
    ("access_membership", "INSERT OR UPDATE OF ended_at, role", "people", ""),
    ("access_groupmember", "INSERT OR UPDATE OF ended_at", "people", ""),
    ("access_group", "UPDATE OF name, ended_at", "people", ""),
    ("access_delegation", "INSERT OR UPDATE OF revoked_at", "dated", ""),
    ("access_absence", "INSERT OR UPDATE OF ended_at", "dated", ""),
    (
        "access_person",
        "UPDATE OF is_active, username",
        "account",
        "WHEN ((OLD.is_active, OLD.username) IS DISTINCT FROM (NEW.is_active, NEW.username)) ",
    ),
    ("approvals_policy", "INSERT", "policy", ""),
    ("approvals_reservation", "INSERT OR UPDATE OF released_at", "reserved", ""),
)


def _trigger(table: str, when: str, what: str, condition: str) -> str:
    return f"""CREATE OR REPLACE TRIGGER look_again AFTER {when} ON {table}
  FOR EACH ROW {condition}EXECUTE FUNCTION approvals_{what}_changed();
"""
