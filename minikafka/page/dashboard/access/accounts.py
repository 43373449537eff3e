"""Accounts of the page: its files of tokens and users, and passwords by scrypt (RFC 7914).

A line of the file of users is ``NAME:ROLE:VERIFIER``. The verifier is ``scrypt$N$r$p$SALT$KEY`` in
base64; it is empty for a user whom a proxy authenticates. `minikafka ui --user-entry NAME` makes a
line. A line of the file of tokens is ``TOKEN`` or ``NAME:ROLE:TOKEN``. ``#`` begins a comment line.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from minikafka.kernel.config import ConfigError
from minikafka.page.dashboard.access.roles import ROLES, Role

# 16 MiB and about 50 ms for a guess (N, r, p); RFC 7914 names the parameters.
COST: Final = (2**14, 8, 1)
MOST_MEMORY: Final = 128 * 1024 * 1024
KEY_BYTES: Final = 32
SALT_BYTES: Final = 16
LEAST_TOKEN: Final = 16  # characters
MOST_NAME: Final = 100
MOST_PASSWORD: Final = 1024  # characters
TOKEN_HOLDER: Final = "token"


class PageAccount(NamedTuple):
    """``secret`` is a verifier, or a token; empty if only a proxy can authenticate the user."""

    name: str
    role: Role
    secret: str = ""

    def __repr__(self) -> str:
        return f"PageAccount({self.name!r}, {self.role.label})"


def parse_users(text: str, source: str) -> dict[str, PageAccount]:
    """Raises ConfigError, which names the line of ``source``."""
    found: dict[str, PageAccount] = {}
    for where, line in _lines(text, source):
        parts = line.split(":")
        if len(parts) != 3:
            raise ConfigError(f"{where}: NAME:ROLE:VERIFIER is needed")
        name, role, verifier = parts
        if verifier:
            _parsed(verifier, where)
        if name in found:
            raise ConfigError(f"{where}: {name} is there twice")
        found[name] = PageAccount(_name(name, where), _role(role, where), verifier)
    return found


def parse_tokens(text: str, source: str) -> tuple[PageAccount, ...]:
    """Raises ConfigError, which names the line of ``source`` and never a token."""
    found = []
    for where, line in _lines(text, source):
        parts = line.split(":")
        if len(parts) not in (1, 3):
            raise ConfigError(f"{where}: TOKEN or NAME:ROLE:TOKEN is needed")
        name, role = (
            (parts[0], _role(parts[1], where))
            if len(parts) == 3
            else (
                TOKEN_HOLDER,
                Role.ADMINISTER,
            )
        )
        token = parts[-1]
        if len(token) < LEAST_TOKEN or not token.isascii() or not token.isalnum():
            raise ConfigError(
                f"{where}: a token has at least {LEAST_TOKEN} letters and digits, and nothing else"
            )
        found.append(PageAccount(_name(name, where), role, token))
    if not found:
        raise ConfigError(f"{source}: there is no token in it")
    return tuple(found)


def user_entry(name: str, role: Role, password: str, salt: bytes) -> str:
    """Return the line of a user. Raises ConfigError for a name or password that cannot be one."""
    _name(name, "the name of the user")
    if not 8 <= len(password) <= MOST_PASSWORD:
        raise ConfigError(f"the password needs 8 to {MOST_PASSWORD} characters")
    cost = "$".join(map(str, COST))
    key = _key(password, salt, *COST)
    return f"{name}:{role.label}:scrypt${cost}${_text(salt)}${_text(key)}"


def is_password(verifier: str, password: str) -> bool:
    """Compare in constant time. It takes some 50 ms of a processor, outside the GIL."""
    if len(password) > MOST_PASSWORD:
        return False
    cost, salt, key = _parsed(verifier, "the verifier")
    return hmac.compare_digest(_key(password, salt, *cost), key)


def nobodys_verifier() -> str:
    """Return a verifier that no password matches: an unknown user takes as long as a known one."""
    cost = "$".join(map(str, COST))
    return f"scrypt${cost}${_text(bytes(SALT_BYTES))}${_text(bytes(KEY_BYTES))}"


def _lines(text: str, source: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield f"{source} line {number}", line.strip()


def _name(name: str, where: str) -> str:
    if not (name and name.isprintable() and len(name) <= MOST_NAME) or ":" in name:
        raise ConfigError(f"{where}: a name has 1 to {MOST_NAME} characters without a colon")
    return name


def _role(text: str, where: str) -> Role:
    if text not in ROLES:
        raise ConfigError(f"{where}: the roles are {', '.join(ROLES)}")
    return ROLES[text]


def _parsed(verifier: str, where: str) -> tuple[tuple[int, int, int], bytes, bytes]:
    """Return cost, salt and key. Raises ConfigError, also for a cost beyond ``MOST_MEMORY``."""
    try:
        kind, n, r, p, salt, key = verifier.split("$")
        cost = int(n), int(r), int(p)
        found = cost, base64.b64decode(salt, validate=True), base64.b64decode(key, validate=True)
    except ValueError:
        raise ConfigError(f"{where}: the verifier is not scrypt$N$r$p$SALT$KEY") from None
    power = cost[0] > 1 and cost[0] & (cost[0] - 1) == 0
    affordable = min(cost) > 0 and 128 * cost[0] * cost[1] * cost[2] < MOST_MEMORY
    if kind != "scrypt" or not power or not affordable or len(found[2]) != KEY_BYTES:
        raise ConfigError(f"{where}: the verifier has parameters that are not supported")
    return found


def _key(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    secret = password.encode(errors="surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=2 * MOST_MEMORY, dklen=KEY_BYTES)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def secrets_of(accounts: Mapping[str, PageAccount]) -> bool:
    """Whether any of the users signs in by a password."""
    return any(account.secret for account in accounts.values())
