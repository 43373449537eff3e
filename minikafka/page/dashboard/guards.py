"""Decides which HTTP requests the page serves, and with which headers.

The page acts on a cluster without a login, so a site that the user visits must not reach it: not by
a name that resolves to this machine (the Host header is checked), not by a form or a script (Origin
and token are checked for requests that change something), and not in a frame.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from minikafka.kernel.listeners import is_loopback

TOKEN_HEADER: Final = "x-minikafka-token"
FORBIDDEN: Final = 403

# Scripts, styles and data from this server only. Styles that scripts set are allowed by the CSSOM.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self'; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_READS: Final = frozenset({"GET", "HEAD"})
# ``same-site`` is another port of this host.
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
_OTHER_SITE: Final = "The request comes from a page of another site."
_NO_TOKEN: Final = "The request has no valid token: open the address that `minikafka ui` printed."


class Asked(NamedTuple):
    """What a request says about where it comes from. ``token`` is that of the header or, without
    one, of the cookie."""

    method: str
    path: str
    host: str
    origin: str | None
    token: str | None
    site: str | None = None  # Sec-Fetch-Site, which no script can set


class Guard(NamedTuple):
    """``host`` and ``port`` are where the server listens. On a loopback address only names of the
    loopback interface are served; else any name, since the user has chosen to be reachable.
    ``private`` means that reading needs the token, too: the page has credentials that other users
    of this machine do not have, or is reachable from others."""

    host: str
    port: int
    token: str
    read_only: bool = False
    private: bool = False

    @property
    def address(self) -> str:
        """Where a browser opens the page; its token lets the user act."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie with the token. Browsers send a cookie to every port of a host, so
        two pages on one machine would otherwise overwrite each other's."""
        return f"minikafka_token_{self.port}"

    def refusal(self, asked: Asked) -> str | None:
        """Return why a request is refused, in one sentence; None if it is served."""
        if not self._is_host(asked.host):
            return f"The page is not served as {asked.host or 'a host without a name'}."
        if asked.method in _READS:
            # Another site cannot read a response, but a long export would still be made for it.
            if asked.site in _OTHER_SITES and asked.path != "/":
                return _OTHER_SITE
            secret = self.private and not (asked.path == "/" or asked.path.startswith("/static/"))
            return _NO_TOKEN if secret and not self.is_token(asked.token) else None
        if asked.origin is not None and urlsplit(asked.origin).netloc != asked.host:
            return _OTHER_SITE
        if not self.is_token(asked.token):
            return _NO_TOKEN
        if self.read_only:
            return "The page is read-only: it was started with --read-only."
        return None

    def is_token(self, token: str | None) -> bool:
        return token is not None and hmac.compare_digest(
            token.encode(errors="replace"), self.token.encode()
        )

    def _is_host(self, host: str) -> bool:
        if not is_loopback(self.host):
            return True
        name, port = _split(host)
        return port == self.port and is_loopback(name)


def _split(host: str) -> tuple[str, int | None]:
    """Return name and port of a Host header; an empty name if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        if parts.netloc != host:  # a path or a query
            return "", None
        return parts.hostname or "", parts.port if parts.port is not None else 80
    except ValueError:
        return "", None
