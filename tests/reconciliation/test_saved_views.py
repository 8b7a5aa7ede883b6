"""Filters with names: one's own, shared ones, and one whose filter means nothing any more."""

from __future__ import annotations

from typing import Any

import pytest

from access.refusals import NotPermitted
from access.tenancy import acting, reading
from reconciliation.actions.saved_views import BadView, NoSuchView, change_view, delete_view, save_view
from reconciliation.models import SavedView
from reconciliation.narrowing import Narrowing
from reconciliation.viewing import EVERYBODYS, kept_views, views
from tests.dispatch.world import a_contract
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.world import Desk, now
from tests.support import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


def save(desk: Desk, name: str, **more: Any) -> int:
    values = {
        "person_id": desk.anna.pk,
        "chosen": Narrowing(kind="held"),
        "shared": False,
        "now": now(),
        **more,
    }
    return save_view(tenant_id=desk.tenant_id, name=name, **values)


def names(desk: Desk, person: Any) -> list[tuple[str, str]]:
    with reading(desk.tenant_id):
        return [(v.name, v.by) for v in views(Narrowing(), person.pk)[len(EVERYBODYS) :]]


def test_a_view_is_ones_own_until_it_is_shared_and_only_its_person_changes_it(desk: Desk) -> None:
    view = save(desk, "  Held   jobs ")
    assert (names(desk, desk.anna), names(desk, desk.ben)) == ([("Held jobs", "")], [])
    own = {"tenant_id": desk.tenant_id, "view_id": view, "name": "Held", "shared": True, "now": now()}
    with pytest.raises(NoSuchView):
        change_view(person_id=desk.ben.pk, **own)
    change_view(person_id=desk.anna.pk, **own)
    assert names(desk, desk.ben) == [("Held", desk.anna.username)]
    with pytest.raises(NotPermitted, match="or an admin"):
        delete_view(tenant_id=desk.tenant_id, person_id=desk.ben.pk, view_id=view)
    assert delete_view(tenant_id=desk.tenant_id, person_id=desk.admin.pk, view_id=view) == "Held"
    assert names(desk, desk.anna) == []
    alone = save(desk, "Mine alone")
    with pytest.raises(NoSuchView):
        delete_view(tenant_id=desk.tenant_id, person_id=desk.admin.pk, view_id=alone)


def test_two_that_keep_one_name_at_once_keep_it_once(desk: Desk) -> None:
    """Two tabs of one person: the second is told in a sentence, not by a constraint."""
    found = at_once(*[lambda: save(desk, "Held jobs")] * 3)
    assert sum(isinstance(one, BadView) for one in found) == 2
    assert names(desk, desk.anna) == [("Held jobs", "")]


def test_a_view_without_a_name_a_filter_or_a_name_of_its_own_is_not_kept(desk: Desk) -> None:
    save(desk, "Held")
    for name, more, why in (
        (" ", {}, "Give the view a name"),
        ("Held", {}, "already"),
        ("All", {"chosen": Narrowing()}, "narrows nothing"),
    ):
        with pytest.raises(BadView, match=why):
            save(desk, name, **more)
    save(desk, "Held", person_id=desk.ben.pk)
    with reading(desk.tenant_id):
        assert SavedView.objects.count() == 2


def test_a_view_whose_filter_means_nothing_any_more_says_so_and_still_opens(desk: Desk) -> None:
    save(desk, "Bank", chosen=Narrowing(receiver="bank", kind="held"))
    with acting(desk.tenant_id):
        SavedView.objects.create(
            tenant_id=desk.tenant_id, person=desk.anna, name="Old", asked={"colour": "red"}, made_at=now()
        )
    with reading(desk.tenant_id):
        faults = {k.view.name: k.faults for k in kept_views(desk.anna.pk)}
    assert faults == {
        "Bank": ["There is no receiver “bank” here."],
        "Old": ["“colour” is nothing that a queue is narrowed by (any more)."],
    }
    client = as_person(desk.anna)
    html = html_of(client.get(address(desk, "saved-views")))
    assert "There is no receiver “bank” here." in html
    assert "There is no receiver “bank” here." in html_of(
        client.get(address(desk, "cases") + "?receiver=bank&kind=held")
    )


def test_what_is_seen_is_saved_renamed_and_deleted_on_the_pages(desk: Desk) -> None:
    client, url = as_person(desk.anna), address(desk, "saved-views")
    queue = html_of(client.get(address(desk, "cases") + "?kind=held&owner=nobody"))
    assert "views/?kind=held&amp;owner=nobody" in queue
    assert "Save this view" in html_of(client.get(url + "?kind=held&owner=nobody"))
    given = {"kind": "held", "owner": "nobody", "name": "Held, nobody’s", "shared": "on"}
    assert client.post(url, given).status_code == 302
    assert client.post(url, given).status_code == 422
    assert "Held, nobody’s" in html_of(as_person(desk.ben).get(address(desk, "cases")))
    with reading(desk.tenant_id):
        (view,) = SavedView.objects.all()
    change, drop = address(desk, "view-change", view.pk), address(desk, "view-delete", view.pk)
    assert client.post(change, {"name": "Held"}).headers["Location"] == url
    assert "yours alone" in html_of(client.get(url))
    assert as_person(desk.ben).post(drop).status_code == 404
    assert client.post(drop).headers["Location"] == url
    with reading(desk.tenant_id):
        assert not SavedView.objects.exists()
