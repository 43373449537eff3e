"""The throttled replicas of a topic, parsed from its configuration (KIP-73)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The value of ``leader.replication.throttled.replicas`` or of
    ``follower.replication.throttled.replicas``: (partition, broker id) of each throttled replica,
    or all replicas if ``everywhere``."""

    replicas: frozenset[tuple[int, int]] = frozenset()
    everywhere: bool = False

    @classmethod
    def parse(cls, items: Iterable[str]) -> ThrottledReplicas:
        """Parse the items of the list: ``partition:broker`` or ``*``. The configuration has
        validated them already."""
        listed = tuple(items)
        if ALL in listed:
            return cls(everywhere=True)
        pairs = (item.split(":") for item in listed)
        return cls(frozenset((int(partition), int(broker)) for partition, broker in pairs))

    def includes(self, partition: int, broker_id: int) -> bool:
        return self.everywhere or (partition, broker_id) in self.replicas


NO_REPLICAS: Final = ThrottledReplicas()
