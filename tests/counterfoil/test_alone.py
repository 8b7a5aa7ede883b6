"""The kit in a process that knows nothing of an installation: no settings, no database, no folder of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.generated import ROOT

SCRIPT = """
import socket, sys

def no_network(*_):
    raise AssertionError("the kit opens no connection")

socket.socket.connect = no_network
from counterfoil.testing import Kit, Receiver, Script
from tests.counterfoil.contracts import contract
from tests.counterfoil.workflows import Kind, sheets

ledger = Receiver("ledger", contract("keyed"), fates=["timeout but done"])
run = Kit(sheets).submit(
    {"reference": "S-1", "lines": ["A train"]}, provider=Script(Kind(kind="travel")), receivers=[ledger]
)
run.approve()
loaded = sorted(n for n in sys.modules if n.endswith(".models") and n.split(".")[0] in ROOMS)
print(run.state, loaded, "openai" in sys.modules)
"""


def test_a_run_needs_neither_settings_nor_a_database_nor_a_network(tmp_path: Path) -> None:
    rooms = ("access", "web", "workflows", "approvals", "dispatch", "statements", "reconciliation")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DJANGO", "COUNTERFOIL", "DATABASE"))}
    ended = subprocess.run(
        [sys.executable, "-c", f"ROOMS = {rooms!r}\n{SCRIPT}"],
        cwd=tmp_path,
        env={**clean, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip() == "CONFIRMED [] False"
    assert list(tmp_path.iterdir()) == [], "nothing is written"
