"""The tenant's scope: what stands between a query and another tenant's rows.

Two walls. The database's row level security policies show the app's role only rows of the tenant named in the
transaction's `app.tenant`; without one they show nothing. An empty page would be a lie, so a tenant's model also
refuses in Python to be queried outside a scope. Reads run in `reading(tenant_id)`, rendering included; actions run
in `acting(tenant_id)`, which opens the one durable transaction they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from django.db import connection, models, transaction
from django.db.models import sql

from access.prepared import Asked, execute, execute_alone

_scope: ContextVar[int | None] = ContextVar("tenant_scope", default=None)
_notes: ContextVar[dict[str, bool] | None] = ContextVar("tenant_notes", default=None)


class NoTenantScope(RuntimeError):
    """A tenant's table was queried outside `reading(tenant_id)` or `acting(tenant_id)`."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What the app's role may do to a table beside SELECT. `update` names columns; insert-only tables name none."""

    insert: bool = False
    update: tuple[str, ...] = ()
    delete: bool = False
    insert_columns: tuple[str, ...] = ()


def current_tenant_id() -> int | None:
    """The tenant of the scope this thread is in, or None."""
    return _scope.get()


def notes() -> dict[str, bool]:
    """What has been found out in this transaction and holds until it ends, because of a lock that it has."""
    found = _notes.get()
    return {} if found is None else found


@contextmanager
def reading(tenant_id: int) -> Iterator[None]:
    """A read-only transaction that sees one tenant's rows. May be nested; leaves the outer scope as it was."""
    outermost = not connection.in_atomic_block
    read_only = {"transaction_read_only": "on"} if outermost else {}
    with transaction.atomic(), _scoped(tenant_id, outermost=outermost, settings=read_only):
        yield


@contextmanager
def acting(tenant_id: int, *, lock_timeout_ms: int = 5000) -> Iterator[None]:
    """The one durable transaction of an action, in one tenant's scope. Never nested (RuntimeError).

    A lock that cannot be had within `lock_timeout_ms` raises OperationalError: somebody else is at it.
    """
    outermost = not connection.in_atomic_block
    timeout = {"lock_timeout": f"{lock_timeout_ms}ms"}
    with transaction.atomic(durable=True), _scoped(tenant_id, outermost=outermost, settings=timeout):
        yield


def act_at_once(
    tenant_id: int, statement: str, parameters: Mapping[str, Any], *, lock_timeout_ms: int = 5000
) -> Any:
    """An action of one statement: begun, done and committed in one exchange with the server. Never nested (RuntimeError).

    What it found, or how many rows it changed. A lock that cannot be had in time raises OperationalError, as in `acting`.
    """
    settings = _local({"lock_timeout": f"{lock_timeout_ms}ms", "app.tenant": str(tenant_id)})
    return execute_alone(settings, (statement, parameters))[-1]


@contextmanager
def _scoped(tenant_id: int, *, outermost: bool, settings: dict[str, str]) -> Iterator[None]:
    """The scope, and settings of the transaction, set in one statement: an action has many transactions."""
    before = _scope.get()
    notes = _notes.set({} if outermost else _notes.get())
    _set_local({**settings, "app.tenant": str(tenant_id)})
    token = _scope.set(tenant_id)
    try:
        yield
        # The end of the transaction, or a rollback to a savepoint, restores the setting by itself.
        if not outermost:
            _set_local({"app.tenant": "" if before is None else str(before)})
    finally:
        _scope.reset(token)
        _notes.reset(notes)


def _set_local(settings: dict[str, str]) -> None:
    execute(*_local(settings))


def _local(settings: dict[str, str]) -> Asked:
    places = ", ".join(["set_config(%s, %s, true)"] * len(settings))
    return f"SELECT {places}", [part for pair in settings.items() for part in pair]


def require_scope() -> int:
    """The tenant of the scope, or NoTenantScope."""
    tenant_id = _scope.get()
    if tenant_id is None:
        raise NoTenantScope("A tenant's rows were asked for outside reading(tenant_id) or acting(tenant_id).")
    return tenant_id


class TenantQuery(sql.Query):
    """A query that refuses to run outside a tenant's scope."""

    def get_compiler(self, *args: Any, **kwargs: Any) -> Any:
        require_scope()
        return super().get_compiler(*args, **kwargs)


M = TypeVar("M", bound=models.Model)


class TenantQuerySet(models.QuerySet[M]):
    """Rows of one tenant. Every evaluation needs a scope; so do updates, which would silently find nothing."""

    def __init__(self, model: Any = None, query: Any = None, using: Any = None, hints: Any = None) -> None:
        super().__init__(model, query or TenantQuery(model), using, hints)

    def update(self, **values: Any) -> int:
        require_scope()
        return super().update(**values)

    def delete(self) -> tuple[int, dict[str, int]]:
        require_scope()
        return super().delete()


TenantManager = models.Manager.from_queryset(TenantQuerySet)


class TenantForeignKey(models.ForeignKey):  # type: ignore[type-arg]
    """A reference between two tenant tables.

    Its constraint is not Django's but the composite (tenant_id, id) one of `access/database_objects.py`, so that a
    row cannot refer to another tenant's row even where policies do not look (engine, migrations).

    `by_statement`: the room's own trigger holds it instead, for all rows of a statement at once, where a constraint would
    look a million rows up one by one. What it refers to must then never be deleted or get another key, by trigger.
    """

    def __init__(
        self, to: Any, on_delete: Any = models.PROTECT, *, by_statement: bool = False, **kwargs: Any
    ) -> None:
        self.by_statement = by_statement
        kwargs.setdefault("related_name", "+")
        kwargs["db_constraint"] = False
        super().__init__(to, on_delete, **kwargs)


class TenantModel(models.Model):
    """A row that belongs to a tenant. `migrate` puts its table behind the row level security policies."""

    app_rights: ClassVar[Rights] = Rights()
    engine_rights: ClassVar[Rights | None] = None
    """What the engine's role, which crosses tenants, may do; None: nothing, not even read."""

    append_only: ClassVar[bool] = False
    """Rows refuse UPDATE and DELETE, from the owner too."""

    ended_by: ClassVar[str] = ""
    """The column that ends a row: once it is set the row refuses every change, from the owner too."""

    tenant = models.ForeignKey(
        "access.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )

    objects = TenantManager()

    class Meta:
        abstract = True
        base_manager_name = "objects"
