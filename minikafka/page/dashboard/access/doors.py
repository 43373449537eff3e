"""The ways into the page: fixed tokens, sign-ins by password, and the user that a proxy names."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from minikafka.kernel.config import ConfigError
from minikafka.page.dashboard.access.accounts import TOKEN_HOLDER, PageAccount, secrets_of
from minikafka.page.dashboard.access.roles import Role

SESSION_MS: Final = 12 * 3600 * 1000
MOST_SESSIONS: Final = 1000
SESSION_BYTES: Final = 16

Proxy: TypeAlias = IPv4Network | IPv6Network


class PageUser(NamedTuple):
    """Who sends a request. ``way``: token, password or proxy."""

    name: str
    role: Role
    way: str


OWNER: Final = PageUser(TOKEN_HOLDER, Role.ADMINISTER, "token")


class Doors(NamedTuple):
    """Which ways are open, besides the token that the page makes and prints if there are none.

    ``proxies`` are the only addresses whose ``user_header`` counts; a user whom it names has the
    role of the account, or ``proxy_role``; without both the user may not come in. ``names`` are
    host names, with their ports, by which browsers reach the page through a proxy.
    """

    tokens: Sequence[PageAccount] = ()
    users: Mapping[str, PageAccount] = MappingProxyType({})
    user_header: str | None = None
    proxies: Sequence[Proxy] = ()
    proxy_role: Role | None = None
    names: frozenset[str] = frozenset()

    @property
    def ways(self) -> list[str]:
        ways = {
            "token": bool(self.tokens),
            "password": secrets_of(self.users),
            "proxy": self.user_header is not None,
        }
        return [way for way, is_open in ways.items() if is_open]

    def by_token(self, token: str) -> PageUser | None:
        given = token.encode(errors="replace")
        found = None
        for account in self.tokens:  # each, so that the time says nothing
            if hmac.compare_digest(account.secret.encode(), given):
                found = PageUser(account.name, account.role, "token")
        return found

    def by_proxy(self, peer: str | None, user: str | None) -> PageUser | None:
        """Return whom the header names, if ``peer`` is a proxy that is trusted."""
        if not user or not self.is_proxy(peer):
            return None
        account = self.users.get(user)
        role = self.proxy_role if account is None else account.role
        return None if role is None else PageUser(user, role, "proxy")

    def by_session(self, account: PageAccount) -> PageUser | None:
        """Return the user who signed in to an account, with the role of now; None if the account is
        gone, or its password is another one."""
        now = self.users.get(account.name)
        if now is None or now.secret != account.secret:
            return None
        return PageUser(now.name, now.role, "password")

    def is_proxy(self, peer: str | None) -> bool:
        try:
            address = ip_address(peer or "")
        except ValueError:
            return False
        return any(address in proxy for proxy in self.proxies)


NO_DOORS: Final = Doors()


def parse_proxies(texts: Sequence[str]) -> tuple[Proxy, ...]:
    """Raises ConfigError."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise ConfigError(f"--trusted-proxy: {error}") from None


class Sessions:
    """Sign-ins by password, in memory: at most ``MOST_SESSIONS``, the oldest end first."""

    def __init__(self, now_ms: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._sessions: dict[str, tuple[PageAccount, int]] = {}  # and until when

    def open(self, account: PageAccount) -> str:
        """Return the secret of a new session."""
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        secret = self._random_bytes(SESSION_BYTES).hex()
        self._sessions[secret] = account, self._now_ms() + SESSION_MS
        return secret

    def find(self, secret: str) -> PageAccount | None:
        """Return the account as it was at the sign-in."""
        found = self._sessions.get(secret)
        if found is None:
            return None
        account, until_ms = found
        if self._now_ms() >= until_ms:
            self.close(secret)
            return None
        return account

    def close(self, secret: str) -> None:
        self._sessions.pop(secret, None)
