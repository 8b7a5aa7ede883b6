"""The server of both simulators: HTTP/1.1, a thread a connection, and sockets that can be closed on purpose."""

import argparse
import os
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

from examples.simulators.wire import Answer, Hangup, Incoming, Refused, Reply, problem

DRAIN_LIMIT = 64 * 1024 * 1024
DRAIN_SECONDS = 2.0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 600.0
    server: "Server"

    def serve(self) -> None:
        try:
            request = Incoming(self)
        except ValueError:
            self.send_error(400, "The request target cannot be read.")
            return
        reply = self._reply_to(request)
        try:
            self._send(reply, drained=request.body_was_read or not self._has_body())
        except OSError:
            self.close_connection = True  # the client has left; what was done stays done

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815  (the names http.server looks for)

    def _reply_to(self, request: Incoming) -> Reply:
        try:
            return self.server.application(request)
        except Refused as refusal:
            return refusal.reply
        except Exception:
            traceback.print_exc(file=sys.stderr)
            return problem(500, "simulator_error", "The simulator itself failed; its stderr says how.")

    def _has_body(self) -> bool:
        return (
            "Transfer-Encoding" in self.headers or str(self.headers.get("Content-Length", "0")).strip() != "0"
        )

    def _send(self, reply: Reply, *, drained: bool) -> None:
        if isinstance(reply, Hangup):
            self.close_connection = True
            if reply.reset:
                self._reset()
            return
        self._write(reply, close=not drained)
        if not drained:
            self._close_without_losing_the_answer()

    def _write(self, answer: Answer, *, close: bool) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if close:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    def _reset(self) -> None:
        # Detached first: an orderly shutdown by socketserver would send FIN before the reset.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def _close_without_losing_the_answer(self) -> None:
        # Closing over unread bytes makes the kernel reset the connection, and the client may lose the answer.
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(DRAIN_SECONDS)
        deadline, seen = time.monotonic() + DRAIN_SECONDS, 0
        while seen < DRAIN_LIMIT and time.monotonic() < deadline:
            received = len(self.connection.recv(65536))
            if received == 0:
                return
            seen += received

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses by itself: a rubbish request line, an unknown method."""
        self.close_connection = True
        self.request_version = (
            "HTTP/1.1"  # else a line without a version gets an answer without a status line
        )
        self._write(
            problem(code, "bad_request", explain or message or "The request cannot be read."), close=True
        )

    def handle_expect_100(self) -> bool:
        proceed = super().handle_expect_100()
        self.wfile.flush()
        return proceed

    def version_string(self) -> str:
        return self.server.name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class names it)
        """Silent: the database is the log, and stdout carries only the listening line."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(
        self, name: str, where: argparse.Namespace, application: Callable[[Incoming], Reply]
    ) -> None:
        self.name = name
        self.application = application
        given = where.socket is not None
        super().__init__((where.host, where.port or 0), Handler, bind_and_activate=not given)
        if given:
            self.socket.close()
            self.socket = socket.socket(fileno=where.socket)
            self._is_bound()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, which end the process at once: all that counts is committed already."""
        signal.signal(signal.SIGTERM, _leave)
        signal.signal(signal.SIGINT, _leave)
        print(f"listening on http://{self.server_address[0]!s}:{self.server_port}", flush=True)
        self.serve_forever()

    def server_bind(self) -> None:
        # Not HTTPServer's: it looks the host's name up in DNS, which can take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self._is_bound()

    def _is_bound(self) -> None:
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc(file=sys.stderr)


def where_to_listen(parser: argparse.ArgumentParser) -> None:
    """The options that `Server` reads."""
    parser.add_argument("--host", default="127.0.0.1")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int, help="0 takes a free one and prints it")
    where.add_argument("--socket", type=int, metavar="FD", help="one that listens already, inherited")


def _leave(signum: int, frame: FrameType | None) -> None:
    os._exit(0)
