"""The controller's reads of ZooKeeper: unreadable znodes are logged and skipped, states are cached.

One znode with malformed data must not stop the controller of a whole cluster. Each function here
reads many znodes at once, in slices, between which other tasks run. If one of a slice is malformed,
the slice is read one by one, each that cannot be read is logged, and the others are returned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from minikafka.core.controller.context import ControllerContext
from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import Broker, LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Watcher
from minikafka.server.zookeeper.session import ZkSession
from minikafka.server.zookeeper.store import MalformedZnode, TopicAssignment, ZkStore

K = TypeVar("K")
V = TypeVar("V")


async def _readable(
    read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], keys: Sequence[K]
) -> tuple[dict[K, V], dict[K, str]]:
    """Return the values that can be read, and for the other keys why not. ``read`` raises
    ``MalformedZnode`` if any of its keys cannot be read; then each half of them is read again."""
    if not keys:
        return {}, {}
    try:
        return dict(await read(keys)), {}
    except MalformedZnode as error:
        if len(keys) == 1:
            return {}, {keys[0]: str(error)}
    half = len(keys) // 2
    found, unreadable = await _readable(read, keys[:half])
    more, too = await _readable(read, keys[half:])
    return found | more, unreadable | too


async def read_topics(
    store: ZkStore, watcher: Watcher, log: EventLog, known: Container[str] = ()
) -> list[str]:
    """Read and watch the names of all topics. Names that no topic may have are logged and left out:
    they would become directories of logs. Names that are ``known`` have been checked before."""
    names = []
    for name in await store.topics(watcher):
        problem = None if name in known else name_problem(name)
        if problem is None:
            names.append(name)
        else:
            log.error("topic_name_refused", topic=name, why=problem)
    return names


async def read_assignments(
    store: ZkStore, topics: Sequence[str], watcher: Watcher, log: EventLog
) -> dict[str, TopicAssignment]:
    """Read and watch the assignments of topics; malformed ones are logged and left out."""

    async def read(some: Sequence[str]) -> dict[str, TopicAssignment]:
        return await store.topic_assignments(some, watcher)

    found, unreadable = await _readable(read, topics)
    for topic, error in unreadable.items():
        log.error("topic_assignment_malformed", topic=topic, error=error)
    return found


async def read_topic_configs(
    store: ZkStore, topics: Sequence[str], log: EventLog
) -> dict[str, dict[str, str]]:
    """Read the topics' own configurations; malformed ones are logged and left out."""
    found, unreadable = await _readable(store.topic_configs, topics)
    for topic, error in unreadable.items():
        log.error("topic_config_malformed", topic=topic, error=error)
    return found


async def read_brokers(
    store: ZkStore, watcher: Watcher, log: EventLog
) -> tuple[dict[int, Broker], Collection[int]]:
    """Read the live brokers and watch the list of their ids. Also return the ids of brokers whose
    registration is malformed: they are alive, but nothing else is known of them."""

    async def read(ids: Sequence[int]) -> dict[int, Broker]:
        found = {i: await store.broker(i) for i in ids}
        return {i: broker for i, broker in found.items() if broker is not None}

    found, unreadable = await _readable(read, await store.broker_ids(watcher))
    for broker_id, error in unreadable.items():
        log.error("broker_registration_malformed", registered_broker=broker_id, error=error)
    return found, unreadable.keys()


async def read_isr_changes(
    store: ZkStore, sequences: Sequence[str], log: EventLog
) -> set[TopicPartition]:
    """Read the partitions that ISR change notifications name; malformed ones are logged."""

    async def read(some: Sequence[str]) -> dict[str, set[TopicPartition]]:
        return {some[0]: await store.isr_change_partitions(some)}

    found, unreadable = await _readable(read, sequences)
    for error in unreadable.values():
        log.error("isr_change_malformed", error=error)
    return set().union(*found.values())


