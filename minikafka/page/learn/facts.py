"""The state of a simulated cluster as messages for the page: all of it, or what has changed.

The page of a real cluster reads the same facts over debug listeners and the protocol. Here they are
read directly while the simulation stands still between two slices. Looking sends nothing, sets no
timer and creates no task, so it does not change what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata

from minikafka.page.dashboard.messages import EntityKey, Facts, Message, state_message
from minikafka.page.learn.cluster_look import ClusterLook
from minikafka.server.node.broker import BrokerNode
from minikafka.server.node.state_facts import StateFacts
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.world.sim.clock import universal_ms

Entities = Mapping[EntityKey, Facts]
_REACHABLE: EntityKey = ("reachable", "")


class _BrokerLook:
    """The inside of a broker's present process, and the number of the last change that was sent."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node
        self.facts = StateFacts(node.entities)
        self.sent = 0


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
        self._brokers: dict[int, _BrokerLook] = {}
        self._sent: dict[int | None, Entities] = {}  # by source, but for the inside of brokers

    @property
    def at_ms(self) -> int:
        """The wall clock of the simulation."""
        return universal_ms(self._cluster.simulation.loop.now_us)

    def whole(self) -> list[Message]:
        """Return messages that replace everything that a reader knows."""
        self._sent.clear()
        for look in self._brokers.values():
            look.sent = 0
        return self._changes(self.look.entities(whole=True))

    def changes(self) -> list[Message]:
        """Return messages about what has changed since the last call."""
        return self._changes(self.look.entities())

    def _changes(self, entities: Entities) -> list[Message]:
        found = [self._of_source(None, {**entities, **self._more(None)})]
        nodes = self._cluster.nodes()
        for broker in self._cluster.broker_ids:
            node = nodes.get(broker)
            found.append(self._down(broker) if node is None else self._up(broker, node))
        return [message for message in found if message is not None]

    # ------------------------------------------------------------------------------------ sources

    def _of_source(self, source: int | None, entities: Entities) -> Message | None:
        sent = self._sent.get(source)
        self._sent[source] = entities
        if sent is None:
            return state_message(source, self.at_ms, entities.items(), reset=True)
        changed = [
            (key, facts)
            for key, facts in entities.items()
            if (before := sent.get(key)) is not facts and before != facts
        ]
        removed = [key for key in sent if key not in entities]
        if not changed and not removed:
            return None
        return state_message(source, self.at_ms, changed, removed)

    def _down(self, broker: int) -> Message | None:
        """Return that a broker has no inside to look at, if that is new."""
        if self._brokers.pop(broker, None) is not None:
            self._sent.pop(broker, None)
        is_alive = self._cluster.is_alive(broker)
        reason = "the broker is starting" if is_alive else "the broker is down"
        return self._of_source(broker, {_REACHABLE: {"debug": False, "reason": reason}})

    def _up(self, broker: int, node: BrokerNode) -> Message | None:
        look = self._brokers.get(broker)
        if look is None or look.node is not node:
            look = self._brokers[broker] = _BrokerLook(node)
            self._sent.pop(broker, None)
        more: Entities = {_REACHABLE: {"debug": True}, **self._more(broker)}
        message = self._of_source(broker, more)
        changes = look.facts.at_once(look.sent)
        look.sent = changes.last
        if message is None:
            if not changes.changed and not changes.removed:
                return None
            message = state_message(broker, self.at_ms, ())
        for _, kind, name, facts in changes.changed:
            message["changed"].append({"kind": kind, "name": name, "facts": facts})
        for kind, name in changes.removed:
            message["removed"].append({"kind": kind, "name": name})
        message["reset"] = message["reset"] or changes.reset
        return message
