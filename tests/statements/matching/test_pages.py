"""The pages of matching, as people use them without a script."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from access.models import Person
from access.roles import Role
from access.tenancy import reading
from statements.matching.models import Match, MatchingSettings, MatchRun
from tests.statements.matching.ledger import Ledger
from tests.support import make_person

pytestmark = pytest.mark.django_db(transaction=True)
HOSTILE = '<img src=x onerror="alert(1)">\u202etxt'


class Reader:
    """One person's browser."""

    def __init__(self, ledger: Ledger, person: Person) -> None:
        self.client = Client(headers={"host": "localhost"})
        self.client.force_login(person)
        self.slug = ledger.tenant.slug

    def get(self, name: str, *args: Any, **query: str) -> tuple[int, str]:
        response = self.client.get(reverse(name, args=(self.slug, *args)), query)
        return response.status_code, response.content.decode()

    def post(self, name: str, *args: Any, **given: Any) -> tuple[int, str]:
        response = self.client.post(reverse(name, args=(self.slug, *args)), given, follow=True)
        return response.status_code, response.content.decode()


def test_a_line_is_matched_and_taken_back_on_its_page() -> None:
    ledger = Ledger.make()
    one, other = ledger.operations([{"record": "INV-1"}, {"record": HOSTILE}])
    statement, (line, _) = ledger.statement([{"text": HOSTILE, "counterparty": HOSTILE}, {"amount": 7}])
    reader = Reader(ledger, ledger.operator)
    status, shown = reader.get("statement-line", line)
    assert status == 200
    assert "<img" not in shown
    assert "record INV-1" in shown
    assert "amount equal, 1 day later" in shown
    status, shown = reader.post("statement-line-match", line)
    assert (status, "Choose what the line is." in shown) == (422, True)
    status, shown = reader.post("statement-line-match", line, operations=str(other), reason="by mail")
    assert (status, "was confirmed before; the line agrees." in shown) == (200, True)
    status, shown = reader.post("statement-line-match", line, operations=str(one))
    assert status == 409
    with reading(ledger.tenant.pk):
        match = Match.objects.get()
    status, shown = reader.post("statement-line-unmatch", line, match.pk, reason="")
    assert (status, "Say why it is not this line." in shown) == (422, True)
    status, shown = reader.post("statement-line-unmatch", line, match.pk, reason="another invoice")
    assert (status, "another invoice" in shown, "Unclaimed" in shown) == (200, True, True)
    status, shown = reader.get("statement", statement, show="unclaimed")
    assert (status, shown.count("/lines/"), "0</b>" in shown) == (200, 2, True)


def test_what_a_statement_is_missing_and_how_far_the_ladder_goes_is_shown_and_set() -> None:
    ledger = Ledger.make()
    ledger.operations([{"sent": "2026-03-12T08:00:00Z"}])
    statement, _ = ledger.statement([{"amount": 100}], first="2026-03-12", last="2026-03-12")
    reader, admin = Reader(ledger, ledger.operator), Reader(ledger, ledger.admin)
    status, shown = reader.get("statement-complete", statement)
    assert status == 200
    assert "confirmed operation without a line" in shown
    assert "line that no operation claims" in shown
    status, shown = reader.get("matching", ledger.receiver_id)
    assert (status, "these are the defaults" in shown, "STMT-" in shown) == (200, True, True)
    given = {
        "direction": "in",
        "takes_references": "on",
        "tolerance": "5",
        "window_days": "9",
        "likeness": "0.5",
        "alone_up_to": "0",
    }
    assert reader.post("matching", ledger.receiver_id, **given, largest_group="3")[0] == 403
    assert admin.post("matching", ledger.receiver_id, **given, largest_group="99")[0] == 422
    status, shown = admin.post("matching", ledger.receiver_id, **given, largest_group="3")
    assert (status, "Kept as version 1." in shown) == (200, True)
    assert reader.post("matching-walk", ledger.receiver_id)[0] == 200
    assert reader.post("matching-walk", ledger.receiver_id)[0] == 409
    with reading(ledger.tenant.pk):
        assert MatchingSettings.objects.get().terms["direction"] == "in"
        assert MatchRun.objects.get().settings_version == 1


def test_who_may_not_see_or_work_is_refused() -> None:
    ledger = Ledger.make()
    (one,) = ledger.operations([{}])
    statement, (line,) = ledger.statement([{}])
    auditor = Reader(ledger, make_person(ledger.tenant, Role.AUDITOR))
    assert auditor.get("statement-line", line)[0] == 200
    assert auditor.post("statement-line-match", line, operations=str(one))[0] == 403
    assert auditor.post("matching-walk", ledger.receiver_id)[0] == 403
    submitter = Reader(ledger, make_person(ledger.tenant, Role.SUBMITTER))
    assert submitter.get("statement-line", line)[0] == 403
    assert submitter.get("statement-complete", statement)[0] == 403
    strange = Reader(Ledger.make(), ledger.operator)
    assert strange.get("statement-line", line)[0] == 404
    stranger = Ledger.make()
    assert Reader(stranger, stranger.operator).get("statement-line", line)[0] == 404
