"""What an operation is worth stands on its row as a whole number, so that the database can compare and add it."""

from __future__ import annotations

import importlib
import os
from decimal import Decimal

import psycopg
import pytest
from django.apps import apps
from django.db import connection

from access.owner import as_owner
from dispatch.minor import as_amount, as_minor
from tests.approvals.world import draft, operation
from tests.dispatch.world import Dispatching, a_contract

pytestmark = pytest.mark.django_db(transaction=True)


def test_operations_have_their_amounts_in_the_smallest_unit_also_those_made_before() -> None:
    sending = Dispatching.make("http://127.0.0.1:9", a_contract())
    job = sending.world.job()
    amounts = [("4800.10", "EUR"), ("5", "JPY"), ("1.234", "KWD"), (None, None)]
    operations = [
        operation(action="update", record=f"V-{n}", amount=amount, currency=currency)
        for n, (amount, currency) in enumerate(amounts)
    ]
    sending.world.freeze(job, draft(operations=operations))
    expected = [(480010, "EUR"), (5, "JPY"), (1234, "KWD"), (None, "")]
    assert [(o.amount_minor, o.currency) for o in sending.operations(job)] == expected

    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        owner.execute("UPDATE dispatch_operation SET amount_minor = NULL, currency = ''")
    migration = importlib.import_module("dispatch.migrations.0005_amounts_of_operations")
    with as_owner(connection), connection.schema_editor() as editor:
        migration.copy_amounts(apps, editor)
    assert [(o.amount_minor, o.currency) for o in sending.operations(job)] == expected


def test_no_amount_is_rounded_on_its_way() -> None:
    assert as_minor(Decimal("0.105"), "EUR") is None
    assert as_amount(480010, "EUR") == Decimal("4800.10")
    assert as_minor(as_amount(10**18, "USD"), "USD") == 10**18
