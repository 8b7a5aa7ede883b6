"""Mail over SMTP: the connector with neither key nor look-up. What a mail server has taken cannot be asked after.

Nothing of the message leaves before the mark. From there on the final dot decides: a server that never saw it may not
deliver, so what fails before is not applied; once it left, silence is doubt.
"""

from __future__ import annotations

import hashlib
import json
import smtplib
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from io import BufferedIOBase
from socket import create_connection, socket
from urllib.parse import urlsplit

from access.addresses import AddressRefused, check_url, resolve
from access.mail_servers import cut_off_after, in_one_line, told
from access.outbound import context_of
from approvals.rendering import CannotRender, FrozenRequest
from dispatch.bodies import content_of
from dispatch.classification import Outcome, Reading
from dispatch.connectors.messages import mail_of
from dispatch.connectors.seam import Credentials, Sending
from dispatch.contracts import Contract, KeyLocation
from dispatch.requests import BODY_LIMIT, Place, action_for, frozen, key_for
from dispatch.secrets import RECEIVERS
from dispatch.sent import Written
from dispatch.sights import Found, Sight
from dispatch.templates import values_of
from dispatch.wire import CERTIFICATE_UNUSABLE, Barrier, Exchange, NotBegun, Security
from workflows.authoring import OperationDraft

STARTTLS, IMPLICIT, CLEAR = "smtp", "smtps", "smtp+clear"
PORTS = {STARTTLS: 587, IMPLICIT: 465, CLEAR: 25}
LONGEST_REPLY = 100_000
DOT = "dot"
"""The phase after the final dot: the only one whose silence is doubt."""


class SmtpConnector:
    """`smtp://` demands STARTTLS, `smtps://` speaks TLS from the start, `smtp+clear://` is for a relay beside us."""

    schemes: tuple[str, ...] = (CLEAR, STARTTLS, IMPLICIT)
    calls_barrier = True

    def problems(self, contract: Contract) -> Iterable[str]:
        if contract.key_location is not KeyLocation.NONE or contract.lookup is not None:
            yield "A mail server takes no key and cannot be asked: the contract names neither."
        for name, action in contract.actions.items():
            if action.method != "SEND" or action.path != "/":
                yield f'actions.{name}: a mail is sent by the method SEND to the path "/".'
            if action.query or action.headers or action.precondition != "none" or action.body_as != "json":
                yield f"actions.{name}: of a mail the body alone is mapped."
        if contract.oauth is not None or contract.signing is not None:
            yield "A mail server is signed in to by user and password: the contract names no other way."

    def credentials(self, reference: str, contract: Contract) -> Credentials:
        secret = RECEIVERS.read(reference) if reference else ""
        authorities = contract.tls.authorities if contract.tls is not None else ""
        security = Security(authorities=RECEIVERS.path(authorities) if authorities else "")
        return Credentials(client_secret=secret, security=security)

    def render(
        self, draft: OperationDraft, contract: Contract, place: Place, key: str | None
    ) -> FrozenRequest:
        action = action_for(draft, contract, place)
        try:
            check_url(place.base_url, place.who, self.schemes)
        except AddressRefused as refused:
            raise CannotRender(f'The address of "{place.name}" is refused: {refused}') from refused
        key = key_for(contract, key)
        mail = mail_of(content_of(action, values_of(draft, place.account, key)), key)
        if len(mail.content) > BODY_LIMIT:
            raise CannotRender(f"The mail has {len(mail.content)} bytes; at most {BODY_LIMIT} are sent.")
        return frozen(
            draft,
            action,
            place,
            key,
            target=f"{place.base_url.rstrip('/')}/",
            headers={"Mail-From": mail.sender, "Rcpt-To": mail.recipient},
            body=mail.content,
        )

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        return _Delivery(sending, barrier).run()

    def read(self, seen: Exchange, sending: Sending, now: datetime) -> Reading:
        return reading_of(seen)

    def look_up(self, sending: Sending) -> Sight:
        return Sight(Found.UNCLEAR, "a mail server cannot be asked")


