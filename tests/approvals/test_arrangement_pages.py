"""The pages on groups and absences, and the slip of somebody who signs for another."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from access.models import Absence, Delegation, Group, GroupMember, Person, TenantEntry
from access.roles import Role
from access.tenancy import reading
from approvals.models import Policy
from tests.approvals.pages import as_person, at, decide, text
from tests.approvals.test_authority import group, lend
from tests.approvals.world import World, make_person
from workflows.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)

SOON = (timezone.now() + timedelta(days=5)).date().isoformat()
LATER = (timezone.now() + timedelta(days=8)).date().isoformat()


def url(world: World, name: str, *args: Any) -> str:
    return reverse(name, args=[world.tenant.slug, *args])


def counts(world: World) -> tuple[int, int, int]:
    with reading(world.tenant.pk):
        live = GroupMember.objects.filter(ended_at__isnull=True)
        return (
            Absence.objects.count(),
            Delegation.objects.filter(revoked_at__isnull=True).count(),
            live.count(),
        )


def test_an_admin_makes_a_group_on_its_page_and_everybody_reads_it(world: World) -> None:
    boss = as_person(make_person(world.tenant, Role.ADMIN))
    assert boss.post(url(world, "group-make"), {"name": "controllers"}).status_code == 302
    answer = boss.post(url(world, "group-make"), {"name": "controllers"})
    assert (answer.status_code, "There is a group &quot;controllers&quot; already." in text(answer)) == (
        409,
        True,
    )
    with reading(world.tenant.pk):
        made = Group.objects.get()
    add = url(world, "group-add", made.pk)
    assert boss.post(add, {"person": world.manager.username}).status_code == 302
    assert boss.post(add, {"person": world.operator.username}).status_code == 302
    for wrong in ("", "zoe", "a\0b"):
        assert boss.post(add, {"person": wrong}).status_code == 422
    world.policy(levels=[{"group": "controllers"}])
    for role in Role:
        page = text(as_person(make_person(world.tenant, role)).get(url(world, "groups")))
        assert world.manager.username in page
        assert "is no manager, so they sign nothing" in page
        assert "test-policy" in page
        assert ("Take out…" in page) is (role is Role.ADMIN)
    out = url(world, "group-remove", made.pk, world.manager.pk)
    assert "test-policy asks for this group" in text(boss.get(out))
    for _ in range(2):
        assert boss.post(out).status_code == 302
    assert (counts(world)[2], boss.get(out).status_code) == (1, 404)
    with reading(world.tenant.pk):
        newest = Policy.objects.latest("revision")
    assert "Level 1 asks for 1, and nobody could sign there." in text(
        boss.get(url(world, "policy", newest.pk))
    )


def test_only_admins_move_people_and_other_tenants_groups_are_not_there(world: World) -> None:
    group(world, "controllers", world.manager)
    with reading(world.tenant.pk):
        made = Group.objects.get()
    forms = (("group-make", ()), ("group-add", (made.pk,)), ("group-remove", (made.pk, world.manager.pk)))
    for role in (r for r in Role if r is not Role.ADMIN):
        client = as_person(make_person(world.tenant, role))
        assert {client.post(url(world, name, *args), {"name": "x"}).status_code for name, args in forms} == {
            403
        }
    other = World.make()
    boss = as_person(make_person(other.tenant, Role.ADMIN))
    assert boss.post(url(other, "group-add", made.pk), {"person": other.manager.username}).status_code == 404
    assert boss.post(url(other, "group-remove", made.pk, world.manager.pk)).status_code == 404
    assert boss.post(url(world, "group-make"), {"name": "x"}).status_code == 404
    assert counts(world)[2] == 1


def test_a_manager_is_away_and_lends_in_one_step_and_takes_both_back(world: World) -> None:
    client = as_person(world.manager)
    given = {
        "away-begins": SOON, "away-ends": LATER, "away-taker": world.second.pk, "away-policies": "test-policy",
        "away-most": "500.00", "away-currency": "eur", "away-reason": "Holiday",
    }  # fmt: skip
    assert client.post(url(world, "absence"), given).status_code == 302
    with reading(world.tenant.pk):
        away, lent = Absence.objects.get(), Delegation.objects.get()
    assert (away.starts_at, away.ends_at) == (lent.starts_at, lent.ends_at)
    assert away.ends_at - away.starts_at == timedelta(days=4)  # the last day with its evening
    assert (lent.policies, str(lent.most_amount), lent.most_currency) == ("test-policy", "500.0000", "EUR")
    page = text(client.get(url(world, "absence")))
    assert "to come" in page
    assert "for test-policy" in page
    assert "Lent by others" in text(as_person(world.second).get(url(world, "absence")))
    again = client.post(url(world, "absence"), given)
    assert (again.status_code, "End it first." in text(again)) == (409, True)
    assert as_person(world.second).post(url(world, "absence-end", away.pk)).status_code == 403
    assert client.post(url(world, "absence-end", away.pk)).status_code == 302
    revoke = url(world, "absence-revoke", lent.pk)
    assert as_person(world.second).get(revoke).status_code == 403
    assert "Nothing that is still to be sent was signed with it." in text(client.get(revoke))
    assert client.post(revoke).status_code == 302
    assert client.post(revoke).status_code == 409
    assert counts(world) == (1, 0, 0)


def test_what_cannot_be_noted_or_lent_is_said_and_kept_in_the_form(world: World) -> None:
    client = as_person(world.manager)
    fine = {
        "begins": SOON, "ends": LATER, "taker": world.second.pk, "reason": "Holiday <b>", "most": "", "currency": "",
    }  # fmt: skip
    for changes, said, status in (
        ({"begins": "tomorrow"}, "Write a day, such as 2026-12-24", 422),
        ({"begins": ""}, "This field is required", 422),
        ({"ends": SOON, "begins": LATER}, "The end has to come after the beginning.", 422),
        ({"begins": "2020-01-01"}, "It cannot begin in the past.", 422),
        ({"ends": "2099-01-01"}, "That is longer than a year.", 422),
        ({"taker": world.manager.pk}, "Select a valid choice", 422),
        ({"taker": world.operator.pk}, "Select a valid choice", 422),
        ({"reason": ""}, "This field is required", 422),
        ({"most": "1e3", "currency": "EUR"}, "as text with a point", 422),
        ({"most": "5.00"}, "Is too short", 422),
        ({"policies": "nowhere"}, "Select a valid choice", 422),
    ):
        answer = client.post(
            url(world, "absence-lend"), {f"lend-{k}": v for k, v in {**fine, **changes}.items()}
        )
        assert (answer.status_code, said in text(answer)) == (status, True), (changes, said)
        if "reason" not in changes:
            assert "Holiday &lt;b&gt;" in text(answer)
    assert counts(world) == (0, 0, 0)


def test_an_admin_does_it_for_others_and_nobody_else_sees_their_page(world: World) -> None:
    boss = as_person(make_person(world.tenant, Role.ADMIN))
    whose = {"of": world.manager.username}
    assert "Absence of" in text(boss.get(url(world, "absence"), whose))
    given = {
        **whose,
        "lend-begins": SOON,
        "lend-ends": LATER,
        "lend-taker": world.second.pk,
        "lend-reason": "Ill",
    }
    assert boss.post(url(world, "absence-lend"), given).status_code == 302
    assert (
        boss.post(url(world, "absence"), {**whose, "away-begins": SOON, "away-ends": LATER}).status_code
        == 302
    )
    assert counts(world) == (1, 1, 0)
    with reading(world.tenant.pk):
        assert {row.actor_kind for row in TenantEntry.objects.filter(event__startswith="delegation")} == {
            "admin"
        }
    for client in (as_person(world.second), as_person(world.operator)):
        assert client.get(url(world, "absence"), whose).status_code == 404
        assert (
            client.post(url(world, "absence"), {**whose, "away-begins": SOON, "away-ends": LATER}).status_code
            == 404
        )
    stranger = {"of": World.make().manager.username}
    assert boss.get(url(world, "absence"), stranger).status_code == 404
    own = as_person(world.operator).post(url(world, "absence"), {"away-begins": SOON, "away-ends": LATER})
    assert own.status_code == 302
    assert counts(world)[0] == 2


def test_an_admin_comes_back_to_a_page_whose_handle_is_no_plain_word(world: World) -> None:
    boss = as_person(make_person(world.tenant, Role.ADMIN))
    mia = make_person(world.tenant, Role.OPERATOR, handle="mia+night@firm")
    form = {"of": mia.username, "away-begins": SOON, "away-ends": LATER}
    page = boss.post(url(world, "absence"), form, follow=True)
    assert (page.status_code, "Absence of mia+night@firm" in text(page)) == (200, True)


def test_the_slip_says_for_whom_one_signs_before_and_after(world: World) -> None:
    taker: Person = make_person(world.tenant, Role.MANAGER, handle=f"lin.{world.tenant.slug}")
    group(world, "controllers", world.second)
    world.policy(levels=[{}, {"group": "controllers"}])
    lend(world, world.second, taker)
    proposal = world.proposed()
    client = as_person(taker)
    before = text(client.get(at(world, "approval", proposal)))
    assert f"as {taker.username}, first of 2" in before
    assert "A manager of the group controllers" in before
    assert f'href="{url(world, "absence")}?policy=test-policy#lend-t"' in before
    lending = text(client.get(url(world, "absence"), {"policy": "test-policy"}))
    assert lending.count('value="test-policy"') == 2
    assert re.search(r'name="lend-policies" value="test-policy"[^>]* checked', lending)
    assert "One manager of the group controllers, after one manager" in before
    decide(world, proposal, world.manager)
    assert f"as {taker.username}, signing for {world.second.username}, second of 2" in text(
        client.get(at(world, "approval", proposal))
    )
    decide(world, proposal, taker)
    assert world.state(proposal) == JobState.READY_TO_COMMIT
    after = text(as_person(world.submitter).get(at(world, "approval", proposal)))
    assert f"<b>{taker.username}</b> for <b>{world.second.username}</b> approved" in after
    world.policy(quorum=2)
    assert "Today’s revision holds too: Two managers" in text(client.get(at(world, "approval", proposal)))


def run(*words: str) -> tuple[int, list[str]]:
    out = StringIO()
    try:
        call_command(*words, stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue().splitlines()
    return 0, out.getvalue().splitlines()


def test_policies_and_groups_are_handled_from_a_terminal(world: World, tmp_path: Path) -> None:
    slug, boss = world.tenant.slug, make_person(world.tenant, Role.ADMIN).username
    assert run("group", "make", slug, "controllers", "--as", boss)[1] == ["controllers is made, and empty."]
    add = ("group", "add", slug, "controllers", world.second.username, "--as", boss)
    assert [run(*add)[1] for _ in range(2)] == [
        [f"{world.second.username} is in controllers."], [f"{world.second.username} was in controllers already."]
    ]  # fmt: skip
    assert run("group", "list", slug)[1] == [f"controllers: {world.second.username}"]
    file = tmp_path / "rules.toml"
    file.write_text('[[levels]]\ngroup = "controllers"\n')
    change = ["  Signatures", "    - One manager signs.", "    + One manager of the group controllers signs.", "No proposal is open under it."]  # fmt: skip
    write = ("policy", "write", slug, "test-policy", str(file))
    assert run(*write) == (0, [*change, "Nothing was written. With --yes --as ADMIN it is."])
    done = run(*write, "--yes", "--as", boss, "--expected", "1")
    assert done == (0, [*change, "Revision 2 of test-policy is written and in force."])
    assert run(*write)[1] == ["Revision 2 of test-policy says this already."]
    assert run("policy", "compare", slug, "test-policy", "1") == (
        1,
        ["test-policy, revision 1 and 2:", *change[:3]],
    )
    assert run("policy", "compare", slug, "test-policy", "2", "2") == (
        0,
        ["test-policy, revision 2 and 2:", "  Both say the same."],
    )
    assert run("policy", "list", slug)[1] == ["test-policy, revision 2: One manager of the group controllers"]
    again = tmp_path / "again.toml"
    again.write_text("\n".join(run("policy", "show", slug, "test-policy", "--text")[1]))
    assert run("policy", "write", slug, "test-policy", str(again))[1] == [
        "Revision 2 of test-policy says this already."
    ]
    assert run("group", "remove", slug, "controllers", world.second.username, "--as", boss)[0] == 0
    assert "Warning: The group controllers is empty." in run("policy", "show", slug, "test-policy")[1]
    asked = ("policy", "simulate", slug, "--policy", "test-policy")
    code, lines = run(*asked, "--amount", "5.00", "EUR")
    assert (code, lines[0]) == (1, "One manager of the group controllers:")


def test_the_commands_refuse_with_a_sentence_and_write_nothing(world: World, tmp_path: Path) -> None:
    slug, boss = world.tenant.slug, make_person(world.tenant, Role.ADMIN).username
    file, broken = tmp_path / "rules.toml", tmp_path / "broken.toml"
    file.write_text("bulk = true")
    broken.write_text("[[levels]]\nquorum = 0\nfoo = 1")
    for words, said in (
        (("policy", "list", "nowhere"), "There is no organisation nowhere."),
        (("policy", "show", slug, "zoo"), "There is no policy zoo here."),
        (("policy", "show", slug, "test-policy", "--revision", "9"), "There is no revision 9"),
        (("policy", "write", slug, "test-policy", str(tmp_path / "none")), "cannot be read"),
        (("policy", "write", slug, "test-policy", str(broken)), "Line 2: levels.1.quorum has to be at least 1.\nLine 3"),
        (("policy", "write", slug, "test-policy", str(file), "--yes"), "Say with --as which admin"),
        (("policy", "write", slug, "test-policy", str(file), "--yes", "--as", world.manager.username), "Only an admin"),
        (("policy", "write", slug, "test-policy", str(file), "--expected", "7"), "Revision 1 of test-policy is in force, not 7"),
        (("policy", "simulate", slug), "Say --workflow, --policy or --draft."),
        (("policy", "simulate", slug, "--workflow", "zoo"), "There is no workflow zoo."),
        (("policy", "simulate", slug, "--policy", "test-policy", "--amount", "1e3", "EUR"), "as text with a point"),
        (("policy", "simulate", slug, "--policy", "test-policy", "--at", "noon"), "Write a day"),
        (("policy", "simulate", slug, "--policy", "test-policy", "--initiator", "zoe"), "nobody called zoe"),
        (("group", "make", slug, "g", "--as", world.manager.username), "Only an admin"),
        (("group", "add", slug, "g", "zoe", "--as", boss), "There is no group g"),
    ):  # fmt: skip
        with pytest.raises(CommandError) as refused:
            call_command(*words, stdout=StringIO())
        assert said in str(refused.value)
    with reading(world.tenant.pk):
        assert (Policy.objects.count(), Group.objects.count()) == (1, 0)
