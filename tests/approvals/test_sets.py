"""A proposal of many operations: what they have in common, every value on the page of its operation, one signature."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.roles import Role
from access.tenancy import reading
from approvals import sets
from approvals.models import Proposal
from approvals.slips import slip
from tests.approvals.pages import HOSTILE, as_person, at, decide, text
from tests.approvals.world import World, draft, operation
from tests.support import make_person

pytestmark = pytest.mark.django_db(transaction=True)


def change(label: str, current: str | None, proposed: str, **more: Any) -> dict[str, Any]:
    return {
        "field": label,
        "label": label,
        "current": current,
        "proposed": proposed,
        "source": "List",
        **more,
    }


def a_set(size: int, **more: Any) -> dict[str, Any]:
    """A draft of so many operations, each on a record of its own with a name that only it has."""
    operations = [
        operation(
            record=f"V-{n:03d}",
            title=f"Update V-{n:03d}",
            independent=True,
            body={"name": f"Name {n:03d}", "rating": "AB"[n % 2]},
            changes=[
                change("Name", None if n % 3 else "old", f"Name {n:03d}"),
                change("Rating", "C", "AB"[n % 2], by_model=True, source="Model"),
            ],
        )
        for n in range(1, size + 1)
    ]
    return draft(operations=operations, **more)


def part(world: World, proposal: Proposal, start: str = "") -> sets.Part:
    with reading(world.tenant.pk):
        shown = slip(proposal.pk, person_id=world.manager.pk, now=proposal.frozen_at)
    found = sets.part_of(shown.operations, [], start)
    assert found is not None
    return found


def page(world: World, proposal: Proposal, start: str = "") -> str:
    address = at(world, "approval", proposal) + (f"?from={start}" if start else "")
    return text(as_person(world.manager).get(address))


def test_few_operations_are_no_set(world: World) -> None:
    proposal = world.proposed(a_set(sets.SET_OF - 1))

    html = page(world, proposal)

    assert "in the order below" in html
    assert html.count('<details class="sent"') == sets.SET_OF - 1


def test_set_says_what_its_operations_have_in_common(world: World) -> None:
    found = part(world, world.proposed(a_set(9)))

    assert [(s.label, s.operations, s.current, s.proposed, s.source, s.by_model) for s in found.spreads] == [
        ("Name", 9, "empty in 6, old in 3", "9 different values", "List", 0),
        ("Rating", 9, "C", "B in 5, A in 4", "Model", 9),
    ]
    assert (found.receivers, found.independent, found.whole) == (["erp"], True, True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["a"], "a"),
        (["", ""], "empty"),
        (["", "a", "a"], "empty in 1, a in 2"),
        (["a", "b", "c", "d", "a"], "a in 2, b in 1, c in 1, d in 1"),
        (["a", "b", "c", "d", "e"], "5 different values"),
        (["a", "b", "c", "d", "e", "e", ""], "empty in 1, 5 different values, most often e in 2, a in 1"),
        (["x" * 61], "x" * 60 + "… (61 characters, in full below)"),
        (["a"] * 1234 + ["b"], "a in 1,234, b in 1"),
    ],
)
def test_values_of_a_field_are_told_in_a_phrase(values: list[str], said: str) -> None:
    assert sets.phrase_of(values) == said


def test_several_sources_of_one_field_are_told_at_each_value(world: World) -> None:
    operations = [
        operation(
            record=f"V-{n}",
            independent=True,
            changes=[change("Name", None, str(n), source=f"List {n % 2}", source_version="3")],
        )
        for n in range(8)
    ]

    found = part(world, world.proposed(draft(operations=operations)))

    assert found.spreads[0].source == "several sources"
    assert [m.lines[0].source for m in found.members[:2]] == ["List 0, version 3", "List 1, version 3"]


@pytest.mark.parametrize(
    ("start", "first", "last"),
    [
        ("", 1, 50), ("1", 1, 50), ("50", 1, 50), ("51", 51, 100), ("120", 101, 120), ("9999", 101, 120),
        ("0", 1, 50), ("-1", 1, 50), ("x", 1, 50), ("9" * 30, 1, 50), ("all", 1, 120),
    ],
)  # fmt: skip
def test_page_of_a_set_is_the_one_on_which_an_operation_stands(
    world: World, start: str, first: int, last: int
) -> None:
    found = part(world, world.proposed(a_set(120)), start)

    assert (found.first, found.last, len(found.members)) == (first, last, last - first + 1)


def test_every_value_and_every_byte_of_an_operation_stands_on_its_page_and_all_of_them_on_one(
    world: World,
) -> None:
    proposal = world.proposed(a_set(120))

    pages = [page(world, proposal, start) for start in ("", "51", "101")]
    whole = page(world, proposal, "all")

    for n in range(1, 121):
        shown = [re.search(rf"Name {n:03d}(</mark>)?</span></ins>", html) is not None for html in pages]
        assert shown == [n <= 50, 50 < n <= 100, n > 100]
        body = f"&quot;name&quot;: &quot;Name {n:03d}&quot;"
        assert body in pages[(n - 1) // 50]
        assert body in whole
    links = re.findall(r'href="[^"]*from=(\w+)#set-t"', pages[0])
    assert links == ["1", "51", "101", "all"] * 2


def test_one_signature_covers_the_set_whichever_page_it_was_read_on(world: World) -> None:
    proposal = world.proposed(a_set(60))

    html = page(world, proposal, "51")

    assert (
        "Covers 60 operations, receiver, 120 fields, expiry. Signs all of them, whichever page you read."
        in html
    )
    assert f'name="digest" value="{proposal.digest}"' in html
    assert decide(world, proposal, world.manager).status_code == 302
    assert world.state(proposal) == "READY_TO_COMMIT"


def test_request_for_changes_of_a_long_set_offers_the_names_of_its_fields(world: World) -> None:
    proposal = world.proposed(a_set(60))

    html = text(as_person(world.manager).get(at(world, "approval-changes", proposal)))

    assert re.findall(r'name="fields" value="([^"]+)"', html) == ["Name", "Rating"]


def test_hostile_text_of_a_set_is_escaped_and_counted_wherever_it_stands(world: World) -> None:
    value = a_set(60)
    value["operations"][59]["changes"][0]["proposed"] = HOSTILE
    proposal = world.proposed(value)

    first, last = page(world, proposal), page(world, proposal, "51")

    assert "1 character in this proposal cannot be seen" in first
    assert "<img" not in first + last
    assert "U+202E" in last


def test_page_of_a_set_costs_the_same_however_large_it_is(world: World) -> None:
    counted = []
    client = as_person(world.manager)
    for size in (6, 60):
        address = at(world, "approval", world.proposed(a_set(size)))
        client.get(address)
        with CaptureQueriesContext(connection) as captured:
            client.get(address)
        counted.append(len(captured))

    assert counted[0] == counted[1]


# --- the file of what is signed -----------------------------------------------------------------------------------------


def test_file_of_what_is_signed_has_the_digest_that_is_signed(world: World) -> None:
    proposal = world.proposed(a_set(7))

    answer = as_person(world.second).get(at(world, "approval-signed", proposal))

    assert hashlib.sha256(answer.content).hexdigest() == proposal.digest
    assert answer["Content-Disposition"] == f'attachment; filename="{proposal.label}.json"'
    assert world.events(proposal).count("proposal.viewed") == 1
    assert at(world, "approval-signed", proposal) in page(world, proposal)


def test_file_is_for_members_only_and_only_a_managers_look_is_journalled(world: World) -> None:
    proposal = world.proposed()
    address = at(world, "approval-signed", proposal)

    assert as_person(World.make().manager).get(address).status_code == 404
    assert as_person(make_person(world.tenant, Role.AUDITOR)).get(address).status_code == 200
    assert as_person(world.manager).get(at(world, "approval-signed", 0)).status_code == 404
    assert "proposal.viewed" not in world.events(proposal)
