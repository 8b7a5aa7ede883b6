"""Where the web and the simulators listen."""

import json
import os
import socket
from dataclasses import dataclass

from config.supervisor.words import SetupFailed, say
from config.var import var_file


@dataclass(frozen=True)
class Addresses:
    web: str
    erp: str
    provider: str
    bureau: str
    index: str

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONUNBUFFERED": "1",
            "COUNTERFOIL_ERP_URL": self.erp,
            "COUNTERFOIL_PROVIDER_URL": self.provider,
            "COUNTERFOIL_BUREAU_URL": self.bureau,
            "COUNTERFOIL_INDEX_URL": self.index,
        }


def free_addresses() -> Addresses:
    """The ports of the last run where they are free: proposals that wait name the receiver's address in full."""
    remembered = _remembered_ports()
    web = int(os.environ.get("COUNTERFOIL_PORT", "8000"))
    wanted = (
        ("web", web),
        ("erp", remembered.get("erp", 8101)),
        ("provider", remembered.get("provider", 8102)),
        ("bureau", remembered.get("bureau", 8103)),
        ("index", remembered.get("index", 8104)),
    )
    found: dict[str, int] = {}
    for name, port in wanted:
        free = next((p for p in range(port, port + 100) if p not in found.values() and _is_free(p)), None)
        if free is None:
            raise SetupFailed(f"No port from {port} to {port + 99} is free for {name}: end what uses them.")
        if free != port:
            say(f"Port {port} is taken: {name} takes {free}.")
        found[name] = free
    var_file("run", "ports.json").write_text(json.dumps(found))
    return Addresses(**{name: f"http://127.0.0.1:{port}" for name, port in found.items()})


def _remembered_ports() -> dict[str, int]:
    try:
        ports: dict[str, int] = json.loads(var_file("run", "ports.json").read_text())
    except (OSError, ValueError):
        return {}
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one in TIME_WAIT is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
