"""A broker that serves the connections of a test with the paths of common Produces and Fetches, or
without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Self, cast

from minikafka.broker.fetch.follower_sessions import FollowerSession
from minikafka.broker.metadata.topic_configs import TopicConfig
from minikafka.broker.quotas import ClientQuotas
from minikafka.broker.replication.record_appends import DelayedProduces
from minikafka.broker.requests.apis import Apis, Route
from minikafka.broker.requests.authorization.authorization import Authorization
from minikafka.broker.requests.authorization.records import produce as guarded_produce
from minikafka.broker.requests.common_fetch import CommonFetches, by_kind
from minikafka.broker.requests.common_produce import CommonProduce
from minikafka.broker.requests.fetch import FetchConfig
from minikafka.broker.requests.follower_fetch import FollowerFetches
from minikafka.broker.requests.watched_requests import WatchedRequests
from minikafka.core.log.config import LogConfig
from minikafka.core.security.authorizer import AclAction, Requester
from minikafka.kernel.cluster import TopicPartition
from minikafka.network.server import Server
from minikafka.network.server_connection import ServerConfig, ServerConnection
from minikafka.protocol.api_keys import ApiKey
from tests.support.broker.replicas import TOPIC, Node, ReplicaCluster

PARTITIONS = (0, 1, 2)
REPLICATED = 2  # the partition whose records the test's follower has to fetch
FOLLOWER = 2
CONNECTIONS = 3


class FakeTransport:
    """Keeps what is written. What arrives while reading is paused waits in ``pending``."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.pending = bytearray()
        self.is_closed = False
        self.is_paused = False
        self.protocol: ServerConnection | None = None

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, parts: Iterable[Any]) -> None:
        for part in parts:
            self.written += part

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        self.feed()

    def receive(self, data: bytes) -> None:
        self.pending += data
        self.feed()

    def feed(self) -> None:
        while self.pending and not self.is_paused and not self.is_closed:
            assert self.protocol is not None
            buffer = self.protocol.get_buffer(-1)
            some = bytes(self.pending[: len(buffer)])
            del self.pending[: len(some)]
            buffer[: len(some)] = some
            self.protocol.buffer_updated(len(some))

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            assert self.protocol is not None
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.9", 1) if name == "peername" else None


class CountingApis(Apis):
    """Counts the frames that the general path serves."""

    frames = 0

    def on_frame(self, connection: ServerConnection, frame: memoryview) -> bool:
        self.frames += 1
        return super().on_frame(connection, frame)


class Writers:
    """An authorizer that allows everything, or nothing, and may log what it allows."""

    def __init__(self) -> None:
        self.allows = True
        self.logs_all = False
        self.lines: list[tuple[Requester, AclAction]] = []

    def authorize(self, requester: Requester, actions: Sequence[AclAction]) -> Sequence[bool]:
        if self.logs_all or not self.allows:
            self.lines += [(requester, action) for action in actions]
        return [self.allows] * len(actions)

    def allows_silently(self, principal: object, host: str, *_: object) -> bool:
        assert (str(principal), host) == ("User:ANONYMOUS", "10.0.0.9")
        return self.allows and not self.logs_all


