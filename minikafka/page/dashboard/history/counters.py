"""Reads the counters of brokers from their debug listeners, where they have one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Clock, Network
from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import HttpGetConnection, HttpUrl
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.page.dashboard.history.figures import COUNTERS

MAX_BROKERS: Final = 100
TIMEOUT_MS: Final = 2_000
LOOK_UP_AGAIN_MS: Final = 60_000  # where a broker shows its inside
PATH: Final = "/counters.json"


class BrokerCounters:
    """Keeps a connection to each debug listener. ``network_of`` returns the network from which the
    loopback address of a broker is reached."""

    def __init__(
        self, clock: Clock, reader: ClusterReader, network_of: Callable[[int], Network]
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._network_of = network_of
        self._known: dict[int, tuple[HttpGetConnection | None, int]] = {}  # until when

    async def read(self, brokers: Iterable[int]) -> dict[int, dict[str, int]]:
        """Return the counters of those brokers that show them."""
        ids = list(islice(sorted(brokers), MAX_BROKERS))
        found = await asyncio.gather(*map(self._read_one, ids))
        return {id: counters for id, counters in zip(ids, found, strict=True) if counters}

    async def _read_one(self, broker_id: int) -> dict[str, int]:
        connection = await self._connection(broker_id)
        if connection is None:
            return {}
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                shown = json.loads(await connection.get(PATH))
            # Another process may have the port now.
            counters = shown["counters"] if shown["broker"] == broker_id else {}
            return {name: int(counters[name]) for name in COUNTERS if name in counters}
        except (OSError, ValueError, TypeError, KeyError):  # it is gone, or of another release
            return {}

    async def _connection(self, broker_id: int) -> HttpGetConnection | None:
        known, until_ms = self._known.get(broker_id, (None, 0))
        now_ms = self._clock.monotonic_ms()
        if now_ms < until_ms:
            return known
        if known is not None:
            known.close()
        try:
            endpoint = (await self._reader.about(broker_id)).debug
        except KafkaError:
            endpoint = None
        connection = None
        if endpoint is not None:
            url = HttpUrl("http", endpoint.host, endpoint.port, PATH)
            connection = HttpGetConnection(lambda: self._network_of(broker_id), url, TlsSettings())
        self._known[broker_id] = (connection, now_ms + LOOK_UP_AGAIN_MS)
        return connection

    def close(self) -> None:
        for connection, _ in self._known.values():
            if connection is not None:
                connection.close()
