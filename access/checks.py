"""What `manage.py check` says of this room's settings; a process with an error does not start."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from access.addresses import faults_of_entries


def internal_receivers(**_: Any) -> list[CheckMessage]:
    """Each entry names for whom it is: one without a name would open an address to every organisation."""
    faults = faults_of_entries(settings.COUNTERFOIL_INTERNAL_RECEIVERS)
    return [Error(f"COUNTERFOIL_INTERNAL_RECEIVERS: {fault}", id="access.E001") for fault in faults]
