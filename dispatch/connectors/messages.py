"""A mail as the bytes that are frozen: one recipient, plain text, nothing in it that changes from one render to the next.

Its text stands in it as it is (8bit, lines ended by LF), so that whoever approves can read what is sent: the CR of each line's
end is the wire's, as the dots are. It has no Date, which the mail server that takes it adds, and a Message-ID of the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import default
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from approvals.rendering import CannotRender

FIELDS = ("from", "to", "subject", "text", "reply_to")
LONGEST_LINE = 998
"""Bytes, by RFC 5321: a longer one may be broken by any server on the way."""

_POLICY = default.clone(cte_type="8bit", max_line_length=0, linesep="\n")


@dataclass(frozen=True, slots=True)
class Mail:
    """A frozen message with its envelope."""

    sender: str
    recipient: str
    content: bytes


def mail_of(content: Mapping[str, Any], key: str) -> Mail:
    """The mail that a draft's body, or its contract's mapping, describes. Raises CannotRender."""
    values = {name: _text(content, name) for name in FIELDS}
    if strange := sorted(set(content) - set(FIELDS)):
        raise CannotRender(f"A mail has no {strange[0]}; it has {', '.join(FIELDS)}.")
    sender, recipient = _address("from", values["from"]), _address("to", values["to"])
    message = EmailMessage(policy=_POLICY)
    try:
        message["From"], message["To"] = sender, recipient
        if values["reply_to"]:
            message["Reply-To"] = _address("reply_to", values["reply_to"])
        message["Subject"] = values["subject"]
        message["Message-ID"] = f"<{key}@{sender.rpartition('@')[2]}>"
        message.set_content(values["text"], cte="8bit")
    except (ValueError, UnicodeError) as wrong:
        raise CannotRender(f"This cannot be written as a mail: {wrong}.") from wrong
    return Mail(sender, recipient, _checked(message.as_bytes()))


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name, "" if name == "reply_to" else None)
    if not isinstance(value, str) or (not value.strip() and name != "reply_to"):
        raise CannotRender(f"A mail needs its {name} as text.")
    if "\x00" in value or (name != "text" and not value.isprintable()):
        raise CannotRender(f"The {name} of the mail has characters that a mail cannot hold.")
    return value


def _address(name: str, value: str) -> str:
    """One address, bare: two of them would be two effects under one key."""
    try:
        validate_email(value)
        value.encode("ascii")
    except (ValidationError, UnicodeEncodeError):
        raise CannotRender(f"The {name} of the mail is one address in ASCII; {value!r} is not.") from None
    return value


def _checked(content: bytes) -> bytes:
    if b"\r" in content:
        # Servers differ on where such a line ends, and so on where the mail does.
        raise CannotRender("The mail has a line end of its own kind in it.")
    for line in content.split(b"\n"):
        if len(line) > LONGEST_LINE:
            raise CannotRender(f"The mail has a line of more than {LONGEST_LINE} bytes; break it.")
    return content
