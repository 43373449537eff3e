"""The replica that a consumer should fetch from (KIP-392)."""

from __future__ import annotations

from minikafka.core.replication.replica_selector import SELECTORS, ReplicaView
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.replication.partition import Partition

NO_PREFERENCE = -1


class PreferredReplicas:
    """Chooses the replica for a consumer by ``replica.selector.class``. Without a selector (None)
    consumers fetch from the leader."""

    def __init__(self, cluster: MetadataCache, selector_class: str | None) -> None:
        self._cluster = cluster
        self._select = SELECTORS[selector_class] if selector_class else None

    def for_consumer(
        self, partition: Partition, rack: str, listener: str, fetch_offset: int, now_ms: int
    ) -> int:
        """Return the broker to fetch from instead of this leader, or ``NO_PREFERENCE``.

        Only replicas whose log contains the fetch offset are considered: the others would send the
        consumer back to the leader."""
        if self._select is None or not partition.is_leader:
            return NO_PREFERENCE
        isr = partition.state.isr.committed
        leader = ReplicaView(
            partition.broker_id,
            self._rack(partition.broker_id),
            partition.log.log_end_offset,
            0,
        )
        others = [
            ReplicaView(
                replica,
                self._rack(replica),
                state.log_end_offset,
                now_ms - partition.last_caught_up_ms(replica),
            )
            for replica, state in partition.followers.items()
            if replica in isr
            and state.log_start_offset <= fetch_offset <= state.log_end_offset
            and self._is_reachable(replica, listener)
        ]
        chosen = self._select(rack, leader, others)
        return NO_PREFERENCE if chosen is leader else chosen.broker_id

    def _rack(self, broker_id: int) -> str | None:
        broker = self._cluster.broker(broker_id)
        return None if broker is None else broker.rack

    def _is_reachable(self, broker_id: int, listener: str) -> bool:
        broker = self._cluster.broker(broker_id)
        return broker is not None and broker.endpoint(listener) is not None