async def read_log_dir_events(store: ZkStore, sequences: Sequence[str], log: EventLog) -> set[int]:
    """Read the brokers that log-directory notifications name; malformed ones are logged."""

    async def read(some: Sequence[str]) -> dict[str, set[int]]:
        return {some[0]: await store.log_dir_event_brokers(some)}

    found, unreadable = await _readable(read, sequences)
    for error in unreadable.values():
        log.error("log_dir_event_malformed", error=error)
    return set().union(*found.values())


TrustCached: TypeAlias = Callable[[TopicPartition, LeaderIsrAndControllerEpoch], bool]


def trust_fresh_only(_: TopicPartition, __: LeaderIsrAndControllerEpoch) -> bool:
    """Do not use a cached state unless it was read or written during this event."""
    return False


def trust_all(_: TopicPartition, __: LeaderIsrAndControllerEpoch) -> bool:
    """Use every cached state: a conditional write follows, which fails if the state is outdated."""
    return True


class Leaderships:
    """The partition states in the controller context, and how far each can be trusted.

    A leader writes its ISR to the state znode and announces the change later, so the state in the
    context may be outdated. That does no harm where a write follows: the write is conditional on
    the znode's version, and if it is refused the state is read again. But a decision not to write
    needs a fresh state, that is one that was read or written during the event being handled.
    """

    def __init__(self, context: ControllerContext, zk: ZkSession, log: EventLog) -> None:
        self._context = context
        self._zk = zk
        self._log = log
        self._fresh: set[TopicPartition] = set()
        self._missing: set[TopicPartition] = set()  # fresh ones that have no znode
        self._outdated: set[TopicPartition] = set()  # known to differ from the znode

    def new_event(self) -> None:
        """Forget which states are fresh: another event begins."""
        self._fresh.clear()
        self._missing.clear()
        self._outdated.clear()

    def written(self, partitions: Iterable[TopicPartition]) -> None:
        """Mark these states as fresh: the controller has just written them."""
        done = set(partitions)
        self._fresh |= done
        self._missing -= done
        self._outdated -= done

    def outdated(self, partitions: Iterable[TopicPartition]) -> None:
        """Mark these states as outdated: a conditional write was refused."""
        self._outdated.update(partitions)
        self._fresh -= self._outdated
        self._missing -= self._outdated

    def is_fresh(self, partition: TopicPartition) -> bool:
        return partition in self._fresh

    async def read(
        self, partitions: Sequence[TopicPartition], trust_cached: TrustCached = trust_fresh_only
    ) -> tuple[dict[TopicPartition, LeaderIsrAndControllerEpoch], Collection[TopicPartition]]:
        """Return the states of those partitions that have one, and the partitions whose state
        cannot be read. Fresh states are taken from the context; ``trust_cached`` decides for which
        others the cached state is good enough. The rest is read from ZooKeeper."""
        known: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        to_read: list[TopicPartition] = []
        for partition in partitions:
            state = self._context.leadership.get(partition)
            if partition in self._missing:
                continue
            if state is None or partition in self._outdated:
                to_read.append(partition)
            elif partition in self._fresh or trust_cached(partition, state):
                known[partition] = state
            else:
                to_read.append(partition)
        unreadable = await self.refresh(to_read)
        known.update(
            {tp: self._context.leadership[tp] for tp in to_read if tp not in self._missing}
        )
        return known, unreadable

    async def refresh(
        self, partitions: Sequence[TopicPartition], watcher: Watcher | None = None
    ) -> Collection[TopicPartition]:
        """Read these states into the context (updateLeaderAndIsrCache) and watch them if a
        ``watcher`` is given. Malformed states are logged; return their partitions."""

        async def read(
            some: Sequence[TopicPartition],
        ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
            return await self._zk.store.leader_isr_states(some, watcher)

        found, unreadable = await _readable(read, partitions)
        for partition, error in unreadable.items():
            self._log.error("partition_state_malformed", partition=str(partition), error=error)
        self._context.leadership.update(found)
        self._fresh.update(partitions)
        self._outdated.difference_update(partitions)
        self._missing.difference_update(found)
        self._missing.update(tp for tp in partitions if tp not in found)
        return unreadable.keys()
