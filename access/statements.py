"""Statements made once: what every send and every advance runs, as the ORM writes it, without its being written anew.

The ORM builds and compiles the same text at each call, and the server plans it each time: ten times what the running
costs. Here a queryset is compiled when it is first used, with slots for what changes; each session prepares the text
once, and rows become the same model instances. A tenant's rows still need a scope. ADR 0028 has the figures.
"""

# ruff: noqa: S608 - the statements are made of the models' names, never of input
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import AutoField, Expression, Field, Lookup, Model, QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

from access.prepared import Asked, ahead, execute
from access.tenancy import TenantModel, require_scope

__all__ = ["Asked", "Select", "Update", "Values", "ahead", "execute", "insert", "plan_once"]

M = TypeVar("M", bound=Model)


def plan_once(connection: BaseDatabaseWrapper, **_: object) -> None:
    """For sessions of workers: the server plans a prepared statement at its first use, where it would plan five times.

    All of them look rows up by their keys, so no value would have another plan. A session lives a minute, then it plans
    anew for what the tables have become. A plan that is made while a table is small must hold for that minute: whole
    tables are read only where there is no index.
    """
    for setting in (
        "plan_cache_mode = force_generic_plan",
        "enable_seqscan = off",
        "enable_bitmapscan = off",
    ):
        connection.connection.execute(f"SET {setting}")


class Select(Generic[M]):
    """A queryset of whole rows. `make` is given a slot for each of its parameters, and is called once."""

    def __init__(self, make: Callable[..., QuerySet[M, M]]) -> None:
        self._made = cache(lambda: _Made.of(make))

    def asked(self, *values: Any) -> Asked:
        """The same question, to be asked `ahead`."""
        return self._made().asked(values)

    def all(self, *values: Any) -> list[M]:
        """The rows, with these values in the slots."""
        made = self._made()
        return [made.instance(row) for row in made.rows(values)]

    def first(self, *values: Any) -> M | None:
        """The first row of those that it finds. For what finds few, or is cut to one."""
        found = self.all(*values)
        return found[0] if found else None


class Values:
    """A queryset of `values_list`, likewise; every row is a tuple."""

    def __init__(self, make: Callable[..., QuerySet[Any, Any]]) -> None:
        self._made = cache(lambda: _Made.of(make))

    def asked(self, *values: Any) -> Asked:
        """The same question, to be asked `ahead`."""
        return self._made().asked(values)

    def all(self, *values: Any) -> list[tuple[Any, ...]]:
        """The rows, with these values in the slots."""
        return [tuple(row) for row in self._made().rows(values)]

    def first(self, *values: Any) -> tuple[Any, ...] | None:
        """The first of them. For what finds few, or is cut to one."""
        found = self.all(*values)
        return found[0] if found else None

    def exist(self, *values: Any) -> bool:
        """Whether there is a row."""
        return bool(self.all(*values))


class Update:
    """An update of the rows that `make` finds; the same columns are set at each place that it is called from."""

    def __init__(self, make: Callable[..., QuerySet[Any, Any]]) -> None:
        self._made = cache(lambda *columns: _Made.of(make, columns))

    def __call__(self, *values: Any, **columns: Any) -> int:
        """How many rows were changed; `values` are for the slots."""
        made = self._made(*columns)
        fields = made.model._meta
        saved = [fields.get_field(n).get_db_prep_save(v, connection) for n, v in columns.items()]  # type: ignore[union-attr]
        return int(made.run([*values, *saved]).rowcount)


def insert(row: M) -> M:
    """Save a new row and give it its key, as `save(force_insert=True)` does. Each field has a value or a default in Python."""
    statement, fields = _insertion(type(row))
    values = [f.get_db_prep_save(f.pre_save(row, add=True), connection) for f in fields]
    if issubclass(type(row), TenantModel):
        require_scope()
    (row.pk,) = execute(statement, [_plain(v) for v in values]).fetchone()
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
    return row


