"""`manage.py check_receiver` against the simulated ERP, a process of its own: each contract kept, and a lie found out."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from access.models import TenantEntry
from access.tenancy import reading
from dispatch.actions.receivers import pause_receiver
from dispatch.contracts import Action, Contract, KeyLocation
from dispatch.models import Receiver
from dispatch.presets import PRESETS
from examples.simulators.client import ErpControl, Running, start_erp
from tests.dispatch.world import Dispatching

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
REFUSED = '{"amount": 5}'


@pytest.fixture(scope="module")
def erp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    database: Path = tmp_path_factory.mktemp("erp") / "erp.sqlite3"
    with start_erp(database=database) as running:
        yield running


def sandbox(preset: str, at: str = "", **changes: Any) -> Contract:
    """A preset as the sandbox's own contract; `at`: where its requests really go."""
    contract = PRESETS[preset].contract
    write: Action = contract.actions["write-record"]
    moved = write.model_copy(update={"path": write.path.replace(f"/{preset}/", f"/{at or preset}/")})
    return contract.model_copy(update={"actions": {"write": moved}, "sandbox": True, **changes})


def check(d: Dispatching, *more: str) -> tuple[list[list[str]], str]:
    """The findings as [name, verdict], and everything that was said, the refusal included."""
    said = StringIO()
    arguments = [
        d.world.tenant.slug,
        "erp",
        "--as",
        d.admin.username,
        "--refused-body",
        REFUSED,
        "--yes",
        *more,
    ]
    try:
        call_command("check_receiver", *arguments, stdout=said)
        ended = ""
    except CommandError as differs:
        ended = str(differs)
    table = said.getvalue().partition("seen\n")[2]
    found = [[cell.strip() for cell in line.split("  ") if cell][:2] for line in table.splitlines()]
    return found, said.getvalue() + ended


@pytest.mark.parametrize(
    ("preset", "names", "effects"),
    [
        (
            "keyed",
            [
                "First send", "Look-up of what is there", "Look-up of what is not there", "Same key, same bytes",
                "Mark of a repeat", "Same key, other bytes", "Same key at once", "Errors under a key",
            ],
            3,
        ),
        (
            "lookup",
            ["First send", "Look-up of what is there", "Look-up of what is not there", "Same key, same bytes"],
            2,
        ),
        ("neither", ["First send", "Same key, same bytes"], 2),
    ],
)  # fmt: skip
def test_a_receiver_that_keeps_its_contract_is_found_to(
    erp: Running, preset: str, names: list[str], effects: int
) -> None:
    d, control = Dispatching.make(erp.base_url, sandbox(preset)), ErpControl(erp.base_url)
    before = len(control.effects())
    found, said = check(d)
    assert [name for name, verdict in found if verdict == "as promised"] == names
    assert [name for name, verdict in found if verdict == "differs"] == []
    assert len(control.effects()) - before == effects
    assert said.index("this is sent:") < said.index("First send")
    with reading(d.tenant_id):
        kept = TenantEntry.objects.get(event="receiver.checked")
    assert all(e["operation_key"] in kept.evidence for e in control.effects()[before:] if e["operation_key"])


def test_a_receiver_that_promises_keys_and_keeps_none_is_found_out(erp: Running) -> None:
    d = Dispatching.make(erp.base_url, sandbox("keyed", at="neither"))
    found, said = check(d)
    assert [name for name, verdict in found if verdict == "differs"] == [
        "Look-up of what is there", "Same key, same bytes", "Mark of a repeat", "Same key, other bytes",
        "Same key at once",
    ]  # fmt: skip
    assert "differs from version" in said
    assert "in 5 of 8 points." in said


def test_what_a_contract_does_not_name_is_a_difference_too(erp: Running) -> None:
    silent = sandbox("keyed", mismatch_signals=(), replay_header="", caches_errors="all")
    found, said = check(Dispatching.make(erp.base_url, silent))
    assert [name for name, verdict in found if verdict == "differs"] == [
        "Mark of a repeat", "Same key, other bytes", "Errors under a key",
    ]  # fmt: skip
    assert "answered 422, which the contract does not name as a mismatch" in said
    assert "idempotent-replayed" in said


def test_a_receiver_that_does_more_than_it_says_is_told_apart(erp: Running) -> None:
    modest = sandbox("keyed", deduplicates=False, retention="none", automatic_resubmissions=0)
    found, said = check(Dispatching.make(erp.base_url, modest))
    assert ["Same key, same bytes", "differs"] in found
    assert "one effect" in said
    nameless = sandbox("neither", at="keyed", key_location=KeyLocation.NONE)
    assert check(Dispatching.make(erp.base_url, nameless))[0] == [["First send", "differs"]]


def test_nothing_is_sent_to_what_is_no_sandbox_is_paused_or_not_agreed_to(
    erp: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = ErpControl(erp.base_url)
    before = len(control.effects())
    d = Dispatching.make(erp.base_url, sandbox("neither", sandbox=False))
    assert "does not say that it is a sandbox" in check(d)[1]
    monkeypatch.setattr("builtins.input", lambda _: "no")
    asked = [d.world.tenant.slug, "erp", "--as", d.admin.username, "--is-sandbox"]
    with pytest.raises(CommandError, match=r"Nothing was sent\."):
        call_command("check_receiver", *asked, stdout=StringIO())
    with reading(d.tenant_id):
        receiver_id = Receiver.objects.get().pk
        assert not TenantEntry.objects.filter(event="receiver.checked").exists()
    pause_receiver(
        tenant_id=d.tenant_id,
        receiver_id=receiver_id,
        person_id=d.admin.pk,
        reason="storm",
        now=timezone.now(),
    )
    assert "is paused by" in check(d, "--is-sandbox")[1]
    assert len(control.effects()) == before


def test_a_check_that_cannot_go_on_says_so_and_blames_nobody(erp: Running) -> None:
    nobody = Dispatching.make("http://127.0.0.1:9", sandbox("keyed"))
    assert check(nobody)[0] == []
    assert "The check was broken off: no connection" in check(nobody)[1]
    control = ErpControl(erp.base_url)
    control.set_fault("accepted_202")
    found, _ = check(Dispatching.make(erp.base_url, sandbox("lookup")))
    control.clear_faults()
    assert found[0] == ["First send", "as promised"]
    assert ["Look-up of what is there", "differs"] not in found
