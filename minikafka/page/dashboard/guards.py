"""Decides which HTTP requests the page serves, and with which headers.

A page may act on its cluster, so a site that the user visits must not reach it: not by a name that
resolves to this machine (the Host header is checked), not by a form or a script (Origin and token
are checked for requests that change something), and not in a frame. ``access`` says who a request
comes from and what their role may do.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from minikafka.kernel.listeners import is_loopback
from minikafka.page.dashboard.access.doors import NO_DOORS, OWNER, Doors, PageUser, Sessions
from minikafka.page.dashboard.access.roles import Role, needed_for_request

TOKEN_HEADER: Final = "x-minikafka-token"
TOKEN_BYTES: Final = 16
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
_SIGN_IN: Final = "The request has no valid sign-in or token."
_READ_ONLY: Final = "The page is read-only: it was started with --read-only."
# What everybody may request: the files of the page, and what it needs to say who may come in.
SESSION: Final = "/api/session"
SIGN_IN: Final = "/api/sign-in"
SIGN_OUT: Final = "/api/sign-out"


class Asked(NamedTuple):
    """What a request says about where it comes from. ``token`` is that of the header or, without
    one, of the cookie, which may also be a session's. ``user`` is whom a proxy's header names once,
    ``peer`` the address at the other end of the connection."""

    method: str
    path: str
    host: str
    origin: str | None
    token: str | None
    site: str | None = None  # Sec-Fetch-Site, which no script can set
    user: str | None = None
    peer: str | None = None


class Guard(NamedTuple):
    """``host`` and ``port`` are where the server listens. On a loopback address only names of the
    loopback interface are served; else any name, since the user has chosen to be reachable.
    ``private`` means that reading needs the token, too: the page has credentials that other users
    of this machine do not have, or is reachable from others, or has users. ``token`` is empty where
    ``doors`` say who may come in."""

    host: str
    port: int
    token: str
    read_only: bool = False
    private: bool = False
    doors: Doors = NO_DOORS
    sessions: Sessions | None = None

    @property
    def address(self) -> str:
        """Where a browser opens the page; its token, if it has one, lets the user act."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        query = f"?token={self.token}" if self.token else ""
        return f"http://{shown}:{self.port}/{query}"

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
            public = asked.path in ("/", SESSION) or asked.path.startswith("/static/")
            secret = self.private and not public
            return self.stranger if secret and self.identity(asked) is None else None
        if asked.origin is not None and not self._is_own(urlsplit(asked.origin).netloc, asked.host):
            return _OTHER_SITE
        if asked.site in _OTHER_SITES:
            return _OTHER_SITE
        if asked.path in (SIGN_IN, SIGN_OUT):
            return None
        identity = self.identity(asked)
        if identity is None:
            return self.stranger
        if self.read_only:
            return _READ_ONLY
        needed = needed_for_request(asked.method, asked.path)
        if identity.role < needed:
            return role_refusal(identity, needed)
        return None

    @property
    def stranger(self) -> str:
        """What a request without an identity is told."""
        return _NO_TOKEN if self.token else _SIGN_IN

    def identity(self, asked: Asked) -> PageUser | None:
        """Return who sends a request; None if it does not say so, or wrongly."""
        if asked.token is not None:
            found = self.identity_of_token(asked.token)
            if found is None and self.sessions is not None:
                account = self.sessions.find(asked.token)
                found = None if account is None else self.doors.by_session(account)
            if found is not None:
                return found
        return self.doors.by_proxy(asked.peer, asked.user)

    def identity_of_token(self, token: str) -> PageUser | None:
        return OWNER if self.is_token(token) else self.doors.by_token(token)

    def is_token(self, token: str | None) -> bool:
        """Whether it is the token that the page has made."""
        return (
            token is not None
            and self.token != ""
            and hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
        )

    def _is_own(self, origin: str, host: str) -> bool:
        return origin == host or origin in self.doors.names

    def _is_host(self, host: str) -> bool:
        if not is_loopback(self.host) or host in self.doors.names:
            return True
        name, port = _split(host)
        return port == self.port and is_loopback(name)


def role_refusal(identity: PageUser, needed: Role) -> str:
    return f"{identity.name} has the role {identity.role.label}; this needs {needed.label}."


def _split(host: str) -> tuple[str, int | None]:
    """Return name and port of a Host header; an empty name if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        if parts.netloc != host:  # a path or a query
            return "", None
        return parts.hostname or "", parts.port if parts.port is not None else 80
    except ValueError:
        return "", None