@cache
def _insertion(model: type[Model]) -> tuple[str, list[Field[Any, Any]]]:
    fields = [f for f in model._meta.local_concrete_fields if not isinstance(f, AutoField)]
    columns = ", ".join(f'"{f.column}"' for f in fields)
    places = ", ".join(["%s"] * len(fields))
    key = model._meta.pk.column
    return f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({places}) RETURNING "{key}"', fields


@Field.register_lookup
class Among(Lookup):
    """`name__among=names`: IN for a list of any length that takes one slot."""

    lookup_name = "among"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        left, given = self.process_lhs(compiler, connection)
        right, values = self.process_rhs(compiler, connection)
        return f"{left} = ANY{right}", (*given, *values)


class _Slot(Expression):
    """Stands in a queryset where a call's value goes."""

    def __init__(self, place: int) -> None:
        super().__init__(output_field=Field())
        self.place = place

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", (self,)


@dataclass(frozen=True, slots=True)
class _Made:
    """The text of a statement, its parameters with slots among them, and how a row becomes an instance."""

    model: type[Model]
    statement: str
    parameters: tuple[Any, ...]
    width: int = 0
    converters: tuple[tuple[int, list[Any], Any], ...] = ()
    names: tuple[str, ...] = ()
    start: int = 0
    related: tuple[Any, ...] = ()

    @classmethod
    def of(cls, make: Callable[..., QuerySet[Any, Any]], columns: tuple[str, ...] = ()) -> _Made:
        count = len(inspect.signature(make).parameters)
        rows = make(*(_Slot(place) for place in range(count)))
        if columns:
            query: Any = rows.query.chain(UpdateQuery)
            query.add_update_values({name: _Slot(count + i) for i, name in enumerate(columns)})
            compiler = query.get_compiler(DEFAULT_DB_ALIAS)
        else:
            compiler = rows.query.get_compiler(DEFAULT_DB_ALIAS)
        statement, parameters = compiler.as_sql()
        plain = tuple(_plain(p) for p in parameters)
        return cls(rows.model, statement, plain, **({} if columns else _how_to_read(compiler)))

    def asked(self, values: Sequence[Any]) -> Asked:
        if issubclass(self.model, TenantModel):
            require_scope()
        return self.statement, [values[p.place] if isinstance(p, _Slot) else p for p in self.parameters]

    def run(self, values: Sequence[Any]) -> Any:
        return execute(*self.asked(values))

    def rows(self, values: Sequence[Any]) -> list[Sequence[Any]]:
        found = self.run(values).fetchall()
        if not self.converters and self.width == (len(found[0]) if found else self.width):
            return list(found)
        return [self._converted(list(row[: self.width])) for row in found]

    def instance(self, row: Sequence[Any]) -> Any:
        made = self.model.from_db(
            DEFAULT_DB_ALIAS, self.names, row[self.start : self.start + len(self.names)]
        )
        for populator in self.related:
            populator.populate(row, made)
        return made

    def _converted(self, row: list[Any]) -> list[Any]:
        for place, converters, expression in self.converters:
            for convert in converters:
                row[place] = convert(row[place], expression, connection)
        return row


def _how_to_read(compiler: SQLCompiler) -> dict[str, Any]:
    """What Django's own ModelIterable finds out for each query."""
    expressions = [s[0] for s in compiler.select[: compiler.col_count]]
    converters = compiler.get_converters(expressions)
    read: dict[str, Any] = {
        "width": compiler.col_count,
        "converters": tuple((place, made, expression) for place, (made, expression) in converters.items()),
    }
    if compiler.klass_info is not None:
        places = compiler.klass_info["select_fields"]
        start, end = places[0], places[-1] + 1
        read["start"] = start
        read["names"] = tuple(s[0].target.attname for s in compiler.select[start:end])
        populators: Any = get_related_populators  # typed for a later Django
        read["related"] = tuple(populators(compiler.klass_info, compiler.select, DEFAULT_DB_ALIAS))
    return read


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
