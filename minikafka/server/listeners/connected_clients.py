"""Which clients are connected to a listener, and which of them are muted now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from minikafka.kernel.principals import Principal

MAX_TEXT = 100  # characters of what a client names itself


class ClientSoftware(NamedTuple):
    """What a client names itself in ApiVersions (KIP-511)."""

    client_id: str
    name: str
    version: str


UNNAMED = ClientSoftware("", "", "")
UNKNOWN = "unknown"  # as Kafka calls clients that do not name themselves


class ConnectedClient(Protocol):
    """A connection, as far as it matters here; compared by identity."""

    software: ClientSoftware

    @property
    def client_host(self) -> str: ...

    @property
    def principal(self) -> Principal: ...


class MutedClient(NamedTuple):
    """A connection that is not served until ``until_ms`` of the monotonic clock."""

    connection: ConnectedClient
    until_ms: int


class ConnectedClients:
    """The connections that have named their client, by software, and the muted ones."""

    def __init__(self) -> None:
        self.changes = 0  # how often ``by_software`` has changed
        self._by_software: Counter[ClientSoftware] = Counter()  # bound: the connections
        self._muted: dict[ConnectedClient, int] = {}

    def identify(
        self, connection: ConnectedClient, client_id: str, name: str, version: str
    ) -> None:
        """Note what the client of a connection names itself, instead of what it said before."""
        self._forget(connection)
        software = ClientSoftware(client_id[:MAX_TEXT], name[:MAX_TEXT], version[:MAX_TEXT])
        connection.software = software
        self._by_software[software] += 1
        self.changes += 1

    def mute(self, connection: ConnectedClient, until_ms: int) -> None:
        self._muted[connection] = until_ms

    def unmute(self, connection: ConnectedClient) -> None:
        self._muted.pop(connection, None)

    def left(self, connection: ConnectedClient) -> None:
        """Forget a connection that is closed."""
        self._muted.pop(connection, None)
        self._forget(connection)

    def by_software(self) -> Counter[ClientSoftware]:
        """Return how many connections each software has."""
        return Counter(self._by_software)

    def muted(self, at_most: int) -> Iterator[MutedClient]:
        return (MutedClient(*each) for each in islice(self._muted.items(), at_most))

    @property
    def num_muted(self) -> int:
        return len(self._muted)

    def _forget(self, connection: ConnectedClient) -> None:
        software, connection.software = connection.software, UNNAMED
        if software is UNNAMED:
            return
        self.changes += 1
        self._by_software[software] -= 1
        if not self._by_software[software]:
            del self._by_software[software]
