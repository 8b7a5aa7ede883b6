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
        "erp": _simulator("erp", addresses, var / "erp.sqlite3"),
        "index": _simulator("index", addresses, var / "index.sqlite3"),
        "provider": [
            *_simulator("provider", addresses, var / "provider.sqlite3"),
            "--script",
            script,
        ],
        "bureau": _simulator("bureau", addresses, var / "bureau.sqlite3"),
        "post": _simulator("post", addresses, var / "post.sqlite3"),
        "mail": [*_simulator("post", addresses, var / "post.sqlite3", socket="mail"), "--mail"],
        "web": [
            *(sys.executable, "-m", "gunicorn", "config.wsgi", "-w", "2", "--threads", "4"),
            *(
                "-b",
                f"fd://{addresses.sockets['web']}",
                "--graceful-timeout",
                "8",
                "--access-logfile",
                "-",
            ),
        ],
        "workers": [sys.executable, "manage.py", "qcluster"],
    }
    return [
        Service(name, command, addresses.environment(), lock, addresses.sockets.get(name))
        for name, command in commands.items()
    ]


def _simulator(name: str, addresses: Addresses, file: Path, *, socket: str = "") -> list[str]:
    listening = str(addresses.sockets[socket or name])
    return [
        *(sys.executable, "-m", f"examples.simulators.{name}"),
        *("--socket", listening, "--database", str(file)),
    ]
