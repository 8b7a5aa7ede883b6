"""A workflow's own look before a send: code of others in the middle of a claim, whose transactions follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection, transaction

from dispatch import sending
from tests.dispatch.faults import FaultServer, answers
from tests.dispatch.world import Dispatching, a_contract, receipt, states
from tests.workflows_for_tests import orders
from workflows.authoring import Ctx, ProposalDraft

pytestmark = pytest.mark.django_db(transaction=True)


def leave_a_transaction_open() -> None:
    transaction.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def set_what_a_session_is() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('app.tenant', '999', false), set_config('search_path', 'nowhere', false)"
        )
        cursor.execute("SET ROLE counterfoil_engine")


@pytest.fixture
def without_rechecks() -> Iterator[None]:
    """The workflow as it was, after a test that gave it one."""
    yield
    orders.rechecks.clear()


@pytest.mark.parametrize("spoil", [leave_a_transaction_open, set_what_a_session_is])
def test_what_a_recheck_does_to_its_session_ends_with_it(
    spoil: Callable[[], None], without_rechecks: None
) -> None:
    """The send that it is asked for goes out, and nothing after it runs as another role, tenant or path."""

    def recheck(ctx: Ctx, draft: ProposalDraft) -> list[str]:
        spoil()
        return []

    with FaultServer(answers(200, receipt("V-1"))) as erp:
        d = Dispatching.make(erp.url, a_contract())
        job = d.ready()
        orders.recheck(recheck)
        assert sending.run(d.claim(d.operation(job))) == sending.Done()
        assert states(d, job) == ("CONFIRMED", ["CONFIRMED"])
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, current_setting('app.tenant', true), current_setting('search_path')"
        )
        assert cursor.fetchone() == ("counterfoil_app", "", '"$user", public')
