"""One e-mail: plain text to one person, handed to the mail server once, and judged by what that server said of it.

What the server says for good of this recipient or this text (5xx) ends the message; what it says for now (4xx), and
everything that is wrong with the server itself (away, not trusted, sign-in refused, sender refused), is tried again.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import parseaddr
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import BadHeaderError, EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.core.validators import validate_email

from access.mail_servers import cut_off_after, in_one_line, told
from outbox.dispatcher.outcomes import Delivered, Later, Never, Outcome
from web.redaction import remember

SECONDS = 30.0
"""For the whole conversation with the server."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent to whom. `message_id` is the same at every try."""

    to: str
    subject: str
    text: str
    message_id: str


class Server(EmailBackend):
    """The installation's mail server, its password read from its file at this moment."""

    def __init__(self) -> None:
        super().__init__(password=_password(), timeout=settings.EMAIL_TIMEOUT)


def send(letter: Letter) -> Outcome:
    """Hand it over once. Raises nothing that a network or a mail server can do. The caller is outside any transaction."""
    if not settings.EMAIL_HOST:
        return Later("No mail server is set here: COUNTERFOIL_EMAIL_HOST is empty.")
    if not letter.to:
        return Never("This person has no e-mail address.")
    try:
        validate_email(letter.to)
        return _hand_over(_written(letter))
    except (ValidationError, BadHeaderError):
        return Never("What is written down as this person's e-mail address is none.")


def _written(letter: Letter) -> EmailMessage:
    return EmailMessage(
        subject=letter.subject,
        body=letter.text,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[letter.to],
        headers={"Message-ID": letter.message_id, "Auto-Submitted": "auto-generated"},
    )


def _hand_over(message: EmailMessage) -> Outcome:
    try:
        server = Server()
        with _open(server):
            server.send_messages([message])
    except smtplib.SMTPRecipientsRefused as refused:
        return _judged(*next(iter(refused.recipients.values())))
    except smtplib.SMTPSenderRefused as refused:
        return Later(f"The mail server refused the sender: {told(refused.smtp_code, refused.smtp_error)}")
    except smtplib.SMTPDataError as refused:
        return _judged(refused.smtp_code, refused.smtp_error)
    except smtplib.SMTPResponseException as refused:
        return Later(f"The mail server said: {told(refused.smtp_code, refused.smtp_error)}")
    except (OSError, smtplib.SMTPException, ssl.SSLError) as failed:
        return Later(f"The mail server cannot be used: {type(failed).__name__}: {in_one_line(str(failed))}")
    return Delivered("The mail server took it.")


@contextmanager
def _open(server: Server) -> Iterator[None]:
    """A conversation with the server, cut off when it takes too long. What goes wrong after the message does not count."""
    with cut_off_after(SECONDS, lambda: getattr(server.connection, "sock", None)):
        try:
            server.open()
            yield
        finally:
            with suppress(OSError, smtplib.SMTPException):
                server.close()


def _judged(code: int, said: bytes | str) -> Outcome:
    words = f"The mail server refused it: {told(code, said)}"
    return Never(words) if 500 <= code < 600 else Later(words)


def _password() -> str:
    """From the file, at each use, so that a new one needs no restart."""
    file = settings.COUNTERFOIL_EMAIL_PASSWORD_FILE
    if not file:
        return ""
    password = Path(file).read_text("utf-8").strip()
    remember(password)
    return password


def domain() -> str:
    """What stands after the @ of a Message-ID."""
    return parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"
