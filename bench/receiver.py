"""A receiver that applies everything at once and costs next to nothing: what is measured is us. Prints its port."""

from __future__ import annotations

import asyncio
import json


class Receiver(asyncio.Protocol):
    """One connection: one request, one answer, closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._seen = b""

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, found, body = self._seen.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        if len(body) < int(headers.get("content-length", "0")):
            return
        record = lines[0].split(" ")[1].rsplit("/", 1)[-1]
        answer = json.dumps({"id": f"R-{record}", "record": record, "fields": json.loads(body)}).encode()
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            % len(answer)
            + answer
        )
        self._transport.close()


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
