"""What others do at the simulated ERP while a job is under way."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from examples.simulators.client import ErpControl


def somebody_else_writes(erp: ErpControl, **fields: Any) -> None:
    """Change vendor V-30417, as none of our sends."""
    request = urllib.request.Request(
        f"{erp.base_url}/neither/vendors/V-30417",
        data=json.dumps(fields).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200
