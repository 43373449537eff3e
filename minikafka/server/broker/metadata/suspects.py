"""``Suspects``: brokers whose connection to this one has just ended, so that they may be gone."""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.cluster import Broker

HOLD_S: Final = 0.5
LISTED_S: Final = 0.3


class Suspects:
    """Lets clients find new leaders at once when a broker is gone.

    A client whose leader dies requests metadata within the same millisecond, long before the
    controller has acted. librdkafka sends the next request up to a second later if the response

    - names the dead leader. So the response is held back until the broker is found alive, or until
      the metadata name others in its place, ``HOLD_S`` at most;
    - names new leaders, but does not list the dead broker any more: when it drops a broker, it also
      drops what it has just read of the partitions that this broker led. So a broker that was
      suspected stays listed for ``LISTED_S`` when it has gone. No longer: librdkafka repeats a
      request that it sent to the dead broker until that broker is listed no more, and may request
      metadata only once within the first second.
    """

    def __init__(self) -> None:
        self._suspected: dict[int, asyncio.TimerHandle] = {}
        self._settled = asyncio.Event()
        self._gone: dict[int, tuple[Broker, float]] = {}  # until when it is listed

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

    def look_at(self, before: MetadataImage, after: MetadataImage) -> None:
        """Discard those that the metadata name neither as a live broker nor as a leader."""
        for broker_id in list(self._suspected):
            if broker_id in after.brokers:
                continue
            if broker_id in before.brokers:
                self._gone[broker_id] = before.brokers[broker_id], _now() + LISTED_S
            if not any(
                partition.leader == broker_id
                for partitions in after.topics.values()
                for partition in partitions.values()
            ):
                self.discard(broker_id)

    def listed(self, image: MetadataImage) -> list[Broker]:
        """Return the live brokers, and those that have just gone, sorted by id."""
        now = _now() if self._gone else 0.0
        self._gone = {each: gone for each, gone in self._gone.items() if gone[1] > now}
        gone = {each: broker for each, (broker, _) in self._gone.items()}
        brokers = {**gone, **image.brokers}
        return [brokers[broker_id] for broker_id in sorted(brokers)]

    async def settled(self) -> None:
        """Return as soon as nobody is suspected."""
        while self._suspected:
            await self._settled.wait()


def _now() -> float:
    return asyncio.get_running_loop().time()
