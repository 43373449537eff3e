"""An OAuth provider's endpoint on loopback, in a thread: it gives tokens to one client."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

from minikafka.core.security.sasl.oauthbearer import unsecured_token
from minikafka.world.real.wall_clock import WallClock

CLIENT_ID, CLIENT_SECRET = "spark-client", "hush-client"
_CREDENTIALS = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()


class TokenServer:
    """``forms`` has the bodies of the requests. ``status`` is that of the responses if it is set,
    else 200 for the right credentials. Tokens are unsecured, and for the principal ``sub``."""

    def __init__(self, sub: str) -> None:
        self.forms: list[dict[str, list[str]]] = []
        self.status = 0
        self.body: bytes | None = None
        self.lifetime_s = 3600
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
                server.forms.append(parse_qs(sent))
                right = self.headers["Authorization"] == f"Basic {_CREDENTIALS}"
                body = server.response(sub)
                self.send_response(server.status or (200 if right else 401))
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/oauth2/token"

    def response(self, sub: str) -> bytes:
        if self.body is not None:
            return self.body
        options = {
            "unsecuredLoginStringClaim_sub": sub,
            "unsecuredLoginLifetimeSeconds": str(self.lifetime_s),
        }
        token = unsecured_token(options, WallClock().wall_ms())
        return json.dumps({"access_token": token, "token_type": "Bearer"}).encode()

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
