"""What a mail server can do to whoever talks with it: take its time, and say what no row can keep."""

from __future__ import annotations

import threading
from socket import socket, socketpair

from access.mail_servers import cut_off_after, in_one_line


def test_a_conversation_is_cut_off_although_it_had_no_connection_when_its_time_was_over() -> None:
    """As while TLS begins, when the plain socket is gone already and the other not there yet."""
    ours, theirs = socketpair()
    held: list[socket] = []
    came = threading.Event()

    def connection() -> socket | None:
        found = held[0] if held else None
        came.set()
        return found

    with ours, theirs, cut_off_after(0.01, connection):
        assert came.wait(10)
        held.append(ours)
        ours.settimeout(10)
        assert ours.recv(1) == b""


def test_what_a_server_says_is_one_line_of_characters_that_can_be_kept_and_shown() -> None:
    assert in_one_line(b"no\x00such\r\n\x1b[31muser \xff") == "no such [31muser \N{REPLACEMENT CHARACTER}"