def reading_of(seen: Exchange) -> Reading:
    """What a conversation came to, by the phase in which it ended and what the server said there."""
    phase, code = seen.trace[-1] if seen.trace else "", seen.status
    said = f"{phase}: {seen.message}"[:300]
    if phase == DOT:
        return _after_the_dot(code, said)
    if phase == "content":
        return Reading(
            Outcome.NOT_APPLIED,
            f"the message was not complete when the connection broke: {seen.message}"[:300],
        )
    if seen.exception in ("AddressRefused", CERTIFICATE_UNUSABLE):
        return Reading(Outcome.OUR_FAULT, said, blocked=True)
    if code is None or 400 <= code < 500:
        certificate = seen.exception == "SSLCertVerificationError"
        return Reading(Outcome.NOT_SENT, said, blocked=certificate)
    if phase in ("recipient", "data"):
        return Reading(Outcome.REFUSED, said)
    return Reading(Outcome.NOT_SENT, said, blocked=True)


def _after_the_dot(code: int | None, said: str) -> Reading:
    if code == 250:
        return Reading(
            Outcome.APPLIED, "the mail server took it", receipt_id=said.removeprefix("dot: 250 ")[:200]
        )
    if code is not None and 500 <= code < 600:
        return Reading(Outcome.REFUSED, said)
    if code is not None and 400 <= code < 500:
        return Reading(Outcome.NOT_APPLIED, said)
    return Reading(Outcome.UNKNOWN, f"the whole message left, and no usable answer came: {said}"[:300])


class _Refused(Exception):
    """The server said no in one phase."""

    def __init__(self, code: int, said: bytes) -> None:
        super().__init__(told(code, said))
        self.code = code


@dataclass
class _Delivery:
    """One conversation. `phases`: how far it came."""

    sending: Sending
    barrier: Barrier
    phases: list[str] = field(default_factory=list)
    marked: bool = False
    complete: bool = False

    def run(self) -> Exchange:
        limit = self.sending.contract.timeouts.longest.total_seconds()
        server: _Server | None = None
        try:
            server = _Server(self.sending)
            with cut_off_after(limit, lambda: server.sock):
                self._prepare(server)
            with cut_off_after(limit, lambda: server.sock):
                code, said = self._hand_over(server)
            return self._seen(server, "", told(code, said), code)
        except _Refused as refused:
            return self._seen(server, "", str(refused), refused.code)
        except (OSError, ValueError, smtplib.SMTPException, AddressRefused, NotBegun) as failed:
            # After the dot only an answer that came counts: the client makes codes of its own for what it cannot read.
            answer = None if self.complete else getattr(failed, "smtp_code", None)
            return self._seen(server, type(failed).__name__, in_one_line(str(failed)), answer)
        finally:
            if server is not None:
                server.leave(politely=self.phases[-1:] not in (["mark"], ["content"]))

    def _prepare(self, server: _Server) -> None:
        """Everything up to the point where the message would begin. Nobody is sent anything by it."""
        with self._phase("connection"):
            server.begin()
        if self.sending.credentials.client_secret:
            with self._phase("sign-in"):
                if not server.is_private:
                    raise _Refused(554, b"no password is sent without TLS")
                server.login(self.sending.account, self.sending.credentials.client_secret)
        options = ["BODY=8BITMIME"] if server.has_extn("8bitmime") else []
        if not (options or self.sending.request.body.isascii()):
            with self._phase("sender"):
                raise _Refused(554, b"it takes ASCII only (no 8BITMIME), and the approved text is more")
        with self._phase("sender"):
            _expect(250, server.mail(self.sending.request.headers["Mail-From"], options))
        with self._phase("recipient"):
            _expect(250, server.rcpt(self.sending.request.headers["Rcpt-To"]))
        with self._phase("data"):
            _expect(354, server.docmd("data"))

    def _hand_over(self, server: _Server) -> tuple[int, bytes]:
        with self._phase("mark"):
            self.barrier()
        self.marked = True
        content = self.sending.request.body
        with self._phase("content"):
            server.send(_stuffed(content))
        with self._phase(DOT):
            self.complete = True
            server.send(b".\r\n")
            return server.getreply()

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self.phases.append(name)
        yield

    def _seen(self, server: _Server | None, exception: str, message: str, code: int | None) -> Exchange:
        return Exchange(
            marked=self.marked,
            trace=tuple(self.phases),
            exception=exception,
            message=message,
            status=code,
            written=self._written(server) if self.complete and server is not None else None,
        )

    def _written(self, server: _Server) -> Written:
        """What was handed to the connection, taken from the commands and the content as they were written to it."""
        headers = [["Mail-From", server.said_for("mail from:<")], ["Rcpt-To", server.said_for("rcpt to:<")]]
        head = {"method": "SEND", "target": f"{server.base_url.rstrip('/')}/", "headers": headers}
        content = _unstuffed(server.content)
        return Written(json.dumps(head), hashlib.sha256(content).hexdigest(), len(content))


