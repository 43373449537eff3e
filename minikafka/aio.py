"""Producer, Consumer and Admin for applications: Kafka's keys as keyword arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from minikafka import client
from minikafka.client import (
    AcknowledgeType,
    ClientConfig,
    CommitFailedError,
    ConsumerConfig,
    ConsumerRecord,
    ConsumerRecords,
    LogTruncationError,
    NewTopic,
    OAuthToken,
    OffsetAndMetadata,
    ProducerConfig,
    RebalanceListener,
    RecordDeserializationError,
    RecordMetadata,
    RecordsMetadata,
    ShareConsumerConfig,
    ShareRecord,
    SubscriptionPattern,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Coordination, World
from minikafka.kernel.spelling import did_you_mean
from minikafka.protocol.records.compression import Compression
from minikafka.world.real.files import RealFiles
from minikafka.world.real.kerberos import RealKerberos
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock, RealEntropy, RealWorkers

__all__ = [
    "AcknowledgeType",
    "Admin",
    "CommitFailedError",
    "Compression",
    "Consumer",
    "ConsumerRecord",
    "ConsumerRecords",
    "ErrorCode",
    "KafkaError",
    "LogTruncationError",
    "NewTopic",
    "OAuthToken",
    "OffsetAndMetadata",
    "Producer",
    "RebalanceListener",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordsMetadata",
    "ShareConsumer",
    "ShareRecord",
    "SubscriptionPattern",
    "TopicPartition",
]

T = TypeVar("T", ClientConfig, ProducerConfig, ConsumerConfig, ShareConsumerConfig)


def world_of_clients() -> World:
    """This machine, as far as clients need it: they never ask ZooKeeper."""
    return World(
        RealClock(),
        RealNetwork(),
        RealFiles(),
        cast(Coordination, None),
        RealEntropy(),
        RealWorkers(),
        RealKerberos(),
    )


class Producer(client.Producer):
    """``async with Producer("host:9092", linger_ms=5) as producer``; the other keys are those of
    ``ProducerConfig`` and ``ClientConfig``. TypeError for one that is neither's."""

    def __init__(
        self, bootstrap_servers: str = "localhost:9092", *, world: World | None = None, **keys: Any
    ) -> None:
        common, own = _sorted_out("Producer", bootstrap_servers, ProducerConfig(), keys)
        super().__init__(world or world_of_clients(), common, own)


class Consumer(client.Consumer):
    """``async with Consumer("host:9092", group_id="g", topics=["t"]) as consumer``; the other keys
    are those of ``ConsumerConfig`` and ``ClientConfig``. With a group, ``topics`` are subscribed
    to; without one, all their partitions are assigned. TypeError for a key that is neither's."""

    def __init__(
        self,
        bootstrap_servers: str = "localhost:9092",
        *,
        topics: tuple[str, ...] | list[str] = (),
        world: World | None = None,
        **keys: Any,
    ) -> None:
        if isinstance(topics, str):
            raise TypeError("topics is a list: [name]")
        common, own = _sorted_out(
            "Consumer", bootstrap_servers, ConsumerConfig(), keys, ("topics",)
        )
        super().__init__(world or world_of_clients(), common, own)
        self._wanted = tuple(topics)

    async def __aenter__(self) -> Consumer:
        await super().__aenter__()
        if self._wanted and self._group is not None:
            self.subscribe(self._wanted)
        elif self._wanted:
            try:
                await self.assign_topics(*self._wanted)
            except BaseException as error:
                await self.__aexit__(type(error), error, error.__traceback__)
                raise
        return self


class ShareConsumer(client.ShareConsumer):
    """``async with ShareConsumer("host:9092", group_id="g", topics=["t"]) as consumer``; the other
    keys are those of ``ShareConsumerConfig`` and ``ClientConfig``. TypeError for a key that is
    neither's."""

    def __init__(
        self,
        bootstrap_servers: str = "localhost:9092",
        *,
        group_id: str,
        topics: tuple[str, ...] | list[str] = (),
        world: World | None = None,
        **keys: Any,
    ) -> None:
        if isinstance(topics, str):
            raise TypeError("topics is a list: [name]")
        plain = ShareConsumerConfig(group_id)
        common, own = _sorted_out("ShareConsumer", bootstrap_servers, plain, keys, ("topics",))
        super().__init__(world or world_of_clients(), common, own)
        self._wanted = tuple(topics)

    async def __aenter__(self) -> ShareConsumer:
        await super().__aenter__()
        if self._wanted:
            self.subscribe(self._wanted)
        return self


class Admin(client.Admin):
    """``async with Admin("host:9092") as admin``; the other keys are those of ``ClientConfig``."""

    def __init__(
        self, bootstrap_servers: str = "localhost:9092", *, world: World | None = None, **keys: Any
    ) -> None:
        _check_known("Admin", keys, _names(ClientConfig))
        common = replace(ClientConfig(bootstrap_servers), **keys)
        super().__init__(world or world_of_clients(), common)


def _sorted_out(
    client: str, bootstrap_servers: str, own: T, keys: dict[str, Any], others: Sequence[str] = ()
) -> tuple[ClientConfig, T]:
    """Each key to the configuration that knows it. ``others`` are further keywords of the client,
    which a message may propose. Raises TypeError."""
    names = _names(type(own))
    _check_known(client, keys, names | _names(ClientConfig), others)
    mine = {key: value for key, value in keys.items() if key in names}
    rest = {key: value for key, value in keys.items() if key not in names}
    return replace(ClientConfig(bootstrap_servers), **rest), replace(own, **mine)


def _names(config: type[T]) -> set[str]:
    return {field.name for field in fields(config)}


def _check_known(
    client: str, keys: Iterable[str], known: set[str], others: Sequence[str] = ()
) -> None:
    """Raises TypeError for a key that the client does not have, with the most similar one."""
    for key in keys:
        if key not in known:
            hint = did_you_mean(key, [*known, *others])
            raise TypeError(f"{client}() got an unexpected keyword argument {key!r}{hint}")
