"""The limits of one kind of quota: eight levels of users and client ids, and which one applies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

DEFAULT: Final = None  # the name of the default user or client id
ANY: Final = ""  # the entity has no name of this type; no real name is empty
# So many clients are remembered with their limits, if their names are no longer.
MAX_CLIENTS: Final = 2_000
LONGEST_KEPT_NAME: Final = 249


class Account(NamedTuple):
    """Whose use is counted together: one user, one client id, or one client id of a user. ``ANY``
    stands for the part that makes no difference."""

    user: str
    client_id: str


class ClientLimit(NamedTuple):
    """The account of a client, and its limit."""

    account: Account
    limit: float


class QuotaLimits:
    """The limits of one kind of quota (Kafka's ``DefaultQuotaCallback``).

    A limit belongs to a user, a client id, or both; each may be the default. The first of these
    levels that has a limit decides:

    1. user and client id     2. user, default client id     3. user
    4. default user, client id     5. default user, default client id     6. default user
    7. client id     8. default client id

    Levels 1, 2, 4 and 5 limit each client id of each user by itself, 3 and 6 all clients of a user
    together, 7 and 8 all clients of that id together. As in Kafka, a client without client id has
    none of levels 7 and 8, and of a user the limit of level 3 or 6 where levels 2 or 5 decide.
    """

    def __init__(self) -> None:
        self._limits: dict[tuple[str | None, str | None], float] = {}
        self._clients: dict[tuple[str, str], ClientLimit | None] = {}  # until a limit is set

    def __bool__(self) -> bool:
        return bool(self._limits)

    def set(self, user: str | None, client_id: str | None, limit: float | None) -> None:
        """Set the limit of an entity, or remove it if ``limit`` is None. ``DEFAULT`` and ``ANY``
        are names, too."""
        self._clients.clear()
        if limit is None:
            self._limits.pop((user, client_id), None)
        else:
            self._limits[user, client_id] = limit

    def all(self) -> Iterator[tuple[str | None, str | None, float]]:
        """Yield user, client id and limit of each entity. No limit may be set meanwhile."""
        return ((user, client_id, limit) for (user, client_id), limit in self._limits.items())

    def clear(self) -> None:
        self._clients.clear()
        self._limits.clear()

    def of_client(self, user: str, client_id: str) -> ClientLimit | None:
        """Return the limit of a client; None if it has none."""
        if not self._limits:
            return None
        client = user, client_id
        try:
            return self._clients[client]
        except KeyError:
            return self._found(client)

    def _found(self, client: tuple[str, str]) -> ClientLimit | None:
        account = self.account_of(*client)
        limit = self.limit_of(account)
        found = None if limit is None else ClientLimit(account, limit)
        if max(map(len, client)) <= LONGEST_KEPT_NAME:
            if len(self._clients) >= MAX_CLIENTS:
                self._clients.clear()
            self._clients[client] = found
        return found

    def account_of(self, user: str, client_id: str) -> Account:
        """Return the account that the use of this client is counted in."""
        limits = self._limits
        if (user, client_id) in limits or (user, DEFAULT) in limits:
            return Account(user, client_id)
        if (user, ANY) in limits:
            return Account(user, ANY)
        if (DEFAULT, client_id) in limits or (DEFAULT, DEFAULT) in limits:
            return Account(user, client_id)
        if (DEFAULT, ANY) in limits:
            return Account(user, ANY)
        return Account(ANY, client_id)

    def limit_of(self, account: Account) -> float | None:
        """Return the limit of an account; None if it has none."""
        user, client_id = account
        levels: Sequence[tuple[str | None, str | None]]
        if user and client_id:
            levels = (
                (user, client_id),
                (user, DEFAULT),
                (DEFAULT, client_id),
                (DEFAULT, DEFAULT),
            )
        elif user:
            levels = ((user, ANY), (DEFAULT, ANY))
        elif client_id:
            levels = ((ANY, client_id), (ANY, DEFAULT))
        else:
            return None
        limits = self._limits
        for level in levels:
            limit = limits.get(level)
            if limit is not None:
                return limit
        return None
