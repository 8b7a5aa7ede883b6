"""An exported decision proves by itself who approved which bytes; a changed one proves nothing."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from access.refusals import NotFound, NotPermitted
from access.roles import Role
from access.tenancy import reading
from approvals.actions.withdraw import withdraw_approval
from approvals.models import Decision
from approvals.proof.exporting import export_decision
from approvals.proof.signing import public_key, sign
from approvals.proof.verifying import NotAnExport, verify
from tests.approvals.world import World
from tests.support import make_person
from workflows.models import JournalEntry

ROOT = Path(__file__).resolve().parents[2]
ANOTHER = "11" * 32


def export(world: World, verdict: str = "approve") -> str:
    proposal = world.proposed()
    decided = world.decide(proposal, world.manager, verdict)
    auditor = make_person(world.tenant, Role.AUDITOR)
    return export_decision(
        tenant_id=world.tenant.pk,
        decision_id=decided.decision_id,
        person_id=auditor.pk,
        now=timezone.now(),
    )


def trusted() -> str:
    return public_key(settings.COUNTERFOIL_SIGNING_KEY)


def run(*arguments: str, secret: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own that could not reach any database."""
    environment = {**os.environ, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
    environment |= {"COUNTERFOIL_SIGNING_KEY": secret or settings.COUNTERFOIL_SIGNING_KEY}
    command = [sys.executable, "manage.py", "verify_decision", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_file_alone_says_who_approved_which_bytes_without_a_database(
    world: World, tmp_path: Path
) -> None:
    text = export(world)
    file = tmp_path / "decision.json"
    file.write_text(text, "utf-8")
    done = run(str(file), "--key", trusted())
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert [line.split(":")[0] for line in said[1:6]] == [
        "ok    Signature",
        "ok    Document",
        "ok    Operations",
        "ok    Journal",
        "ok    Decision",
    ]
    value = json.loads(text)
    assert said[-1].startswith(f"{world.manager.username} approved proposal {value['proposal']['label']}")
    assert value["proposal"]["digest"] in said[-1]
    file.write_text(text.replace(world.manager.username, world.second.username), "utf-8")
    lie = run(str(file), "--key", trusted())
    assert lie.returncode == 1
    assert "This file proves nothing" in lie.stderr
    assert "WRONG Signature" in lie.stdout
    value = json.loads(text)
    approved(value)["actor_name"] = "x\x1b[2J\x1b[Hok    Signature\nok    Decision\u202e"
    file.write_text(json.dumps(value), "utf-8")
    lie = run(str(file), "--key", trusted())
    assert lie.returncode == 1
    assert len(lie.stdout.splitlines()) == 6
    assert all(line.isprintable() for line in lie.stdout.splitlines())


def change(value: dict[str, Any], *path: str | int, to: Any) -> None:
    for step in path[:-1]:
        value = value[step]  # type: ignore[index]
    value[path[-1]] = to  # type: ignore[index]


def approved(value: dict[str, Any]) -> dict[str, Any]:
    """The journal's row that tells of the approval."""
    row: dict[str, Any] = next(r for r in value["journal"] if r["event"] == "proposal.approved")
    return row


def _other_body(value: dict[str, Any]) -> None:
    change(value, "operations", 0, "body", to=base64.b64encode(b'{"limit":"9999999.00"}').decode())


def _other_document(value: dict[str, Any]) -> None:
    document = value["proposal"]["document"].replace("4800.00", "9800.00")
    change(value, "proposal", "document", to=document)


def _other_evidence(value: dict[str, Any]) -> None:
    approved(value).update(actor_name="the.boss", actor_id=1)


def _a_row_less(value: dict[str, Any]) -> None:
    value["journal"] = [r for r in value["journal"] if r["event"] != "proposal.approved"]


LIES: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("Operations", _other_body),
    ("Operations", lambda v: change(v, "operations", 0, "target", to="http://evil.test/")),
    ("Operations", lambda v: v["operations"].clear()),
    ("Document", _other_document),
    ("Document", lambda v: change(v, "decision", "digest", to="0" * 64)),
    ("Journal", _other_evidence),
    ("Journal", _a_row_less),
    ("Journal", lambda v: v["journal"].clear()),
    ("Decision", lambda v: change(v, "decision", "person", "handle", to="the.boss")),
    ("Decision", lambda v: change(v, "decision", "on_behalf_of", to={"id": 1, "handle": "the.boss"})),
    ("Decision", lambda v: change(v, "decision", "verdict", to="reject")),
    ("Decision", lambda v: v["decision"].pop("verdict")),
    ("Journal", lambda v: change(v, "tenant", "id", to="1")),
    ("Journal", lambda v: change(v, "journal", 0, "actor_id", to="1")),
    ("Decision", lambda v: approved(v).update(evidence="[" * 100_000)),
    ("Decision", lambda v: approved(v).update(evidence="[]")),
]


def test_whatever_is_changed_is_found_even_if_it_is_signed_anew_with_the_right_key(world: World) -> None:
    text = export(world)
    for what, lie in LIES:
        value = json.loads(text)
        lie(value)
        wrong = [f.what for f in verify(json.dumps(value), trusted=trusted()).findings if not f.ok]
        assert "Signature" in wrong
        for name in ("key", "signature"):
            value.pop(name)
        again = sign(value, settings.COUNTERFOIL_SIGNING_KEY)
        found = verify(json.dumps(again), trusted=trusted())
        assert what in [f.what for f in found.findings if not f.ok]
        assert found.proves == ""


@pytest.mark.long
def test_a_secret_key_that_is_none_is_told_and_case_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "decision.json"
    file.write_text('{"format":"counterfoil.decision/1"}', "utf-8")
    broken, loud = run(str(file), secret="not a key"), run(str(file), secret=f" {'AB' * 32}\n")
    assert (broken.returncode, broken.stderr) == (
        1,
        "CommandError: COUNTERFOIL_SIGNING_KEY, or var/signing_key: A key is 64 hexadecimal digits.\n",
    )
    assert (loud.returncode, loud.stderr) == (1, "CommandError: This file proves nothing.\n")


def test_a_file_signed_with_another_key_proves_nothing(world: World) -> None:
    value = json.loads(export(world))
    for name in ("key", "signature"):
        value.pop(name)
    found = verify(json.dumps(sign(value, ANOTHER)), trusted=trusted())
    assert [f.what for f in found.findings if not f.ok] == ["Signature"]
    assert not found.ok


@pytest.mark.parametrize("text", ["", "[]", '{"format":"other"}', '{"a":1,"a":2}', "{" * 3000])
def test_what_is_no_export_is_told_from_one_that_lies(text: str) -> None:
    with pytest.raises(NotAnExport):
        verify(text, trusted=trusted())


def test_an_export_tells_what_became_of_the_decision_and_is_journalled(world: World) -> None:
    value = json.loads(export(world, verdict="reject"))
    assert (value["decision"]["verdict"], value["decision"]["reason"]) == ("reject", "because")
    assert value["journal"][-1]["event"] == "decision.exported"
    value = json.loads(export(world))
    with reading(world.tenant.pk):
        proposal_id = Decision.objects.get(pk=value["decision"]["id"]).proposal_id
    withdraw_approval(
        tenant_id=world.tenant.pk, proposal_id=proposal_id, person_id=world.manager.pk, now=timezone.now()
    )
    auditor = make_person(world.tenant, Role.AUDITOR)
    again = export_decision(
        tenant_id=world.tenant.pk,
        decision_id=value["decision"]["id"],
        person_id=auditor.pk,
        now=timezone.now(),
    )
    assert "It stopped counting" in verify(again, trusted=trusted()).proves


def test_only_who_may_look_over_decisions_takes_a_proof_out_and_of_its_own_tenant(world: World) -> None:
    proposal = world.proposed()
    decided = world.decide(proposal, world.manager)
    other = World.make()
    for tenant, person, refused in (
        (world, world.submitter, NotPermitted),
        (world, other.manager, NotPermitted),
        (other, other.manager, NotFound),
    ):
        with pytest.raises(refused):
            export_decision(
                tenant_id=tenant.tenant.pk,
                decision_id=decided.decision_id,
                person_id=person.pk,
                now=timezone.now(),
            )
    with reading(world.tenant.pk):
        assert Decision.objects.count() == 1
        assert not JournalEntry.objects.filter(event="decision.exported").exists()
