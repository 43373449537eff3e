"""Which replicas of a topic are throttled, as its configuration lists them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """Of ``leader.replication.throttled.replicas`` or ``follower.replication.throttled.replicas``:
    partition and broker of each replica, or all of them."""

    replicas: frozenset[tuple[int, int]] = frozenset()
    everywhere: bool = False

    @classmethod
    def parse(cls, items: Iterable[str]) -> ThrottledReplicas:
        """From the items of the list, ``partition:broker`` each, or ``*``, which the configuration
        has checked."""
        listed = tuple(items)
        if ALL in listed:
            return cls(everywhere=True)
        pairs = (item.split(":") for item in listed)
        return cls(frozenset((int(partition), int(broker)) for partition, broker in pairs))

    def includes(self, partition: int, broker_id: int) -> bool:
        return self.everywhere or (partition, broker_id) in self.replicas


NO_REPLICAS: Final = ThrottledReplicas()
