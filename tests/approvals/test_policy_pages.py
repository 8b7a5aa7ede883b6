"""The pages on policies: read by every role, written by admins, tried by anybody; and two admins at once."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from access.models import Person
from access.roles import Role
from access.tenancy import reading
from approvals.models import Policy
from tests.approvals.pages import HOSTILE, as_person, text
from tests.approvals.test_authority import group
from tests.approvals.world import World, make_person
from workflows import registry

pytestmark = pytest.mark.django_db(transaction=True)

READ = ("policies", "policy", "policy-compare", "policy-try", "groups", "absence")
WRITTEN = ("policy-new", "policy-write")


def url(world: World, name: str, *args: Any) -> str:
    if name in ("policy", "policy-compare", "policy-write") and not args:
        args = (newest(world).pk,)
    return reverse(name, args=[world.tenant.slug, *args])


def newest(world: World, name: str = "test-policy") -> Policy:
    with reading(world.tenant.pk):
        return Policy.objects.filter(name=name).latest("revision")


def admin(world: World) -> Person:
    return make_person(world.tenant, Role.ADMIN)


def fields_of(html: str) -> dict[str, str]:
    """What a browser would post of the page's form, as it stands."""
    at = html.index('name="expected"')
    form = html[html.rindex("<form", 0, at) : html.index("</form>", at)]
    posted = {"expected": re.search(r'name="expected" value="(\d*)"', html)[1]}  # type: ignore[index]
    for tag in re.findall(r"<input [^>]*>", form):
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and ('type="checkbox"' not in tag or " checked" in tag):
            posted[name[1]] = unescape(value[1]) if value else ("on" if "checkbox" in tag else "")
    for name, inner in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)" selected', inner)
        posted[name] = chosen[1] if chosen else ""
    for name, inner in re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL):
        posted[name] = unescape(inner)
    return posted


def test_every_role_reads_and_only_an_admin_writes(world: World) -> None:
    world.policy(quorum=2)
    for role in Role:
        client = as_person(make_person(world.tenant, role))
        assert {client.get(url(world, name)).status_code for name in READ} == {200}, role
        writes = {client.get(url(world, name)).status_code for name in WRITTEN}
        assert writes == ({200} if role is Role.ADMIN else {403}), role
        if role is not Role.ADMIN:
            given = {"do": "write", "way": "text", "text": "", "expected": "2"}
            assert client.post(url(world, "policy-write"), given).status_code == 403
    outsider = as_person(World.make().manager)
    assert {outsider.get(url(world, name)).status_code for name in (*READ, *WRITTEN)} == {404}
    assert newest(world).revision == 2


def test_another_tenants_policy_is_not_there_under_ones_own_address(world: World) -> None:
    other, theirs = World.make(), newest(world).pk
    boss = as_person(admin(other))
    for name in ("policy", "policy-compare", "policy-write"):
        assert boss.get(url(other, name, theirs)).status_code == 404
    given = {"do": "write", "way": "text", "text": "", "expected": "1"}
    assert boss.post(url(other, "policy-write", theirs), given).status_code == 404
    assert newest(world).revision == 1


def test_the_page_says_the_rules_the_revisions_and_what_is_gone(world: World) -> None:
    group(world, "controllers", world.second)
    world.policy(levels=[{}, {"group": "controllers", "quorum": 2}])
    client = as_person(world.submitter)
    page = text(client.get(url(world, "policy")))
    assert "First one manager, then two managers of the group controllers. Nobody signs twice." in page
    assert "Level 2 asks for 2, and 1 could sign there." in page
    assert "in 1 rule" in page
    with reading(world.tenant.pk):
        first = Policy.objects.get(name="test-policy", revision=1).pk
    old = text(client.get(url(world, "policy", first)))
    assert "This revision is no longer in force." in old
    listed = text(client.get(url(world, "policies")))
    assert "Two managers of the group controllers, after one manager" in listed
    assert "1 warning" in listed
    compared = text(client.get(url(world, "policy-compare")))
    assert "<del>One manager signs.</del>" in compared
    assert "<ins>First one manager, then two managers" in compared
    assert client.get(url(world, "policy-compare") + "?with=9").status_code == 404


def test_a_policy_that_nobody_wrote_is_named_on_the_list(world: World, settings: Any) -> None:
    settings.COUNTERFOIL_WORKFLOWS = ["examples.vendor_onboarding"]
    registry.workflows.cache_clear()
    assert "There is no policy vendor-records in force." in text(
        as_person(admin(world)).get(url(world, "policies"))
    )