class Side:
    """Broker 1, which leads partitions 0 and 1 alone, and those that are ``replicated`` with
    ``FOLLOWER``. It has an authorizer if it ``is_guarded``."""

    def __init__(
        self,
        with_common: bool,
        is_guarded: bool = False,
        replicated: Sequence[int] = (REPLICATED,),
    ) -> None:
        self._with_common = with_common
        self._replicated = replicated
        self.writers = Writers()
        self._authorization = Authorization(cast(Any, self.writers)) if is_guarded else None
        self.cluster = ReplicaCluster([1])
        self.transports: list[FakeTransport] = []
        self._epoch = 0
        self.is_broken = False
        self.fetched_commonly = 0  # Fetch requests
        self.served_commonly = 0
        self.served_together = 0  # of these, with the one before

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> None:
        await self.cluster.__aenter__()
        await self.elect(1)
        node = self.node
        handlers, clock = node.handlers, self.cluster.clock
        handler = handlers[ApiKey.PRODUCE]
        produce = Route(ApiKey.PRODUCE, handler, overlapping=True)
        if self._authorization is not None:
            produce = guarded_produce(self._authorization, produce)
        self.quotas = ClientQuotas(clock, metrics=node.metrics)
        self.apis = CountingApis(
            1,
            [
                produce,
                Route(ApiKey.FETCH, handlers[ApiKey.FETCH], in_parts=True, parks_reads=True),
            ],
            self.cluster.workers,
            monotonic_ns=clock.monotonic_ns,
            metrics=node.metrics,
            quotas=self.quotas,
        )
        self.apis.start(node.tasks)
        self.watched = WatchedRequests(self.apis, clock)
        self.common = CommonProduce(
            self.apis,
            handler,
            node.replicas.hosted,
            node.replicas.appends,
            handler._appends,
            self._authorization,
        )
        self.sessions = handlers[ApiKey.FETCH]._sessions
        self.common_fetches = CommonFetches(
            self.apis,
            self.apis.on_frame,
            node.replicas.hosted,
            node.replicas.fetches,
            self.sessions,
            FetchConfig(),
        )
        self.followers = FollowerFetches(
            self.apis,
            self.common_fetches.on_frame,
            handlers[ApiKey.FETCH],
            node.replicas.hosted,
            node.replicas.fetches,
            self.sessions,
        )
        self._common_path = by_kind(self.followers.on_frame, self.common.on_frame)
        self._server = Server(cast(Any, None), clock, ServerConfig(), self.apis.on_frame)
        for number in range(CONNECTIONS):
            self._connect(number)

    def _connect(self, number: int) -> None:
        on_frame = self._count if self._with_common else self.apis.on_frame
        transport = FakeTransport()
        connection = ServerConnection(
            number + 1, self._server, ServerConfig(), on_frame, "PLAINTEXT", self._server._log
        )
        transport.protocol = connection
        connection.connection_made(cast(Any, transport))
        self.transports.append(transport)

    def _count(self, connection: ServerConnection, frame: memoryview) -> bool:
        general, first = self.apis.frames, connection._served
        is_fetch = int.from_bytes(frame[:2], "big") == ApiKey.FETCH
        waits = self._common_path(connection, frame)
        if self.apis.frames == general:
            self.fetched_commonly += is_fetch
            self.served_commonly += 1 + connection._served - first
            self.served_together += connection._served - first
        return bool(waits)

    def break_disk(self) -> None:
        self.is_broken = True
        self.node.files.break_below()

    def fill_disk(self, room_bytes: int) -> None:
        """Leave so much room for the files."""
        self.node.files.leave_room(room_bytes)

    def watch(self) -> None:
        """Keep requests from now on, as while a page watches."""
        self.watched.watch()

    @property
    def node(self) -> Node:
        return self.cluster[1]

    async def elect(self, leader: int, isr: tuple[int, ...] = (1, FOLLOWER)) -> None:
        self._epoch += 1
        for index in PARTITIONS:
            alone = index not in self._replicated and leader == 1
            await self.cluster.elect(
                leader,
                isr=(1,) if alone else isr,
                epoch=self._epoch,
                replicas=(1,) if alone else (1, FOLLOWER),
                partitions=[index],
            )

    async def settle(self) -> None:
        await self.cluster.clock.settle()

    def configure(self, min_isr: int = 1, **log: Any) -> None:
        for index in PARTITIONS:
            found = self.node.replicas.hosted.get(TopicPartition(TOPIC, index))
            if found is not None:
                found.configure(TopicConfig(log=LogConfig(**log), min_insync_replicas=min_isr))

    def state(self) -> dict[str, Any]:
        """Return what the two paths must have in common."""
        node = self.node
        replicas = node.replicas
        partitions: dict[int, Any] = {}
        node.files.repair()
        self.watched._facts = {}  # else they would be a second old
        for index in PARTITIONS:
            found = replicas.hosted.get(TopicPartition(TOPIC, index))
            if found is None or not found.has_log:
                partitions[index] = None
                continue
            log = found.log
            start, end = log.log_start_offset, log.log_end_offset
            records = bytes(log.read(start, 1 << 30, end, True).records) if end > start else b""
            producers = [
                (entry.producer_id, entry.producer_epoch, list(entry.batches))
                for entry in log.producers.states.entries
            ]
            followers = dict(found.followers), found.state, dict(found.responses.high_watermarks)
            partitions[index] = (start, end, found.high_watermark, records, producers, followers)
        if self.is_broken:
            node.files.break_below()
        return {
            "written": [bytes(each.written) for each in self.transports],
            "closed": [each.is_closed for each in self.transports],
            "paused": [each.is_paused for each in self.transports],
            "unanswered": [
                len(each.protocol.unanswered) if each.protocol else 0 for each in self.transports
            ],
            "partitions": partitions,
            "offline": replicas.hosted.offline_count,
            "metrics": node.metrics.snapshot(),
            "purgatories": [
                (each.purgatory.watched, each.purgatory.delayed, each.purgatory.completed)
                for each in replicas.purgatories.reapers[1:]
            ],
            "produces": self._waiting_produces(),
            "memory": self._server.memory.used_bytes,
            "watched": self.watched.facts(),
            "sessions": [
                (facts, self._partitions_of(int(facts["id"])))
                for facts in self.sessions.cache.facts(100)
            ],
            "audit": list(self.writers.lines),
        }

    def session(self, place: int) -> tuple[int, int]:
        """Return the id and the epoch of a session of Fetches, the first of them again after the
        last; those of an unknown one if there is none."""
        known = self.sessions.cache.facts(100)
        if not known:
            return 3, 1
        facts = known[place % len(known)]
        return int(facts["id"]), int(facts["epoch"])

    def _waiting_produces(self) -> list[int]:
        """Return when each parked Produce expires. A row of them is one operation."""
        reaper = self.node.replicas.purgatories.produce
        return [
            expires_ms
            for expires_ms, operation in reaper.purgatory.waiting(1_000)
            for _ in range(len(operation._ends) if isinstance(operation, DelayedProduces) else 1)
        ]

    def _partitions_of(self, session_id: int) -> list[Any]:
        session = self.sessions.cache.get(session_id)
        assert session is not None
        read = list(session._to_read) if isinstance(session, FollowerSession) else []
        return read + [
            (key, cached.request, cached.high_watermark, cached.log_start_offset)
            for key, cached in session.partitions.items()
        ]

    async def close(self) -> None:
        self.apis.close()
        await self.cluster.__aexit__(None, None, None)
