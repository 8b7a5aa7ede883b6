"""A mail server that is nothing but a socket: it speaks SMTP up to a chosen phase, and there does its worst."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from tests.dispatch.faults import Behaviour

EXTENSIONS = ("8BITMIME", "SIZE 10000000")
_PHASES = {
    b"ehlo": "hello", b"mail": "sender", b"rcpt": "recipient", b"data": "data", b"auth": "sign-in", b"quit": "quit",
}  # fmt: skip


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def mail_server(
    extensions: tuple[str, ...] = EXTENSIONS, **says: str | Callable[[socket.socket], None]
) -> Behaviour:
    """A whole conversation. `says`: by phase another answer than yes, or what is done to the connection there.

    Phases: greeting, hello, sender, recipient, data, content (as its first bytes come), dot. Everything that came is
    returned, the message among it.
    """

    def serve(connection: socket.socket) -> bytes:
        kept = bytearray()

        def answer(phase: str, otherwise: str) -> None:
            told = says.get(phase, otherwise)
            if callable(told):
                told(connection)
            else:
                connection.sendall(told.encode() + b"\r\n")

        answer("greeting", "220 ready")
        buffer = b""
        while True:
            while b"\r\n" not in buffer:
                chunk = connection.recv(65536)
                if not chunk:
                    return bytes(kept)
                buffer += chunk
                kept += chunk
            line, _, buffer = buffer.partition(b"\r\n")
            phase = _PHASES.get(line[:4].lower(), "other")
            lines = ["mail.example", *extensions]
            hello = "\r\n".join(
                f"250{'-' if n + 1 < len(lines) else ' '}{one}" for n, one in enumerate(lines)
            )
            answer(phase, {"hello": hello, "data": "354 go on", "quit": "221 bye"}.get(phase, "250 OK"))
            if phase == "quit":
                return bytes(kept)
            if phase == "data" and str(says.get("data", "354")).startswith("354"):
                if "content" in says:
                    connection.recv(10)
                    answer("content", "")
                while b"\r\n.\r\n" not in buffer:
                    chunk = connection.recv(65536)
                    if not chunk:
                        return bytes(kept)
                    buffer += chunk
                    kept += chunk
                buffer = b""
                answer("dot", "250 2.0.0 Ok: queued as 4F2A")

    return serve
