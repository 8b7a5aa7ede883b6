"""The contract of a receiver: read by everybody, written by an admin, one deliberate step after its words."""

from __future__ import annotations

import pytest

from access.models import Tenant, TenantEntry
from access.roles import Role
from access.tenancy import reading
from console.links import link
from dispatch import contract_text
from dispatch.contracts import Contract
from dispatch.models import Receiver, ReceiverContract
from dispatch.presets import KEYED, PRESETS, Preset
from tests.console.support import as_person, make_receiver
from tests.support import make_person

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = '<img src=x onerror="alert(1)">'


def versions(tenant: Tenant, receiver: Receiver) -> list[tuple[int, str, str, str]]:
    with reading(tenant.pk):
        rows = ReceiverContract.objects.filter(receiver=receiver).order_by("version")
        return list(rows.values_list("version", "written_by", "source", "reason"))


def posted(text: str, do: str, *, expected: int = 1) -> dict[str, str]:
    return {
        "text": text,
        "source": "Handbook 3",
        "reason": "New edition",
        "expected": str(expected),
        "do": do,
    }


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda p: p.name)
def test_a_contract_survives_being_text(preset: Preset) -> None:
    assert contract_text.read(contract_text.write(preset.contract)) == preset.contract


def test_what_is_wrong_with_a_text_is_named_with_its_line() -> None:
    text = contract_text.write(KEYED.contract)
    for before, after, why in (
        ("retention = 86400", 'retention = "soon"', "Line 5: retention"),
        ("deduplicates = true", "dedupes = true", "dedupes"),
        ('key_name = "Idempotency-Key"', "", "A key has a place and a name"),
        ("[lookup]", "[lookup", "this is not TOML"),
    ):
        assert before in text
        found = contract_text.read(text.replace(before, after))
        assert not isinstance(found, Contract)
        assert why in " ".join(fault.words for fault in found), found


def test_what_would_change_names_defaults_and_whole_actions() -> None:
    before = KEYED.contract
    put = before.actions["update-vendor"].model_copy(update={"receipt_path": "number"})
    after = before.model_copy(
        update={"in_flight_max": 60.0, "actions": {"update-vendor": put}, "lookup": None}
    )
    found = {c.rule: c for c in contract_text.changes(before, after)}
    assert set(found) == {
        "in_flight_max", "actions.update-vendor", "actions.write-record", "actions.publish-policy", "lookup",
    }  # fmt: skip
    assert (found["in_flight_max"].before, found["in_flight_max"].after) == (("10",), ("60",))
    changed = found["actions.update-vendor"]
    assert (changed.before, changed.after) == (('receipt_path = "id"',), ('receipt_path = "number"',))
    assert found["lookup"].after == ()
    assert contract_text.changes(before, before) == []


def test_an_admin_goes_from_a_preset_over_its_words_to_a_version_with_a_reason(tenant: Tenant) -> None:
    receiver = make_receiver(tenant)
    admin = make_person(tenant, Role.ADMIN)
    browser = as_person(admin)
    page, write = (
        link(name, tenant.slug, receiver.pk) for name in ("receiver-contract", "receiver-contract-write")
    )
    start = browser.get(f"{write}?preset=square").content.decode()
    assert "A proposal, not a promise." in start
    assert "https://developer.squareup.com/" in start
    text = contract_text.write(PRESETS["square"].contract)
    preview = browser.post(write, posted(text, "preview")).content.decode()
    assert "A second person may choose to send again." in preview
    assert "Write version 2" in preview
    assert len(versions(tenant, receiver)) == 1
    assert browser.post(write, posted(text, "write")).headers["Location"] == page
    assert versions(tenant, receiver)[1:] == [(2, admin.username, "Handbook 3", "New edition")]
    shown = browser.get(page).content.decode()
    assert "New edition" in shown
    assert "unpublished" in shown
    assert (
        "After 24 h this receiver treats the key as new." in browser.get(f"{page}?version=1").content.decode()
    )
    with reading(tenant.pk):
        assert '"reason": "New edition"' in TenantEntry.objects.get(event="contract.written").evidence


def test_of_two_admins_at_once_the_second_is_told_and_loses_nothing(tenant: Tenant) -> None:
    receiver = make_receiver(tenant)
    first, second = (as_person(make_person(tenant, Role.ADMIN)) for _ in range(2))
    write = link("receiver-contract-write", tenant.slug, receiver.pk)
    text = contract_text.write(KEYED.contract)
    first.post(write, posted(text.replace("86400", "3600"), "write"))
    answer = second.post(write, posted(text.replace("86400", "7200"), "write"))
    html = answer.content.decode()
    assert answer.status_code == 409
    assert "Yours was not written." in html
    assert "retention = 7200" in html
    assert len(versions(tenant, receiver)) == 2
    assert second.post(write, posted(text.replace("86400", "7200"), "write", expected=2)).status_code == 302
    assert len(versions(tenant, receiver)) == 3


def test_what_cannot_be_and_who_may_not_changes_nothing(tenant: Tenant) -> None:
    receiver = make_receiver(tenant)
    operator = as_person(make_person(tenant, Role.OPERATOR))
    admin = as_person(make_person(tenant, Role.ADMIN))
    page, write = (
        link(name, tenant.slug, receiver.pk) for name in ("receiver-contract", "receiver-contract-write")
    )
    text = contract_text.write(KEYED.contract)
    assert operator.get(write).status_code == 403
    assert operator.post(write, posted(text, "write")).status_code == 403
    assert "Write another version" not in operator.get(page).content.decode()
    wrong = admin.post(write, posted(f"{HOSTILE}\n{text}", "write"))
    assert wrong.status_code == 422
    assert "this is not TOML" in wrong.content.decode()
    assert HOSTILE not in wrong.content.decode()
    assert admin.post(write, {**posted(text, "write"), "reason": " "}).status_code == 422
    gone = admin.post(write, posted(f'connector = "gone"\n{text}', "preview"))
    assert (gone.status_code, "There is no connector &quot;gone&quot; here." in gone.content.decode()) == (
        422,
        True,
    )
    same = admin.post(write, posted(text, "preview")).content.decode()
    assert "This says the same as version 1." in same
    assert "Write version 2" not in same
    assert admin.get(link("receiver-contract", tenant.slug, 10**9)).status_code == 404
    assert len(versions(tenant, receiver)) == 1
