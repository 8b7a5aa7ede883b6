"""Whether what a job's steps made is undone depends on what became of its operations."""

from __future__ import annotations

import pytest

from access.tenancy import reading
from dispatch.queries import effect_stands
from dispatch.states import OperationState
from tests.dispatch.world import Dispatching, a_contract, as_owner
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("state", list(OperationState))
def test_effect_stands_where_something_was_or_may_have_been_applied(state: OperationState) -> None:
    sending = Dispatching.make("http://127.0.0.1:1", a_contract())
    job = sending.ready()
    as_owner("dispatch_operation", "state = %s", [state.value])
    with reading(sending.tenant_id):
        stands = effect_stands(Job.objects.get(pk=job.pk))
    assert stands is (state in {"CONFIRMED", "CONFLICTED", "UNKNOWN", "SUBMITTED"})
