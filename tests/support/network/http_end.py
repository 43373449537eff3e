"""An HTTP server on loopback that responds with given bytes."""

from __future__ import annotations

import asyncio
import re
import ssl


def response(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


class HttpEnd:
    """Keeps each request, its head and its body, sends ``reply``, and closes the connection after
    so many."""

    def __init__(self, reply: bytes, closes_after: int = 1) -> None:
        self.reply = reply
        self.closes_after = closes_after
        self.connections = 0
        self.requests: list[str] = []
        self._server: asyncio.Server | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> int:
        """Return the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self.closes_after):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = re.search(r"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(size[1])) if size else b""
                self.requests.append(head + body.decode())
            except asyncio.IncompleteReadError:
                break
            writer.write(self.reply)
        writer.close()

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
