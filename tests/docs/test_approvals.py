"""Every example on the page about approvals: the policy is read, said in words, and asked who could approve."""

from __future__ import annotations

import re
import shlex
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from access.models import Absence, Delegation, Group, GroupMember
from access.roles import Role
from access.tenancy import acting
from approvals.policy_text import read
from approvals.ruleset import RuleSet
from approvals.telling import told
from tests.approvals.world import make_person
from tests.docs.generated import ROOT
from tests.support import make_tenant

BLOCK = re.compile(r"^```(toml|text|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples() -> list[tuple[str, str, str]]:
    """Policy, what is said of it, and what is asked of it with the answer; "" where it is asked nothing."""
    found: list[list[str]] = []
    for kind, content in BLOCK.findall((ROOT / "docs/approvals.md").read_text("utf-8")):
        if kind == "toml":
            found.append([content, "", ""])
        else:
            found[-1][1 if kind == "text" else 2] = content
    return [(policy, said, asked) for policy, said, asked in found]


def rules_of(policy: str) -> RuleSet:
    rules = read(policy)
    assert isinstance(rules, RuleSet), rules
    return rules


def test_every_example_is_a_policy_and_says_what_the_page_says() -> None:
    plain = {one.rule: one.sentences for one in told(RuleSet())}
    for policy, said, _ in examples():
        rules = rules_of(policy)
        differing = [one for one in told(rules) if rules == RuleSet() or plain.get(one.rule) != one.sentences]
        assert said == "".join(f"{one.rule}: {s}\n" for one in differing for s in one.sentences)


def test_every_rule_there_is_has_an_example() -> None:
    used = {name for policy, _, _ in examples() for name in rules_of(policy).model_fields_set}
    assert used | {"expires_after_minutes"} == set(RuleSet.model_fields)


@pytest.mark.django_db(transaction=True)
def test_every_answer_on_the_page_is_the_one_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    organisation()
    monkeypatch.chdir(tmp_path)
    asked = [(policy, lines) for policy, _, lines in examples() if lines]
    assert len(asked) > 3
    for policy, lines in asked:
        (tmp_path / "rules.toml").write_text(policy)
        command, _, answer = lines.partition("\n")
        words = shlex.split(command.removeprefix("$ manage.py "))
        given = StringIO()
        try:
            call_command(*words, stdout=given)
            code = 0
        except SystemExit as ended:
            code = ended.code
        assert given.getvalue() == answer
        assert code == ("could not complete" in answer)


def organisation() -> None:
    """The people of the page."""
    tenant = make_tenant("harrow-lyle")
    tenant.time_zone = "Europe/Berlin"
    tenant.save(update_fields=["time_zone"])
    people: dict[str, Any] = {
        h: make_person(tenant, Role.MANAGER, handle=h) for h in ("m.okafor", "p.quint", "j.lind")
    }
    make_person(tenant, Role.SUBMITTER, handle="s.varga")
    begins = datetime.fromisoformat("2030-04-01T00:00:00+02:00")
    span = {"tenant": tenant, "starts_at": begins, "ends_at": begins + timedelta(days=1)}
    with acting(tenant.pk):
        Group.objects.create(tenant=tenant, name="auditors")
        group = Group.objects.create(tenant=tenant, name="controllers")
        for handle in ("m.okafor", "p.quint"):
            GroupMember.objects.create(tenant=tenant, group=group, person=people[handle])
        Absence.objects.create(
            person=people["m.okafor"], noted_at=timezone.now(), noted_by="m.okafor", **span
        )
        Delegation.objects.create(
            giver=people["p.quint"],
            taker=people["j.lind"],
            reason="holiday",
            given_at=timezone.now(),
            given_by="p.quint",
            **span,
        )
