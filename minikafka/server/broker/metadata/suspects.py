"""``Suspects``: brokers whose connection to this one has just ended, so that they may be gone."""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.core.metadata_image import MetadataImage

HOLD_S: Final = 0.5


class Suspects:
    """Lets clients find new leaders at once when a broker is gone.

    A client whose leader dies requests metadata within the same millisecond, long before the
    controller has acted. If the response names the dead leader, librdkafka sends the next request
    up to a second later. So the response is held back until the broker is found alive, or until the
    metadata name others in its place, ``HOLD_S`` at most.
    """

    def __init__(self) -> None:
        self._suspected: dict[int, asyncio.TimerHandle] = {}
        self._settled = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._suspected)

    def add(self, broker_id: int) -> None:
        self.discard(broker_id)
        loop = asyncio.get_running_loop()
        self._suspected[broker_id] = loop.call_later(HOLD_S, self.discard, broker_id)
        self._settled.clear()

    def discard(self, broker_id: int) -> None:
        timer = self._suspected.pop(broker_id, None)
        if timer is not None:
            timer.cancel()
        if not self._suspected:
            self._settled.set()

    def look_at(self, image: MetadataImage) -> None:
        """Discard those that the metadata name neither as a live broker nor as a leader."""
        for broker_id in list(self._suspected):
            if broker_id not in image.brokers and not any(
                partition.leader == broker_id
                for partitions in image.topics.values()
                for partition in partitions.values()
            ):
                self.discard(broker_id)

    async def settled(self) -> None:
        """Return as soon as nobody is suspected."""
        while self._suspected:
            await self._settled.wait()
