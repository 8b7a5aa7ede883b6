"""Whatever of a signed proposal is changed behind our back, in whatever place of it, nothing is sent."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from access.owner import as_owner
from access.tenancy import reading
from approvals import canonical, standing
from approvals.document import _read_again, read
from approvals.models import Proposal
from tests.approvals.world import World, draft, operation
from tests.dispatch.faults import FaultServer
from tests.dispatch.world import Dispatching, a_keyed_contract
from workflows.models import JournalEntry

pytestmark = pytest.mark.django_db(transaction=True)
TABLES = ("approvals_proposal", "approvals_proposedoperation", "approvals_policy", "dispatch_operation")


def signed(world: World) -> Proposal:
    """An approved proposal in which every kind of field stands."""
    change = {
        "field": "iban", "label": "IBAN", "current": "NO93", "proposed": "NO94", "source": "Mail",
        "source_version": "3", "by_model": True,
    }  # fmt: skip
    body = {
        "items": [{"note": "a", "amount": "1.10"}, {"note": "b"}],
        "payee": {"iban": "NO94"},
        "n": 3,
        "ok": True,
    }
    one = operation(body=body, changes=[change], amount="12.50", currency="EUR")
    two = operation(record="V-2", title="Update V-2", independent=True)
    proposal = world.proposed(draft(operations=[one, two], amount="4800.00", currency="EUR"))
    world.decide(proposal, world.manager)
    return world.proposal(proposal)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """The value with one leaf changed, to something of its own type."""
    found = copy.deepcopy(value)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = other(place[path[-1]])
    return found


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return f"{value or ''}x"


class Undo(Exception):
    """Takes a change back after it was looked at."""


Look = Callable[..., list[str]]


@contextmanager
def owner_at_work(world: World, proposal: Proposal) -> Iterator[Look]:
    """The database's owner with all triggers off: changes something, hears what the checks before a send say, undoes it."""

    def look(sql: str, *values: Any) -> list[str]:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(sql, values)
                assert cursor.rowcount >= 1, sql
                _read_again.cache_clear()
                with reading(world.tenant.pk):
                    fresh = Proposal.objects.select_related("policy").get(pk=proposal.pk)
                    raise Undo([c.sentence for c in standing.approval_still_holds(fresh) if not c.ok])
        except Undo as undone:
            return list(undone.args[0])

    with as_owner(connection), transaction.atomic():
        with connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield look
        transaction.set_rollback(True)


def test_any_leaf_of_the_signed_document_that_changes_is_found(world: World) -> None:
    proposal = signed(world)
    value = read(proposal.document)
    paths = list(leaves(value))
    assert len(paths) > 80
    missed = []
    with owner_at_work(world, proposal) as look:
        assert look("UPDATE approvals_proposal SET digest = digest WHERE id = %s", proposal.pk) == []
        for path in paths:
            text = canonical.write(changed(value, path))
            alone = look("UPDATE approvals_proposal SET document = %s WHERE id = %s", text, proposal.pk)
            with_its_digest = look(
                "UPDATE approvals_proposal SET document = %s, digest = %s WHERE id = %s",
                text,
                canonical.sha256(text),
                proposal.pk,
            )
            if not alone or not with_its_digest:
                missed.append(path)
    assert missed == []


PROPOSAL = {
    "number": "number + 1",
    "title": "title || 'x'",
    "recipient": "recipient || 'x'",
    "quorum": "0",
    "amount": "amount - 1",
    "currency": "'USD'",
    "amount_label": "amount_label || 'x'",
    "amounts": "'[]'",
    "frozen_at": "frozen_at - interval '1 second'",
    "expires_at": "expires_at + interval '1 hour'",
    "document": "document || ' '",
    "digest": "reverse(digest)",
}
OPERATION = {
    "ordinal": "ordinal + 10",
    "operation_key": "reverse(operation_key)",
    "receiver": "receiver || 'x'",
    "contract_version": "contract_version + 1",
    "account": "account || 'x'",
    "record": "record || 'x'",
    "title": "title || 'x'",
    "method": "'DELETE'",
    "target": "target || '/x'",
    "headers": """'{"X-Other":"1"}'""",
    "body_digest": "reverse(body_digest)",
    "body": "overlay(body placing 'z' from 5)",
    "independent": "NOT independent",
}
POLICY = {"rules": "replace(rules, 'manager', 'admin')", "name": "name || 'x'", "revision": "revision + 1"}


def test_any_column_that_repeats_what_was_signed_is_compared_with_it(world: World) -> None:
    proposal = signed(world)
    first = "(SELECT min(id) FROM approvals_proposedoperation WHERE proposal_id = %s)"
    where = {
        "approvals_proposal": (PROPOSAL, "id = %s"),
        "approvals_proposedoperation": (OPERATION, f"id = {first}"),
        "approvals_policy": (POLICY, "id = (SELECT policy_id FROM approvals_proposal WHERE id = %s)"),
    }
    with owner_at_work(world, proposal) as look:
        missed = [
            (table, column)
            for table, (columns, condition) in where.items()
            for column, change in columns.items()
            if not look(f"UPDATE {table} SET {column} = {change} WHERE {condition}", proposal.pk)
        ]
        body = "overlay(body placing 'z' from 5)"
        together = f"SET body = {body}, body_digest = encode(sha256({body}), 'hex')"
        assert look(f"UPDATE approvals_proposedoperation {together} WHERE id = {first}", proposal.pk)
    assert missed == []


@pytest.mark.parametrize(
    ("sql", "check"),
    [
        ("UPDATE approvals_proposedoperation SET body = replace(convert_from(body, 'UTF8'), '\"a\"', '\"z\"')::bytea", "Bytes"),
        ("UPDATE approvals_proposedoperation SET body = replace(convert_from(body, 'UTF8'), 'NO93', 'NO94')::bytea", "Bytes"),
        ("UPDATE dispatch_operation SET record = 'V-9'", "Bytes"),
        ("UPDATE dispatch_operation SET operation_key = reverse(operation_key)", "Bytes"),
        ("UPDATE dispatch_operation SET account = 'another'", "Bytes"),
        ("UPDATE approvals_proposal SET document = replace(document, 'NO93', 'NO94')", "Digest"),
    ],
)  # fmt: skip
def test_dispatch_sends_nothing_of_what_was_changed_and_says_which_check_failed(sql: str, check: str) -> None:
    """items[0].note and payee.iban of an approved operation, and what its own row repeats."""
    with FaultServer() as erp:
        d = Dispatching.make(erp.url, a_keyed_contract())
        job = d.ready(body={"items": [{"note": "a"}], "payee": {"iban": "NO93"}})
        with as_owner(connection), connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            cursor.execute(sql)
            assert cursor.rowcount == 1
            for table in TABLES:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        d.step(d.operation(job))
        assert erp.received == []
    with reading(d.tenant_id):
        failed = JournalEntry.objects.filter(job=job, event="send.check_failed")
        assert check in {json.loads(e)["check"] for e in failed.values_list("evidence", flat=True)}
    assert d.job_state(job) == "VALIDATED"
    assert d.submissions(job) == []
