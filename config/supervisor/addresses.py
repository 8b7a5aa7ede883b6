"""Where the web and the simulators listen: on sockets that this process opens and keeps, and its services inherit.

So nobody can take a port between its being chosen and its service's start, or while a service is started again: what is
sent meanwhile waits in the kernel.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from config.secret import sample_callback_secret, sample_webhook_secret
from config.supervisor.words import SetupFailed, say
from config.var import var_file


@dataclass(frozen=True)
class Addresses:
    web: str
    erp: str
    provider: str
    bureau: str
    index: str
    post: str
    mail_port: int
    sockets: dict[str, int]
    """The descriptor of each by name."""

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONUNBUFFERED": "1",
            "COUNTERFOIL_ERP_URL": self.erp,
            "COUNTERFOIL_PROVIDER_URL": self.provider,
            "COUNTERFOIL_BUREAU_URL": self.bureau,
            "COUNTERFOIL_INDEX_URL": self.index,
            "COUNTERFOIL_POST_URL": self.post,
            # All that is sent to here runs on this machine, and so do a newcomer's own receivers.
            "COUNTERFOIL_INTERNAL_RECEIVERS": os.environ.get(
                "COUNTERFOIL_INTERNAL_RECEIVERS", "*=127.0.0.1,*=localhost"
            ),
            **self._telling(),
        }

    def _telling(self) -> dict[str, str]:
        """Where links lead, and the simulated mail server unless another one was named."""
        found = {"COUNTERFOIL_URL": os.environ.get("COUNTERFOIL_URL", self.web)}
        if not os.environ.get("COUNTERFOIL_EMAIL_HOST"):
            found |= {
                "COUNTERFOIL_EMAIL_HOST": "127.0.0.1",
                "COUNTERFOIL_EMAIL_PORT": str(self.mail_port),
                "COUNTERFOIL_EMAIL_TLS": "none",
                "COUNTERFOIL_EMAIL_USER": "",
            }
        return found | {
            "COUNTERFOIL_WEBHOOK_SAMPLE": sample_webhook_secret(),
            "COUNTERFOIL_RECEIVER_ERP_CALLBACKS": sample_callback_secret(),
        }


@contextmanager
def addresses_taken() -> Iterator[Addresses]:
    """The ports of the last run where they are free: proposals that wait name the receiver's address in full."""
    remembered = _remembered_ports()
    wanted = {
        "web": int(os.environ.get("COUNTERFOIL_PORT", "8000")),
        "erp": remembered.get("erp", 8101),
        "provider": remembered.get("provider", 8102),
        "bureau": remembered.get("bureau", 8103),
        "index": remembered.get("index", 8104),
        "post": remembered.get("post", 8105),
        "mail": remembered.get("mail", 8106),
    }
    with ExitStack() as held:
        taken = {name: held.enter_context(_listening(name, port)) for name, port in wanted.items()}
        ports = {name: one.getsockname()[1] for name, one in taken.items()}
        var_file("run", "ports.json").write_text(json.dumps(ports))
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items() if name != "mail"}
        yield Addresses(
            **urls, mail_port=ports["mail"], sockets={name: one.fileno() for name, one in taken.items()}
        )


def _remembered_ports() -> dict[str, int]:
    try:
        ports: dict[str, int] = json.loads(var_file("run", "ports.json").read_text())
    except (OSError, ValueError):
        return {}
    return ports


def _listening(name: str, port: int) -> socket.socket:
    for candidate in range(port, port + 100):
        try:
            # It listens at once: until then somebody else could still take the same port.
            opened = socket.create_server(("127.0.0.1", candidate), backlog=256)
        except OSError:
            continue
        if candidate != port:
            say(f"Port {port} is taken: {name} takes {candidate}.")
        return opened
    raise SetupFailed(f"No port from {port} to {port + 99} is free for {name}: end what uses them.")
