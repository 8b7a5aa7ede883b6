"""Which processes a run consists of."""

import sys
from pathlib import Path

from config.supervisor.addresses import Addresses
from config.supervisor.processes import Service
from config.var import var_directory


def services_of(addresses: Addresses, lock: int) -> list[Service]:
    var = var_directory()
    script = "examples/simulators/provider_script.json"
    commands = {
        "erp": _simulator("erp", addresses.erp, var / "erp.sqlite3"),
        "index": _simulator("index", addresses.index, var / "index.sqlite3"),
        "provider": [
            *_simulator("provider", addresses.provider, var / "provider.sqlite3"),
            "--script",
            script,
        ],
        "bureau": _simulator("bureau", addresses.bureau, var / "bureau.sqlite3"),
        "web": [
            *(sys.executable, "-m", "gunicorn", "config.wsgi", "-w", "2", "--threads", "4"),
            *(
                "-b",
                addresses.web.removeprefix("http://"),
                "--graceful-timeout",
                "8",
                "--access-logfile",
                "-",
            ),
        ],
        "workers": [sys.executable, "manage.py", "qcluster"],
    }
    return [Service(name, command, addresses.environment(), lock) for name, command in commands.items()]


def _simulator(name: str, address: str, file: Path) -> list[str]:
    port = address.rsplit(":", 1)[1]
    return [sys.executable, "-m", f"examples.simulators.{name}", "--port", port, "--database", str(file)]
