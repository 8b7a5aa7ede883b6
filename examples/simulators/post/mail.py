"""The mail server: as much of SMTP as a client needs to hand a letter over. It delivers nothing."""

import argparse
import os
import signal
import socket
import socketserver
from email import message_from_bytes, policy
from email.message import EmailMessage

from examples.simulators.post.kept import Kept

LARGEST = 1_000_000
LONGEST_LINE = 2000
MOST_RECIPIENTS = 100


class Conversation(socketserver.StreamRequestHandler):
    timeout = 60.0
    server: "MailServer"

    def handle(self) -> None:
        self._sender, self._recipients = "", list[str]()
        self._say("220 post office")
        try:
            while self._answer(self.rfile.readline(LONGEST_LINE)):
                pass
        except OSError:
            return  # the client has left

    def _answer(self, line: bytes) -> bool:
        """Whether the conversation goes on."""
        if not line:
            return False
        verb, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
        match verb.upper():
            case "EHLO" | "HELO":
                self._say("250 post office")
            case "MAIL":
                self._sender, self._recipients = _address(rest), []
                self._say("250 OK")
            case "RCPT" if self._sender and len(self._recipients) < MOST_RECIPIENTS:
                self._recipients.append(_address(rest))
                self._say("250 OK")
            case "DATA" if self._recipients:
                self._say("354 end with a dot")
                return self._take()
            case "RSET":
                self._sender, self._recipients = "", []
                self._say("250 OK")
            case "NOOP":
                self._say("250 OK")
            case "QUIT":
                self._say("221 bye")
                return False
            case "RCPT" | "DATA":
                self._say("503 not now")
            case _:
                self._say("502 not offered here")
        return True

    def _take(self) -> bool:
        content = bytearray()
        while (line := self.rfile.readline(LONGEST_LINE)) not in (b".\r\n", b".\n"):
            if not line:
                return False
            content += line[1:] if line.startswith(b"..") else line
            if len(content) > LARGEST:
                self._say("552 too large")
                return False
        letter = message_from_bytes(bytes(content), _class=EmailMessage, policy=policy.default)
        for recipient in self._recipients:
            self.server.kept.letter(
                sender=self._sender,
                recipient=recipient,
                subject=str(letter["Subject"] or ""),
                message_id=str(letter["Message-ID"] or ""),
                text=_text_of(letter),
            )
        self._say("250 taken")
        return True

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, where: argparse.Namespace, kept: Kept) -> None:
        self.kept = kept
        given = where.socket is not None
        super().__init__((where.host, where.port or 0), Conversation, bind_and_activate=not given)
        if given:
            self.socket.close()
            self.socket = socket.socket(fileno=where.socket)
        self.server_address = self.socket.getsockname()

    def run(self) -> None:
        """Until SIGTERM or SIGINT, which end the process at once: what was taken is on disk."""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda *_: os._exit(0))
        print(f"listening on smtp://{self.server_address[0]!s}:{self.server_address[1]}", flush=True)
        self.serve_forever()


def _address(words: str) -> str:
    """What stands between the angle brackets of `FROM:<a@b>`."""
    return words.partition("<")[2].partition(">")[0] or "unknown"


def _text_of(letter: EmailMessage) -> str:
    body = letter.get_body(("plain",))
    return "" if body is None else str(body.get_content())
