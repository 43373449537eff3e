"""The facts of a simulated cluster that exist for any Kafka: nodes, topics, groups, transactions.

They have the shapes of ``dashboard/cluster_facts.py``. There they come over the protocol; here they
are read directly, from the znode tree and from the brokers that lead and coordinate, while the
simulation stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from minikafka.core.client.admin.groups import (
    GroupDescription,
    GroupListing,
    describe_consumer_groups,
    describe_groups,
)
from minikafka.core.client.admin.share_groups import SharePartitionStart, describe_share_groups
from minikafka.core.client.admin.transactions import describe_transactions
from minikafka.core.client.cluster_view import ClusterView, Node, PartitionView, TopicView
from minikafka.core.client.offsets import OffsetAndMetadata
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.description import listed
from minikafka.core.group.result import AnyGroup
from minikafka.core.group.share.group import ShareGroup
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    NO_LEADER,
    LeaderAndIsr,
    TopicPartition,
)
from minikafka.kernel.errors import KafkaError
from minikafka.page.dashboard.cluster_facts import (
    MAX_GROUPS,
    MAX_PARTITIONS,
    MAX_TRANSACTIONS,
    BrokerAbout,
    PartitionOffsets,
    cluster_facts,
    node_facts,
    reassignment_facts,
    shown_topics,
    topic_facts,
    totals,
    transaction_facts,
)
from minikafka.page.dashboard.group_facts import group_facts, share_group_facts
from minikafka.page.dashboard.messages import EntityKey, Facts
from minikafka.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from minikafka.protocol.messages.describe_groups import DescribeGroupsResponse
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsResponse
from minikafka.protocol.messages.share_group_describe import ShareGroupDescribeResponse
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.coordinator.group_coordinator import GroupCoordinator
from minikafka.server.node.broker import BrokerNode
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.znodes import (
    ClusterIdZnode,
    ControllerZnode,
    PartitionStateZnode,
    TopicZnode,
)
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name

_NO_STATE: Final = LeaderAndIsr(NO_LEADER, -1, ())

MANY: Final = 100  # partitions: the offsets of a larger topic are read less often
MANY_EVERY_US: Final = 500_000  # of simulated time

T = TypeVar("T")
Entities = dict[EntityKey, Facts]


class _ShownTopic(NamedTuple):
    """The facts of a topic, and what they were made of at ``read_us``."""

    view: TopicView
    offsets: Mapping[TopicPartition, PartitionOffsets]
    read_us: int
    facts: Facts


class ClusterLook:
    """Reads the facts of a cluster. What the znodes say is decoded when they have changed."""

    def __init__(self, cluster: SimCluster, version: str) -> None:
        self._cluster = cluster
        self._about = BrokerAbout(version, None)
        self._tree = cluster.simulation.zookeeper.tree
        self._decoded: dict[str, tuple[int, object]] = {}  # by path, with the mzxid
        self._zxid: int | None = None
        self._online: tuple[int, ...] = ()
        self._view = ClusterView()
        self._totals = totals(())
        self._topics: dict[str, TopicZnode] = {}
        # The view of each topic, with its znode and the versions of its states.
        self._views: dict[str, tuple[TopicZnode, object, TopicView]] = {}
        self._shown: dict[str, _ShownTopic] = {}

    def entities(self, whole: bool = False) -> Entities:
        """Return all entities; ``whole``: with the present offsets of all topics."""
        if whole:
            self._shown.clear()
        nodes = self._cluster.nodes()
        self._refresh(tuple(nodes))
        view = self._view
        shown = shown_topics(view.topics, ())
        entities: Entities = {
            ("topic", topic.name): self._topic_facts(nodes, topic) for topic in shown
        }
        groups, count = self._groups(nodes)
        transactions = self._transactions(nodes)
        entities |= groups | transactions | self._nodes(nodes) | self._reassignments()
        entities["cluster", ""] = cluster_facts(
            view,
            ",".join(f"{host_name(broker)}:{PORT}" for broker in self._cluster.broker_ids),
            self._totals,
            count,
            {
                "topics": len(shown),
                "partitions": sum(len(topic.partitions) for topic in shown),
                "groups": len(groups),
                "transactions": len(transactions),
            },
            (),
        )
        return entities

    @property
    def cluster_id(self) -> str | None:
        return self._read(paths.CLUSTER_ID, lambda data: ClusterIdZnode.decode(data).cluster_id)

    def topic_id(self, topic: str) -> UUID | None:
        znode = self._topic(topic)
        return None if znode is None else znode.topic_id

    @property
    def leaderships(self) -> Mapping[TopicPartition, LeaderAndIsr]:
        """Return leader and ISR of every partition, as the znodes have them."""
        self._refresh(self._online)
        return {
            TopicPartition(topic.name, number): LeaderAndIsr(row.leader, row.leader_epoch, row.isr)
            for topic in self._view.topics.values()
            for number, row in topic.partitions.items()
        }

    # ------------------------------------------------------------------------------------- znodes

    def _refresh(self, online: tuple[int, ...]) -> None:
        if self._zxid == self._tree.zxid and self._online == online:
            return
        self._zxid, self._online = self._tree.zxid, online
        root = self._tree.nodes.get(paths.TOPICS)
        names = sorted(root.children) if root is not None else []
        read = {name: self._topic(name) for name in names}
        self._topics = {name: znode for name, znode in read.items() if znode is not None}
        topics = {name: self._topic_view(znode) for name, znode in self._topics.items()}
        self._totals = totals(topics.values())
        controller = self._read(paths.CONTROLLER, lambda it: ControllerZnode.decode(it).broker_id)
        self._view = ClusterView(
            cluster_id=self.cluster_id,
            controller_id=-1 if controller is None else controller,
            nodes={broker: Node(broker, host_name(broker), PORT) for broker in online},
            topics=topics,
        )

    def _read(self, path: str, decode: Callable[[bytes], T]) -> T | None:
        """Return what a znode says; None if it is not there or malformed."""
        znode = self._tree.nodes.get(path)
        if znode is None:
            self._decoded.pop(path, None)
            return None
        known = self._decoded.get(path)
        if known is None or known[0] != znode.mzxid:
            try:
                known = (znode.mzxid, decode(znode.data))
            except MalformedZnode:
                known = (znode.mzxid, None)
            self._decoded[path] = known
        found: T | None = known[1]  # type: ignore[assignment]
        return found

    def _topic(self, name: str) -> TopicZnode | None:
        return self._read(paths.topic(name), lambda data: TopicZnode.decode(name, data))

    def _topic_view(self, znode: TopicZnode) -> TopicView:
        tree = self._tree.nodes
        states = (
            tree.get(paths.partition_state(TopicPartition(znode.topic, number)))
            for number in znode.assignment
        )
        versions = (self._online, [None if state is None else state.mzxid for state in states])
        known = self._views.get(znode.topic)
        if known is None or known[0] is not znode or known[1] != versions:
            known = self._views[znode.topic] = (znode, versions, self._new_topic_view(znode))
        return known[2]

    def _new_topic_view(self, znode: TopicZnode) -> TopicView:
        return TopicView(
            znode.topic,
            is_internal=znode.topic in INTERNAL_TOPICS,
            partitions={
                number: self._partition_view(TopicPartition(znode.topic, number), row.replicas)
                for number, row in znode.assignment.items()
            },
        )

    def _partition_view(self, tp: TopicPartition, replicas: tuple[int, ...]) -> PartitionView:
        def decode(data: bytes) -> LeaderAndIsr:
            return PartitionStateZnode.decode(tp, data, 0).state.leader_and_isr

        state = self._read(paths.partition_state(tp), decode) or _NO_STATE
        offline = tuple(broker for broker in replicas if broker not in self._online)
        return PartitionView(
            tp.partition, state.leader, state.leader_epoch, replicas, state.isr, offline
        )

    # ------------------------------------------------------------------------------------- others

    def _topic_facts(self, nodes: Mapping[int, BrokerNode], topic: TopicView) -> Facts:
        known = self._shown.get(topic.name)
        now_us = self._cluster.simulation.loop.now_us
        if known is not None and known.view is not topic:
            known = None
        every_us = MANY_EVERY_US if len(topic.partitions) > MANY else 0
        if known is not None and now_us - known.read_us < every_us:
            return known.facts
        leaders = {
            TopicPartition(topic.name, number): self._leader(nodes, topic.name, number)
            for number in islice(topic.partitions, MAX_PARTITIONS)
        }
        offsets = {tp: _offsets(leader) for tp, leader in leaders.items() if leader is not None}
        if known is not None and known.offsets == offsets:
            facts = known.facts
        else:
            facts = topic_facts(topic, offsets)
        self._shown[topic.name] = _ShownTopic(topic, offsets, now_us, facts)
        return facts

    def _leader(
        self, nodes: Mapping[int, BrokerNode], topic: str, partition: int
    ) -> Partition | None:
        node = nodes.get(self._view.topics[topic].partitions[partition].leader)
        if node is None:
            return None
        return node.entities.partitions.get(TopicPartition(topic, partition))

    def _nodes(self, nodes: Mapping[int, BrokerNode]) -> Entities:
        """Return every broker. It is online if its process runs, whatever ZooKeeper has."""
        return {
            ("node", str(broker)): node_facts(
                Node(broker, host_name(broker), PORT),
                broker in nodes,
                broker == self._view.controller_id,
                self._about,
            )
            for broker in self._cluster.broker_ids
        }

    def _groups(self, nodes: Mapping[int, BrokerNode]) -> tuple[Entities, int]:
        """Return the first groups, and how many there are. A group that a deposed coordinator still
        has counts once: the coordinator that leads the partition is preferred."""
        found: dict[str, tuple[bool, int, AnyGroup]] = {}
        for broker, group, leads in self._coordinated(nodes):
            known = found.get(group.group_id)
            if known is None or (leads and not known[0]):
                found[group.group_id] = (leads, broker, group)
        entities: Entities = {}
        for name in sorted(found)[:MAX_GROUPS]:
            _, broker, group = found[name]
            entities["consumer_group", name] = self._group(nodes, broker, group)
        return entities, len(found)

    def _coordinated(self, nodes: Mapping[int, BrokerNode]) -> Iterator[tuple[int, AnyGroup, bool]]:
        for broker, node in nodes.items():
            for context, group in node.entities.groups.groups():
                state = self._partition(GROUP_METADATA_TOPIC, context.partition)
                yield broker, group, state is not None and state.leader == broker

    def _partition(self, topic: str, number: int) -> PartitionView | None:
        view = self._view.topics.get(topic)
        return None if view is None else view.partitions.get(number)

    def _group(self, nodes: Mapping[int, BrokerNode], broker: int, group: AnyGroup) -> Facts:
        listed_group = listed(group)
        listing = GroupListing(
            group.group_id,
            listed_group.protocol_type,
            listed_group.group_state,
            listed_group.group_type,
        )
        if isinstance(group, ShareGroup):
            return self._share_group(nodes, broker, listing)
        described = _described(nodes[broker].entities.groups, group, broker)
        committed, ends = {}, {}
        for tp in sorted(group.offsets):
            at = group.offsets.get(tp)
            if at is not None:
                committed[tp] = OffsetAndMetadata(at.offset, at.metadata, at.leader_epoch)
            known = self._partition(tp.topic, tp.partition)
            leader = None if known is None else self._leader(nodes, *tp)
            if leader is not None and leader.has_log:
                ends[tp] = leader.high_watermark
        description = None if isinstance(described, KafkaError) else described
        return group_facts(listing, broker, description, committed, ends)

    def _share_group(
        self, nodes: Mapping[int, BrokerNode], broker: int, listing: GroupListing
    ) -> Facts:
        name = listing.group_id
        row = nodes[broker].entities.groups.describe_share_group(name)
        call = describe_share_groups([name], Node(broker, host_name(broker), PORT))
        described = call.read(ShareGroupDescribeResponse(groups=[row]))[name]
        starts, leaders = {}, {}
        for leader, node in nodes.items():
            for led in node.entities.shares:
                tp, machine = led.topic_partition, led.machine
                if led.key.group_id == name and machine is not None and led.error is None:
                    leaders[tp] = leader
                    end = node.entities.partitions.require(tp).high_watermark
                    left = end - machine.start_offset - machine.delivery_complete_count
                    start = SharePartitionStart(machine.start_offset, led.leader_epoch, left)
                    starts[tp] = start
        description = None if isinstance(described, KafkaError) else described
        return share_group_facts(listing, broker, description, starts, leaders)

    def _transactions(self, nodes: Mapping[int, BrokerNode]) -> Entities:
        entities: Entities = {}
        for broker, node in nodes.items():
            coordinator = node.entities.transactions
            names = [each.transactional_id for each in coordinator.all_transactions()]
            call = describe_transactions(names[:MAX_TRANSACTIONS], broker)
            rows = [coordinator.describe(name) for name in names[:MAX_TRANSACTIONS]]
            described = call.read(DescribeTransactionsResponse(transaction_states=rows))
            for name, outcome in described.items():
                if not isinstance(outcome, KafkaError):
                    entities["txn", name] = transaction_facts(outcome)
        return dict(islice(sorted(entities.items()), MAX_TRANSACTIONS))

    def _reassignments(self) -> Entities:
        moving = (
            (TopicPartition(name, number), assignment)
            for name, znode in self._topics.items()
            for number, assignment in znode.assignment.items()
            if assignment.adding or assignment.removing
        )
        return {
            ("reassignment", str(tp)): reassignment_facts(assignment)
            for tp, assignment in islice(moving, MAX_PARTITIONS)
        }


def _offsets(partition: Partition) -> PartitionOffsets:
    if not partition.has_log:
        return PartitionOffsets()
    return PartitionOffsets(
        partition.log.log_start_offset, partition.high_watermark, partition.last_stable_offset
    )


def _described(
    groups: GroupCoordinator, group: AnyGroup, broker: int
) -> GroupDescription | KafkaError:
    """Describe a group as the admin client reads the coordinator's response."""
    name, coordinator = group.group_id, Node(broker, host_name(broker), PORT)
    if isinstance(group, ConsumerGroup):
        consumer_row = groups.describe_consumer_group(name)
        response = ConsumerGroupDescribeResponse(groups=[consumer_row])
        return describe_consumer_groups([name], coordinator).read(response)[name]
    row = groups.describe(name)
    return describe_groups([name], coordinator).read(DescribeGroupsResponse(groups=[row]))[name]
