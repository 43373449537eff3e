"""``PeerMetadata``: leaders that other brokers know, while this broker does not reach ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Clock, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.server.broker.metadata.cache import MetadataCache

PAUSE_MS: Final = 1_000  # between two rounds
REST: Final = 9  # the pause after a round is at least so many times as long as the round
TIMEOUT_MS: Final = 2_000  # of a connection, and of a request
PARTITIONS_AT_ONCE: Final = 500  # of one request, unless a single topic has more


class PeerMetadata:
    """Keeps this broker from advertising leaders that were replaced without its knowledge.

    The controller drops a broker whose session has ended, and elects other leaders for its
    partitions. It sends them to the registered brokers only: the one that has lost ZooKeeper alone
    is never notified. Kafka's goes on to advertise itself in its old epochs until its next session,
    and a client that requests metadata from several brokers sees the leaders change back and forth.

    A broker that does not reach ZooKeeper cannot know whether others do. If none does, nobody
    changes a leader, and its metadata are right: it must go on to serve them. So while it is
    disconnected it requests the metadata of one live broker after the other, and takes those
    partitions whose leader epochs are higher. Only the controller raises an epoch, so that a higher
    one is newer whichever broker sends it. Only what is advertised changes: replicas change their
    roles by LeaderAndIsr, and the controller's next UpdateMetadata replaces what was learned.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        cache: MetadataCache,
        broker_id: int,
        listener: str,
        version: int,
        disconnected: asyncio.Event,
        log: EventLog | None = None,
    ) -> None:
        """``listener`` is that of the brokers, ``version`` that of the Metadata requests.
        ``disconnected`` is set while ZooKeeper is not reached."""
        self._network = network
        self._clock = clock
        self._cache = cache
        self._broker_id = broker_id
        self._listener = listener
        self._version = version
        self._disconnected = disconnected
        self._log = log or event_log("peer-metadata", broker=broker_id)
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._task = tasks.create_task(self._run(), name="peer-metadata")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        last, pause_ms = self._broker_id, PAUSE_MS
        while True:
            await self._disconnected.wait()
            await self._clock.sleep(pause_ms)  # most interruptions are shorter
            peer = self._next_peer(last)
            if peer is None or not self._disconnected.is_set():
                continue
            last, endpoint = peer
            began_ms, pause_ms = self._clock.monotonic_ms(), PAUSE_MS
            try:
                await self._learn_from(last, endpoint)
            except OSError as error:  # TimeoutError is one
                self._log.info("peer_not_reached", peer=last, error=str(error) or repr(error))
            else:
                took_ms = self._clock.monotonic_ms() - began_ms
                pause_ms = max(PAUSE_MS, REST * took_ms)

    def _next_peer(self, last: int) -> tuple[int, Endpoint] | None:
        """Return the live broker after ``last`` in the order of ids; None without any other."""
        others = sorted(
            (broker.id <= last, broker.id, endpoint)
            for broker in self._cache.live_brokers()
            if broker.id != self._broker_id
            and (endpoint := broker.endpoint(self._listener)) is not None
        )
        return others[0][1:] if others else None

    async def _learn_from(self, broker_id: int, endpoint: Endpoint) -> None:
        """Read all topics from a broker. Raises ConnectionError and TimeoutError."""
        channel = await Channel.open(
            self._network,
            self._clock,
            endpoint.host,
            endpoint.port,
            f"broker-{self._broker_id}-peer-metadata",
            ChannelConfig(connection_setup_timeout_ms=TIMEOUT_MS, max_in_flight=1),
            self._log,
        )
        try:
            for topics in _requested(self._cache.image):
                request = MetadataRequest(topics, allow_auto_topic_creation=False)
                self._cache.learn(
                    await channel.request(request, self._version, TIMEOUT_MS), broker_id
                )
        finally:
            channel.close()


def _requested(image: MetadataImage) -> Iterator[list[MetadataRequestTopic]]:
    """Yield the topics of the image, about ``PARTITIONS_AT_ONCE`` partitions at a time."""
    topics: list[MetadataRequestTopic] = []
    partitions = 0
    for name, of_topic in image.topics.items():
        topics.append(MetadataRequestTopic(name=name))
        partitions += len(of_topic)
        if partitions >= PARTITIONS_AT_ONCE:
            yield topics
            topics, partitions = [], 0
    if topics:
        yield topics
