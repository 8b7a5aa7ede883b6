"""What messages are delivered to in these tests: a real HTTP server that can be told how to answer, and a real mail
server that can be told whom to refuse."""

from __future__ import annotations

import email
import ssl
import threading
from dataclasses import dataclass, field
from email.message import Message as Letter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

SECRET = "whsec_" + "c2VjcmV0" * 6
OTHER_SECRET = "whsec_" + "b3RoZXJz" * 6


@dataclass
class Got:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: str

    def is_signed_with(self, secret: str) -> bool:
        try:
            Webhook(secret).verify(self.body, self.headers)
        except WebhookVerificationError:
            return False
        return True

    @property
    def webhook_id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Listener:
    """An HTTP server on a port of its own. `answers`: statuses in turn for a path, the last one for good.

    A path in `held` is answered only once `let_go` is set.
    """

    answers: dict[str, list[int]] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    let_go: threading.Event = field(default_factory=threading.Event)
    got: list[Got] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    def __post_init__(self) -> None:
        self.guard = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def at(self, path: str) -> list[Got]:
        return [g for g in self.got if g.path == path]

    def close(self) -> None:
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                headers = {k.lower(): v for k, v in self.headers.items()}
                with listener.guard:
                    listener.got.append(Got(self.path, headers, body))
                    listener.under_way += 1
                    listener.most_under_way = max(listener.most_under_way, listener.under_way)
                    statuses = listener.answers.get(self.path, [204])
                    status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
                if self.path in listener.held:
                    listener.let_go.wait(30)
                with listener.guard:
                    listener.under_way -= 1
                self.send_response(status)
                for name, value in listener.headers.get(self.path, {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *args: Any) -> None:
                pass

        return Handler


class _OnAnyPort(Controller):
    """On a port that the system chooses, which is known only once the server listens."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


class Mailbox:
    """A mail server on a port of its own. `says`: what it answers to RCPT for an address, in turn, the last for good."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, user: str = "", password: str = "") -> None:
        self.letters: list[Letter] = []
        self.recipients: list[str] = []
        self.asked: list[str] = []
        self.says: dict[str, list[str]] = {}
        self.says_to_data = "250 Taken"
        self.encrypted: list[bool] = []
        options: dict[str, Any] = {"auth_required": True} if user else {}
        if user:
            options["authenticator"] = lambda s, se, e, m, data: AuthResult(
                success=data == LoginPassword(user.encode(), password.encode()), handled=False
            )
        if tls is not None:
            options |= {"tls_context": tls, "require_starttls": True}
        self.controller = _OnAnyPort(self, hostname="127.0.0.1", port=0, ready_timeout=20, **options)

    def open(self) -> Mailbox:
        self.controller.start()
        return self

    @property
    def port(self) -> int:
        return int(self.controller.port)

    def close(self) -> None:
        """A repeat does nothing."""
        if self.controller.loop.is_running():
            self.controller.stop()

    async def handle_RCPT(  # noqa: N802 - the name is the library's
        self, server: Any, session: Any, envelope: Envelope, address: str, options: Any
    ) -> str:
        self.asked.append(address)
        answers = self.says.get(address, ["250 OK"])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(  # noqa: N802
        self, server: Any, session: Any, envelope: Envelope
    ) -> str:
        if self.says_to_data.startswith("250"):
            self.encrypted.append(session.ssl is not None)
            self.recipients += envelope.rcpt_tos
            self.letters.append(email.message_from_bytes(envelope.original_content or b""))
        return self.says_to_data
