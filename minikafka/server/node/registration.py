"""``BrokerRegistration``: the znode ``/brokers/ids/<id>`` of this broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from minikafka.kernel.cluster import NO_EPOCH
from minikafka.kernel.config import ConfigError
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import (
    Clock,
    ConnectionLost,
    Network,
    NodeExists,
    NoNode,
    SessionExpired,
    WatchEvent,
)
from minikafka.server.broker.broker_watch import are_refused
from minikafka.server.node.listeners import BrokerListeners
from minikafka.server.zookeeper.session import ZkSession
from minikafka.server.zookeeper.store import MalformedZnode, ZkStore
from minikafka.server.zookeeper.znodes import BrokerZnode

RETRY_MS: Final = 100


class BrokerRegistration:
    """Registers this broker, and does so again when the znode is deleted by somebody else.

    ``epoch`` is the broker epoch of the current registration. ``znode`` returns what is
    registered: it has the endpoints of ``listening``."""

    def __init__(
        self,
        zk: ZkSession,
        network: Network,
        clock: Clock,
        broker_id: int,
        session_timeout_ms: int,
        listening: BrokerListeners,
        znode: Callable[[], BrokerZnode],
    ) -> None:
        self.epoch = NO_EPOCH
        self._zk = zk
        self._network = network
        self._clock = clock
        self._broker_id = broker_id
        self._session_timeout_ms = session_timeout_ms
        self._listening = listening
        self._znode = znode
        self._changed = asyncio.Event()  # the znode of this session
        self._keeper: asyncio.Task[None] | None = None
        self._log = event_log("node", broker=broker_id)

    async def remove_old(self) -> None:
        """Delete the registration of an earlier run of this broker whose session has not ended yet,
        if all its listeners refuse connections. To be called before this run opens its own.
        Otherwise ``register`` waits for the end of that session. Raises CoordinationError."""
        store = self._zk.store
        try:
            found = await store.registration(self._broker_id)
            if found is None or found.session in (0, store.session.session_id):
                return
            if not await are_refused(self._network, self._clock, found.broker.endpoints):
                return
            removed = await store.remove_registration(found)
        except MalformedZnode as error:
            self._log.warning("old_registration_not_removed", error=str(error))
            return
        if removed:
            self._log.info(
                "old_registration_removed",
                epoch=found.broker.epoch,
                session=f"0x{found.session:x}",
                refused=[f"{each.host}:{each.port}" for each in found.broker.endpoints],
            )

    async def register(self, store: ZkStore) -> None:
        """Create the znode.

        If an earlier run of this broker left it, wait until ZooKeeper expires that session, for up
        to two session time-outs. Raises ConfigError if the znode still exists, and
        CoordinationError."""
        self._listening.registered = None
        deadline_ms = self._clock.monotonic_ms() + 2 * self._session_timeout_ms
        waits = False
        while True:
            node = self._znode()
            try:
                self.epoch = await store.register_broker(node)
                break
            except NodeExists:
                if self._clock.monotonic_ms() >= deadline_ms:
                    raise ConfigError(
                        f"another broker is registered with broker.id {self._broker_id}: "
                        "stop it, or give this one another broker.id"
                    ) from None
                if not waits:
                    self._log.info("old_registration_awaited")
                waits = True
                await self._clock.sleep(RETRY_MS)
        self._listening.registered = node.endpoints
        self._log.info("broker_registered", epoch=self.epoch)
        await self._watch(store)
        await self._listening.register_if_changed()

    async def update(self) -> None:
        """Write the present endpoints to the znode. Raises CoordinationError."""
        node = self._znode()
        try:
            await self._zk.store.update_broker(node)
        except NoNode:
            return  # it is about to be registered again
        self._listening.registered = node.endpoints
        self._log.info("broker_registration_changed", endpoints=node.endpoints)

    # -- what others do with the znode

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Keep the registration from now on."""
        self._keeper = tasks.create_task(self._keep(), name="registration-keeper")

    def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()

    async def _watch(self, store: ZkStore) -> bool:
        """Arm the watch on the znode; return whether it is this session's."""
        session = store.session.session_id

        def changed(_: WatchEvent) -> None:
            if self._zk.session.session_id == session:
                self._changed.set()

        stat = await store.broker_stat(self._broker_id, changed)
        return stat is not None and stat.ephemeral_owner == session

    async def _keep(self) -> None:
        """Register again when this broker was taken for dead (``BrokerWatch``): the controller
        then sees a broker that was started again, and tells it who leads its partitions."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            store = self._zk.store
            try:
                if await self._watch(store):
                    continue
                self._log.warning("registration_lost", epoch=self.epoch)
                await self.register(store)
            except SessionExpired:
                pass  # the next session registers
            except ConnectionLost:
                self._changed.set()
                await self._clock.sleep(RETRY_MS)
