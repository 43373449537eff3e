"""The finalized features of the cluster, as this broker last read them from ``/feature``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from minikafka.kernel.config import ConfigError
from minikafka.kernel.events import event_log
from minikafka.kernel.features import Levels, unsupported_levels
from minikafka.kernel.ports import Clock, CoordinationError, NoAuth, SessionExpired, WatchEvent
from minikafka.server.zookeeper.store import MalformedZnode, ZkStore

UNKNOWN_EPOCH: Final = -1
RETRY_MS: Final = 1_000


class FinalizedFeatures:
    """Reads ``/feature`` at the start, after each change and in each new ZooKeeper session (Kafka's
    ``FinalizedFeatureChangeListener``).

    ``supported`` are the features of this broker. ``epoch`` is the version of the znode; -1 if it
    is missing, disabled or malformed."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        clock: Clock,
        broker_id: int,
        supported: Mapping[str, Levels],
    ) -> None:
        self.supported = supported
        self._store = store
        self._clock = clock
        self._log = event_log("features", broker=broker_id)
        self.epoch = UNKNOWN_EPOCH
        self.levels: Mapping[str, int] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def level(self, feature: str) -> int:
        """Return the level of a feature that is in force; 0 if it is off, or if this broker does
        not support the finalized level.

        Every registered broker supports a level above 0. The controller finalizes it only if all
        of them do, and a broker that does not reads ``/feature`` before it registers, and ends:
        ours in ``check``, an official one since ``ZkMetadataCache.updateFeaturesOrThrow`` raises
        ``FeatureCacheUpdateException``. Kafka before 2.7 does not read it, but beside such brokers
        the inter-broker protocol is older as well, and the controller disables ``/feature``."""
        level = self.levels.get(feature, 0)
        levels = self.supported.get(feature)
        return level if levels is not None and levels.include(level) else 0

    async def check(self) -> None:
        """Raise ConfigError if a level is finalized that this broker does not support. A malformed
        ``/feature`` is ignored, as in Kafka."""
        try:
            found = await self._store().finalized_features()
        except MalformedZnode:
            return
        levels = {} if found is None else found[0]
        unsupported = unsupported_levels(levels, self.supported)
        if unsupported:
            shown = ", ".join(f"{name}={level}" for name, level in sorted(unsupported.items()))
            raise ConfigError(
                f"this broker does not support features that the cluster has finalized: {shown}; "
                "remove them by `minikafka features disable`, or add what they need to "
                "group.coordinator.rebalance.protocols"
            )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._changed.set()
        self._task = tasks.create_task(self._follow(), name="feature-zk-node-event-process-thread")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def on_new_session(self, _: object) -> None:
        """Read the znode again: the watch ended with the old session."""
        self._changed.set()

    def _fired(self, _: WatchEvent) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._read()
            except SessionExpired:
                continue  # ``on_new_session`` follows
            except NoAuth:
                raise
            except CoordinationError as error:
                self._log.warning("features_read_failed", error=repr(error))
                await self._clock.sleep(RETRY_MS)
                self._changed.set()

    async def _read(self) -> None:
        try:
            found = await self._store().finalized_features(self._fired)
        except MalformedZnode as error:
            self._log.error("features_malformed", error=str(error))
            found = None
        before = self.epoch
        self.levels, self.epoch = found if found is not None else ({}, UNKNOWN_EPOCH)
        if self.epoch != before:
            self._log.info("features_read", epoch=self.epoch, features=dict(self.levels))
