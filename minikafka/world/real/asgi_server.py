"""uvicorn on a running loop, and the socket that it listens on."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

PORTS_TRIED: Final = 100
END_STREAMS_WITHIN_S: Final = 1


def bind(host: str, port: int, exact: bool) -> socket.socket:
    """Return a listening socket; unless ``exact``, of the next free port. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, port + (1 if exact else PORTS_TRIED)):
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, number))
            bound.listen()  # connections wait until the server runs
            return bound
        except OSError as error:
            bound.close()
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"port {port} is in use", f"{host}:{port}")


class AsgiServer(uvicorn.Server):
    """uvicorn on the running loop. Signals are left to the process that runs it."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # anybody could send them
                timeout_graceful_shutdown=END_STREAMS_WITHIN_S,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