class _Server(smtplib.SMTP):
    """The standard library's client, on a connection to a checked address, which keeps what it was given to write."""

    def __init__(self, sending: Sending) -> None:
        timeouts, security = sending.contract.timeouts, sending.credentials.security
        parts = urlsplit(sending.base_url)
        self.base_url, self._who, self._scheme = sending.base_url, security.who, parts.scheme
        self._name, self._at = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
        self._connect_within, self._context = timeouts.connect, context_of("", "", security.authorities)
        self.commands: list[str] = []
        self.file: _Ending | None  # the library's own name for what it reads from
        self.content = b""
        sender = sending.request.headers["Mail-From"].rpartition("@")[2]
        super().__init__(local_hostname=sender, timeout=max(timeouts.read, timeouts.write))
        self._host = self._name  # what the certificate is compared with
        check_url(sending.base_url, security.who, SmtpConnector.schemes)

    def begin(self) -> None:
        """Connect, greet, and speak TLS where the address says so. Raises _Refused."""
        _expect(220, self.connect(self._name, self._at))
        self.ehlo_or_helo_if_needed()
        if self._scheme == STARTTLS:
            if not self.has_extn("starttls"):
                raise _Refused(554, b"it offers no TLS, and nothing is sent without")
            self.starttls(context=self._context)
            self.ehlo_or_helo_if_needed()

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = _Ending(self.sock.makefile("rb"))
        if self.file is not None:
            self.file.begin()
        return super().getreply()

    @property
    def is_private(self) -> bool:
        return isinstance(self.sock, ssl.SSLSocket)

    def send(self, s: str | bytes) -> None:  # type: ignore[override]  # typed for buffers of every kind
        super().send(s)
        if isinstance(s, str):
            self.commands.append(s)
        else:
            self.content += s

    def said_for(self, command: str) -> str:
        """The address that stood in a command."""
        line = next((c for c in self.commands if c.lower().startswith(command)), "")
        return line[len(command) :].partition(">")[0]

    def leave(self, *, politely: bool) -> None:
        """The message is what it is by now: what goes wrong here does not count. In its middle a word of ours would be text."""
        with suppress(OSError, smtplib.SMTPException):
            if politely and self.sock is not None:
                self.sock.settimeout(1)
                self.quit()
        self.close()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket:
        connection = create_connection((resolve(host, port, self._who), port), self._connect_within)
        connection.settimeout(timeout)
        return (
            self._context.wrap_socket(connection, server_hostname=host)
            if self._scheme == IMPLICIT
            else connection
        )


class _Ending:
    """What a server says, up to a limit for each reply: one of many lines would otherwise be kept for as long as it came."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream, self._left = stream, LONGEST_REPLY

    def begin(self) -> None:
        """Another reply."""
        self._left = LONGEST_REPLY

    def readline(self, limit: int = -1) -> bytes:
        line = self._stream.readline(limit)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"a reply of more than {LONGEST_REPLY} bytes")
        return line

    def close(self) -> None:
        self._stream.close()


def _expect(code: int, answer: tuple[int, bytes]) -> None:
    if answer[0] != code and not (code == 250 and answer[0] == 251):
        raise _Refused(*answer)


def _stuffed(content: bytes) -> bytes:
    """The frozen lines as the wire has them: each ended by CRLF, and one that begins with a dot given another, so that
    none is taken for the end."""
    lines = content.removesuffix(b"\n").split(b"\n")
    return b"".join((b"." if line.startswith(b".") else b"") + line + b"\r\n" for line in lines)


def _unstuffed(written: bytes) -> bytes:
    """The frozen lines that these are."""
    lines = written.removesuffix(b".\r\n").removesuffix(b"\r\n").split(b"\r\n")
    return b"".join(line.removeprefix(b".") + b"\n" for line in lines)