def test_an_admin_changes_the_form_looks_and_writes(world: World) -> None:
    proposal, client = world.proposed(), as_person(admin(world))
    address = url(world, "policy-write")
    posted = fields_of(text(client.get(address)))
    posted |= {
        "levels-0-quorum": "2",
        "limits-0-amount": "9000.00",
        "limits-0-currency": "EUR",
        "do": "add:levels",
    }
    grown = fields_of(text(client.post(address, posted)))
    assert (grown["levels-TOTAL_FORMS"], grown["limits-0-amount"]) == ("3", "9000.00")
    looked = client.post(address, {**grown, "do": "preview"})
    html = text(looked)
    assert looked.status_code == 200
    for said in ("<del>One manager signs.</del>", "<ins>Two managers sign.</ins>",
                 "Of 1 open proposal, 1 would need more signatures.", proposal.label, "up to 9,000.00 EUR"):  # fmt: skip
        assert said in html
    assert newest(world).revision == 1
    response = client.post(address, {**fields_of(html), "do": "write"})
    assert (response.status_code, response["Location"]) == (302, url(world, "policy"))
    made = newest(world)
    assert (made.revision, made.ruleset.quorum, str(made.ruleset.limits[0].amount)) == (2, 2, "9000.00")
    again = text(
        client.post(
            url(world, "policy-write"),
            {**fields_of(text(client.get(url(world, "policy-write")))), "do": "preview"},
        )
    )
    assert "This says the same as revision 2." in again
    assert 'value="write"' not in again


def test_a_form_and_a_text_say_the_same(world: World) -> None:
    rules = {
        "levels": [{"quorum": 1}, {"name": "second", "role": "operator"}],
        "limits": [{"person": world.manager.username, "amount": "5.00", "currency": "EUR"}],
        "rates": {"USD/EUR": "0.92"},
        "sums": [{"per": "recipient", "days": 30, "amount": "9.00", "currency": "EUR"}],
        "expires_days": 1,
        "expires_at": "17:00",
        "reauthenticate": "above",
        "reauthenticate_above": {"amount": "10.00", "currency": "EUR"},
        "reminders": [{"days": 0, "at": "09:00"}],
        "escalation": [{"after_minutes": 60, "role": "manager", "may_decide": True}],
        "bulk": True,
    }
    before = world.policy(**rules).ruleset
    client, address = as_person(admin(world)), url(world, "policy-write")
    as_text = fields_of(text(client.post(address, {**fields_of(text(client.get(address))), "do": "text"})))
    assert as_text["way"] == "text"
    as_form = fields_of(text(client.post(address, {**as_text, "do": "form"})))
    looked = fields_of(text(client.post(address, {**as_form, "do": "preview", "bulk": ""})))
    client.post(address, {**looked, "do": "write"})
    assert newest(world).ruleset == before.model_copy(update={"bulk": False})


def test_the_largest_policy_can_be_changed_in_the_form(world: World) -> None:
    world.policy(limits=[{"workflow": f"w{n}", "amount": "5.00", "currency": "EUR"} for n in range(200)])
    client = as_person(admin(world))
    posted = fields_of(client.get(url(world, "policy-write")).content.decode())
    seen = client.post(url(world, "policy-write"), {**posted, "expires_after_minutes": "60", "do": "preview"})
    assert seen.status_code == 200
    assert "It expires one hour after it is asked." in text(seen)


def test_what_is_wrong_is_said_where_it_is_and_nothing_is_lost(world: World) -> None:
    client, address = as_person(admin(world)), url(world, "policy-write")
    posted = fields_of(text(client.get(address)))
    wrong = {
        "levels-1-quorum": "0", "levels-0-quorum": "", "limits-0-amount": "1e3", "limits-0-person": "<b>who",
        "expires_days": "1", "do": "preview",
    }  # fmt: skip
    answer = client.post(address, {**posted, **wrong})
    html = text(answer)
    assert answer.status_code == 422
    for said in (
        "Has to be at least 1.",
        "as text with a point",
        "Is missing; give it.",
        'value="&lt;b&gt;who"',
    ):
        assert said in html, said
    for given, said in (
        ("quorum = ", "Line 1: this is not TOML"),
        ("[[levels]]\ngroup = 'nobodies'", "There is no group &quot;nobodies&quot; in this organisation. Make it first."),
        ("[[limits]]\nperson = 'zoe'\namount = '1.00'\ncurrency = 'EUR'", "There is nobody called &quot;zoe&quot;"),
        ("[[levels]]\ngroup = \"a\\u0000b\"", "is not one line of text"),
        (f"[[levels]]\nname = \"{HOSTILE}\"", "is not one line of text"),
    ):  # fmt: skip
        answer = client.post(address, {"way": "text", "text": given, "expected": "1", "do": "write"})
        assert answer.status_code == 422
        assert said in text(answer)
    assert newest(world).revision == 1


