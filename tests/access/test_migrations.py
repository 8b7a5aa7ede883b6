"""New databases take the tables in one step an app; those that are there went through the single steps."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from config import database
from tests import databases

_FIRST_TOLD = (
    "SELECT indrelid::regclass::text, array_agg(indexrelid::regclass::text ORDER BY indexrelid) FROM pg_index"
    " WHERE indisunique AND indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)"
    " GROUP BY indrelid"
)
"""In what order a table's unique indexes were made: of two that a row breaks, the first is the one that is told."""

CATALOG = (
    "SELECT table_name, column_name, data_type, character_maximum_length, numeric_precision, numeric_scale, is_nullable,"
    " column_default, identity_generation, generation_expression FROM information_schema.columns"
    " WHERE table_schema = 'public'",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace",
    "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "SELECT tablename, policyname, cmd, qual, with_check FROM pg_policies",
    "SELECT relname, relacl::text, relrowsecurity FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    _FIRST_TOLD,
)


@pytest.fixture
def empty_database(transactional_db: None) -> Iterator[str]:
    name = f"counterfoil_test_{secrets.token_hex(5)}"
    url = database.create_database(name)
    try:
        with databases.used_by_this_process(name, url):
            yield url
    finally:
        database.drop_database(name)


@pytest.mark.long
def test_the_single_steps_make_what_the_one_step_makes_and_are_taken_for_it(
    empty_database: str, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with databases.own():
        made_at_once = _catalog(os.environ["DATABASE_URL"])
    with monkeypatch.context() as patch:
        patch.setattr(MigrationLoader, "load_disk", _without_replacements(MigrationLoader.load_disk))
        call_command("migrate", verbosity=0)
    assert _catalog(empty_database) == made_at_once

    call_command("migrate", verbosity=0)
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    assert set(executor.loader.replacements) <= set(executor.loader.applied_migrations)
    assert _catalog(empty_database) == made_at_once


def test_a_new_database_took_the_one_step_and_knows_the_single_ones_as_done(transactional_db: None) -> None:
    loader = MigrationExecutor(connection).loader
    replaced = {step for one in loader.replacements.values() for step in one.replaces}
    ours = {app.label for app in apps.get_app_configs() if "site-packages" not in app.path}
    first = {(label, step) for label, step in loader.disk_migrations if label in ours and step[:4] == "0001"}
    assert first <= replaced | set(loader.replacements)
    assert replaced & set(loader.graph.nodes) == set()
    assert replaced | set(loader.replacements) <= set(loader.applied_migrations)


def _without_replacements(load: Any) -> Any:
    def load_disk(loader: MigrationLoader) -> None:
        load(loader)
        loader.disk_migrations = {k: m for k, m in loader.disk_migrations.items() if not m.replaces}

    return load_disk


def _catalog(url: str) -> list[list[str]]:
    """What is in a database, whatever order the columns stand in."""
    with psycopg.connect(url) as looking:
        return [sorted(map(str, looking.execute(asked).fetchall())) for asked in CATALOG]
