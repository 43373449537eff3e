"""The state of a simulated cluster as messages for the page: all of it, or what has changed.

The page of a real cluster reads the same facts over debug listeners and the protocol. Here they are
read directly while the simulation stands still between two slices. Looking sends nothing, sets no
timer and creates no task, so it does not change what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata

from minikafka.core.entity_changes import EntityChanges
from minikafka.kernel.slices import run_at_once
from minikafka.page.dashboard.messages import EntityKey, Facts, Message, state_message
from minikafka.page.learn.cluster_look import ClusterLook
from minikafka.server.node.broker import BrokerNode
from minikafka.server.node.state_facts import StateFacts
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.world.sim.clock import universal_ms

Entities = Mapping[EntityKey, Facts]
_REACHABLE: EntityKey = ("reachable", "")


class _Source:
    """A source of entities, and the number of the last change that was sent: the cluster, a process
    of a broker (``node``), or a broker that is down."""

    def __init__(self, source: int | None, node: BrokerNode | None) -> None:
        self.node = node
        self.sent = 0
        self._source = source
        self._inside = None if node is None else StateFacts(node.entities)
        self._changes = EntityChanges()

    def message(self, at_ms: int, entities: Entities) -> Message | None:
        """Return what has changed since the last message, in ``entities`` and inside the broker;
        None if nothing has."""
        if self._inside is not None:
            changes = self._inside.at_once(self.sent, entities)
        else:
            run_at_once(self._changes.refresh(entities.items()))
            changes = self._changes.since(self.sent)
        self.sent = changes.last
        if not changes.reset and not changes.changed and not changes.removed:
            return None
        changed = (((each.kind, each.name), each.facts) for each in changes.changed)
        return state_message(self._source, at_ms, changed, changes.removed, changes.reset)


class ClusterState:
    """``more`` returns further entities: with broker None those of the whole cluster."""

    def __init__(
        self,
        cluster: SimCluster,
        more: Callable[[int | None], Entities] = lambda broker: {},
    ) -> None:
        self._cluster = cluster
        self._more = more
        self.look = ClusterLook(cluster, metadata.version("minikafka"))
        self._sources: dict[int | None, _Source] = {}

    @property
    def at_ms(self) -> int:
        """The wall clock of the simulation."""
        return universal_ms(self._cluster.simulation.loop.now_us)

    def whole(self) -> list[Message]:
        """Return messages that replace everything that a reader knows."""
        for source in self._sources.values():
            source.sent = 0
        return self._messages(self.look.entities(whole=True))

    def changes(self) -> list[Message]:
        """Return messages about what has changed since the last call."""
        return self._messages(self.look.entities())

    def _messages(self, entities: Entities) -> list[Message]:
        nodes = self._cluster.nodes()
        found = [self._message(None, None, entities)]
        for broker in self._cluster.broker_ids:
            node = nodes.get(broker)
            reachable = self._down(broker) if node is None else {"debug": True}
            found.append(self._message(broker, node, {_REACHABLE: reachable}))
        return [message for message in found if message is not None]

    def _message(
        self, source: int | None, node: BrokerNode | None, entities: Entities
    ) -> Message | None:
        known = self._sources.get(source)
        if known is None or known.node is not node:
            known = self._sources[source] = _Source(source, node)
        is_down = source is not None and node is None
        return known.message(
            self.at_ms, entities if is_down else {**entities, **self._more(source)}
        )

    def _down(self, broker: int) -> Facts:
        """Say why a broker has no inside to look at."""
        is_alive = self._cluster.is_alive(broker)
        reason = "the broker is starting" if is_alive else "the broker is down"
        return {"debug": False, "reason": reason}
