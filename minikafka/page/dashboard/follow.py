"""Runs the sources while somebody reads: one for the cluster, and one for each broker's inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from minikafka.client.admin.admin import Admin
from minikafka.core.client.cluster_view import Node
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Network, World
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.broker_source import REACHABLE, BrokerSource, SourceLost
from minikafka.page.dashboard.cluster_facts import BrokerAbout
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.page.dashboard.cluster_source import ClusterSource

STOP_AFTER_MS: Final = 5_000  # without readers
WATCHED_MS: Final = 30_000
MAX_WATCHED: Final = 20  # topics
MAX_BROKERS: Final = 100  # whose inside is followed
AGAIN_AFTER_MS: Final = 1_000  # a broker is lost
LOOK_UP_AGAIN_AFTER_MS: Final = 15_000  # a broker shows no inside

NO_INSIDE: Final = (
    "Broker {} has no debug.listener: what happens inside is shown only by a minikafka "
    "that has one, on this machine."
)


class Follow:
    """Follows a cluster. ``network_of`` returns the network from which the loopback address of a
    broker is reached: this machine's, or a simulated host's."""

    def __init__(
        self,
        world: World,
        admin: Admin,
        broadcast: Broadcast,
        network_of: Callable[[int], Network] | None = None,
    ) -> None:
        self.reader = ClusterReader(admin)
        self._world = world
        self._broadcast = broadcast
        self.network_of = network_of or (lambda broker_id: world.network)
        self._about: dict[int, BrokerAbout] = {}
        self._sources: dict[int, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup
        self._watched: dict[str, int] = {}  # until when, by topic
        self._readers_changed = asyncio.Event()
        self._cluster = ClusterSource(
            world.clock,
            self.reader,
            broadcast,
            broadcast.stage.hello.bootstrap,
            self._about,
            self.watched,
            self._nodes_seen,
        )
        broadcast.readers_changed = self._readers_changed.set

    def watch(self, topic: str) -> None:
        """Describe a topic for a while, whatever its name: a page has it open."""
        self._watched.pop(topic, None)
        self._watched[topic] = self._world.clock.monotonic_ms() + WATCHED_MS
        while len(self._watched) > MAX_WATCHED:
            del self._watched[next(iter(self._watched))]

    def watched(self) -> set[str]:
        now_ms = self._world.clock.monotonic_ms()
        for topic in [name for name, until_ms in self._watched.items() if until_ms <= now_ms]:
            del self._watched[topic]
        return set(self._watched)

    async def run(self) -> None:
        """Run the sources while there are readers, and a little longer."""
        while True:
            while not self._broadcast.readers:
                self._readers_changed.clear()
                await self._readers_changed.wait()
            task = asyncio.create_task(self._follow(), name="follow")
            try:
                await self._until_left(task)
            finally:
                task.cancel()
                await asyncio.wait([task])
            self._broadcast.set_ready(False)
            if not task.cancelled():
                task.result()

    async def _until_left(self, task: asyncio.Task[None]) -> None:
        """Return when nobody has read for ``STOP_AFTER_MS``, or when ``task`` has failed."""
        while not task.done():
            self._readers_changed.clear()
            changed = asyncio.create_task(self._readers_changed.wait())
            timeout_s = None if self._broadcast.readers else STOP_AFTER_MS / 1000
            try:
                done, _ = await asyncio.wait(
                    [changed, task], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                changed.cancel()
            if not done:
                return

    async def _follow(self) -> None:
        self._sources = {}
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._watch_first_look(), name="first-look")
            await self._cluster.follow()

    def _nodes_seen(self, nodes: Mapping[int, Node]) -> None:
        for broker_id in nodes:
            if broker_id not in self._sources and len(self._sources) < MAX_BROKERS:
                self._sources[broker_id] = self._tasks.create_task(
                    self._follow_broker(broker_id), name=f"follow-{broker_id}"
                )
        self._greet()

    async def _follow_broker(self, broker_id: int) -> None:
        """Follow a broker's inside, again and again: it may die and come back, at another
        address."""
        while True:
            try:
                self._about[broker_id] = await self.reader.about(broker_id)
            except KafkaError as error:
                if broker_id not in self._about:
                    self._unreachable(broker_id, f"Broker {broker_id} does not respond: {error}.")
                    await self._world.clock.sleep(AGAIN_AFTER_MS)
                    continue
            self._greet()
            endpoint = self._about[broker_id].debug
            if endpoint is None:
                self._unreachable(broker_id, NO_INSIDE.format(broker_id))
                await self._world.clock.sleep(LOOK_UP_AGAIN_AFTER_MS)
            else:
                await self._follow_inside(broker_id, endpoint)
                await self._world.clock.sleep(AGAIN_AFTER_MS)

    async def _follow_inside(self, broker_id: int, endpoint: Endpoint) -> None:
        """Follow a broker until it is lost."""
        source = BrokerSource(
            self._world.clock,
            lambda: self.network_of(broker_id),
            self._broadcast,
            broker_id,
            endpoint,
            self.watched,
            self.reader.expect_changes,
        )
        try:
            await source.follow()
        except SourceLost as lost:
            self._unreachable(broker_id, str(lost))

    def _unreachable(self, broker_id: int, reason: str) -> None:
        facts = {REACHABLE: {"debug": False, "reason": reason}}
        self._broadcast.stage.replace(broker_id, self._world.clock.wall_ms(), facts)
        self._broadcast.publish()

    def _greet(self) -> None:
        hello = self._broadcast.stage.hello
        ours = any(about.version is not None for about in self._about.values())
        self._broadcast.greet(
            hello._replace(cluster_id=self.reader.view.cluster_id, minikafka=ours)
        )

    async def _watch_first_look(self) -> None:
        """Let the first readers begin when everything has been looked at once."""
        stage, began_ms = self._broadcast.stage, self._world.clock.wall_ms()
        while any(stage.looked_at_ms(source) < began_ms for source in (None, *self._sources)):
            await self._world.clock.sleep(20)
        self._broadcast.set_ready(True)