def test_of_two_admins_the_second_is_told_and_keeps_what_they_wrote(world: World) -> None:
    first, second = admin(world), as_person(admin(world))
    address = url(world, "policy-write")
    looked = fields_of(text(second.get(address)))
    as_person(first).post(address, {"way": "text", "text": "bulk = true", "expected": "1", "do": "write"})
    for do in ("preview", "write"):
        answer = second.post(address, {**looked, "levels-0-quorum": "2", "do": do})
        html = text(answer)
        assert answer.status_code == 409
        assert f"{first.username} was first" in html
        assert "<ins>It may be approved together with others.</ins>" in html
        assert "<ins>Two managers sign.</ins>" in html
    assert newest(world).revision == 2
    on = fields_of(text(second.post(url(world, "policy-write"), {**fields_of(html), "do": "form"})))
    assert (on["expected"], on["levels-0-quorum"]) == ("2", "2")


def test_a_first_policy_gets_a_name_once(world: World) -> None:
    client, address = as_person(admin(world)), url(world, "policy-new")
    posted = fields_of(text(client.get(address)))
    for name, said in (
        ("", "Give the policy a name"),
        ("a\0b", "Give the policy a name"),
        ("test-policy", "already"),
    ):
        answer = client.post(address, {**posted, "name": name, "do": "preview"})
        assert (answer.status_code, said in text(answer)) == (422, True)
    looked = client.post(address, {**posted, "name": "letters & more/now", "do": "preview"})
    assert client.post(address, {**fields_of(text(looked)), "do": "write"}).status_code == 302
    assert newest(world, "letters & more/now").revision == 1


def test_anybody_asks_who_could_approve_and_a_draft_answers_too(world: World) -> None:
    world.policy(limits=[{"amount": "5000.00", "currency": "EUR"}])
    client, address = as_person(world.submitter), url(world, "policy-try")
    asked = {
        "policy": "test-policy",
        "amount": "4800.00",
        "currency": "eur",
        "initiator": world.manager.username,
    }
    html = text(client.get(address, asked))
    assert "could sign" in html
    assert "You started this job" in html
    for changes, said in (
        ({"amount": "5000.01"}, "above the limit of 5,000.00 EUR"),
        ({"currency": "USD"}, "never compared without a rate"),
    ):
        assert said in text(client.get(address, {**asked, **changes}))
    draft = {**asked, "text": "[[limits]]\namount = 1\ncurrency = 'EUR'"}
    assert client.post(address, draft).status_code == 422
    html = text(client.post(address, {**draft, "text": "[[limits]]\namount = 1.00\ncurrency = 'EUR'"}))
    assert "above the limit of 1.00 EUR" in html
    assert "Go on writing it…" not in html
    boss = as_person(admin(world))
    on = fields_of(text(boss.post(address, {**draft, "text": "quorum = 2"})))
    assert (on["way"], on["text"], on["expected"]) == ("text", "quorum = 2", "2")
    for changes in (
        {"policy": "nowhere"}, {"amount": "1e9"}, {"amount": ""}, {"currency": "€"}, {"at": "yesterday"},
        {"at": "2020-01-01"}, {"initiator": "zoe"}, {"policy": "a\0b"}, {"at": "9999-12-31"},
    ):  # fmt: skip
        assert client.get(address, {**asked, **changes}).status_code == 422, changes
    assert newest(world).revision == 2


@pytest.mark.parametrize("number", [1, 3])
def test_the_list_costs_the_same_at_one_and_three_policies(
    world: World, number: int, django_assert_num_queries: Any
) -> None:
    for n in range(1, number):
        from django.utils import timezone

        from access.roles import WORKER
        from approvals.policies import read_rules, write_policy

        write_policy(
            tenant_id=world.tenant.pk,
            name=f"p-{n}",
            rules=read_rules({}),
            created_by=WORKER,
            now=timezone.now(),
        )
    client = as_person(world.manager)
    client.get(url(world, "policies"))
    with django_assert_num_queries(16):
        client.get(url(world, "policies"))
