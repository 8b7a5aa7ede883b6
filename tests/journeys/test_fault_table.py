"""The table of faults: a few rows of it on the tests' database, and the whole of it as a command."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from config.var import PROJECT
from examples.demos.fault_table.faults import FAULTS
from examples.demos.fault_table.kinds import KINDS
from examples.demos.fault_table.running import stand_on
from examples.demos.telling import Teller
from examples.management.commands.faulttable import judge
from tests.dispatch.test_every_fault import told_in_the_docs

pytestmark = pytest.mark.processes


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_three_faults_come_to_what_each_contract_allows_and_a_lie_is_found(tmp_path: Path) -> None:
    """The fourth contract promises to know a repeated key, and its receiver does not: two effects, and the table says so."""
    named = {fault.name: fault for fault in FAULTS}
    keyed, _, _, lookup, later, neither = KINDS
    actions = {"actions": neither.contract.actions, "lookup": None}
    lying = replace(keyed, name="lying", contract=keyed.contract.model_copy(update=actions))
    with stand_on(os.environ["DATABASE_URL"], tmp_path, Teller(io.StringIO())) as stand:
        faults = [named[name] for name in ("closed-after", "429", "422")]
        cases = stand.play(faults, [keyed, lookup, later, neither, lying])
        rows = [stand.row(case) for case in cases]
    seen = {(r.kind, r.fault): (r.sent, r.state, r.effects, r.requests, r.broken) for r in rows}
    unknown, known, again = ("unknown",), ("unknown", "applied"), ("not applied", "applied")
    assert seen == {
        ("keyed", "closed-after"): (unknown, "CONFIRMED", 1, 1, ""),
        ("keyed", "429"): (again, "CONFIRMED", 1, 2, ""),
        ("keyed", "422"): (("refused",), "FAILED", 0, 1, ""),
        ("lookup", "closed-after"): (unknown, "CONFIRMED", 1, 1, ""),
        ("lookup", "429"): (again, "CONFIRMED", 1, 2, ""),
        ("lookup", "422"): (("refused",), "FAILED", 0, 1, ""),
        ("later", "closed-after"): (unknown, "CONFIRMED", 1, 1, ""),
        ("later", "429"): (("not applied", "pending"), "CONFIRMED", 1, 2, ""),
        ("later", "422"): (("refused",), "FAILED", 0, 1, ""),
        ("neither", "closed-after"): (unknown, "NEEDS_RECONCILIATION", 1, 1, ""),
        ("neither", "429"): (again, "CONFIRMED", 1, 2, ""),
        ("neither", "422"): (("refused",), "FAILED", 0, 1, ""),
        ("lying", "closed-after"): (known, "CONFIRMED", 2, 2, "there are 2 effects"),
        ("lying", "429"): (again, "CONFIRMED", 1, 2, ""),
        ("lying", "422"): (("refused",), "FAILED", 0, 1, ""),
    }
    with pytest.raises(
        CommandError, match="1 of 15 rows break a promise:\nlying, does it, then closes: there are 2 effects"
    ):
        judge(rows)
    judge([row for row in rows if row.kind != "lying"])


def test_every_status_that_the_docs_name_is_a_fault_of_the_table() -> None:
    """A class of statuses, such as 5xx, is there with some of its own."""
    faults = {int(fault.name[:3]) for fault in FAULTS if fault.name[:3].isdecimal()}
    assert [status for status in told_in_the_docs(classes=False) if status not in faults] == []
    assert {3, 5} <= {status // 100 for status in faults}


@pytest.mark.long
def test_every_fault_by_every_kind_of_contract_keeps_every_promise() -> None:
    command = [sys.executable, "manage.py", "faulttable", "--json"]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr[-6000:]
    rows = json.loads(ended.stdout)
    assert {(r["kind"], r["fault"]) for r in rows} == {(k.name, f.name) for k in KINDS for f in FAULTS}
    assert len(rows) == len(KINDS) * len(FAULTS)
    assert [r for r in rows if r["effects"] > 1 or r["broken"]] == []
    redirected = [r for r in rows if r["fault"].startswith("3")]
    assert len(redirected) == 7 * len(KINDS)
    # On a busy machine an answer may come too late to be one; then it is a lost answer.
    answered = [r for r in redirected if r["statuses"][0] is not None]
    assert len(answered) > 6 * len(KINDS)
    assert {(tuple(r["sent"]), r["requests"]) for r in answered} == {(("unknown",), 1)}
    offering_nothing = [r for r in rows if r["kind"] in ("old-key", "neither") and "unknown" in r["sent"]]
    assert len(offering_nothing) > 40
    assert {(tuple(r["sent"]), r["requests"]) for r in offering_nothing} == {(("unknown",), 1)}
