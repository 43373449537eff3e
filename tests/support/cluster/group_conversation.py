"""The requests about groups to one broker, to compare its responses and records with another's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import combinations, groupby
from typing import Any, TypeVar
from uuid import UUID

from minikafka.core.group.modern.metadata_hash import hash_of
from minikafka.core.group.records import (
    GroupRecord,
    GroupStored,
    ModernGroupRecord,
    decode_record,
    encode_record,
)
from minikafka.core.metadata_image import MetadataImage, PartitionMetadata
from minikafka.network.channel import Channel
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.consumer_group_log import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from minikafka.protocol.messages.list_groups import ListGroupsResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.share_group_membership_log import ShareGroupMetadataValue
from minikafka.protocol.messages.streams_group_log import StreamsGroupMetadataValue
from minikafka.protocol.records.record import decode_records
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock
from scripts.lib.kraft_broker import RACK

TIMEOUT_MS = 20_000
BROKER = 1  # the id of the only broker
GROUP_RESOURCE = 32  # the type of config resource
METADATA_VALUES = (ConsumerGroupMetadataValue, ShareGroupMetadataValue, StreamsGroupMetadataValue)


def alter_group(name: str, changes: Mapping[str, str | None]) -> IncrementalAlterConfigsRequest:
    """Build the request that sets the settings of a group, or deletes those that are None."""
    rows = [
        IncrementalAlterableConfig(key, int(value is None), value) for key, value in changes.items()
    ]
    return IncrementalAlterConfigsRequest(
        [IncrementalAlterConfigsResource(GROUP_RESOURCE, name, rows)]
    )


PROBE = "probe"  # a group that is not compared


class GroupConversation:
    """The requests of a test to one broker, and the texts of the responses, in which names stand
    for topic ids and for the ids of members that the broker has made.

    ``begin`` creates topics with these partition counts. Others may use the broker: groups that no
    request of this conversation names are left out. So are the records of the group ``without``."""

    def __init__(
        self,
        channel: Channel,
        group: str,
        partitions: Mapping[str, int],
        without: str | None = None,
    ) -> None:
        self._channel = channel
        self.group = group
        self._partitions = dict(partitions)
        self._without = without
        self._groups: set[str] = set()
        self.ids: dict[str, UUID] = {}
        self.member_ids: dict[str, str] = {}
        self.answers: list[tuple[str, str]] = []

    async def begin(self) -> None:
        """Create the topics, and wait until the coordinator is there and knows them."""
        topics = [CreatableTopic(name, count, 1) for name, count in self._partitions.items()]
        await self.request(CreateTopicsRequest(topics, timeout_ms=TIMEOUT_MS), 5)
        await self.until_topics(*self._partitions)
        await self.request(FindCoordinatorRequest(self.group, 0), 3)  # makes the internal topic
        names = list(self._partitions)
        joins = ConsumerGroupHeartbeatRequest(
            PROBE, "m", 0, None, None, 60_000, names, topic_partitions=[]
        )
        for _ in range(200):
            response = await self._channel.request(joins, 1, TIMEOUT_MS)
            assigned = response.assignment and response.assignment.topic_partitions
            if assigned and len(assigned) == len(names):
                break
            await asyncio.sleep(0.1)
            leaves = ConsumerGroupHeartbeatRequest(PROBE, "m", -1)
            await self._channel.request(leaves, 1, TIMEOUT_MS)

    async def until_topics(self, *names: str) -> list[int]:
        """Wait until topics are there, and return their partition counts."""
        wanted = MetadataRequest(
            [MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        for _ in range(200):
            topics = (await self.request(wanted, 12)).topics
            if not any(topic.error_code for topic in topics):
                self.ids |= {topic.name: topic.topic_id for topic in topics}
                self._partitions |= {topic.name: len(topic.partitions) for topic in topics}
                return [len(topic.partitions) for topic in topics]
            await asyncio.sleep(0.1)
        raise AssertionError(names)

    async def request(self, message: Any, version: int) -> Any:
        self._groups.add(getattr(message, "group_id", ""))
        return await self._channel.request(message, version, TIMEOUT_MS)

    async def ask(self, label: str, message: Any, version: int = 0) -> Any:
        response = await self.request(message, version)
        self.note(label, response)
        return response

    def note(self, label: str, response: Any) -> None:
        """Add a response to those that are compared."""
        if isinstance(response, ListGroupsResponse):
            response.groups = [row for row in response.groups if row.group_id in self._groups]
        self._tidy(response)
        self.answers.append((f"{self.group}: {label}", self._named(response)))

    def _named(self, value: Any) -> str:
        text = repr(value)
        for name, topic_id in self.ids.items():
            text = text.replace(repr(topic_id), f"<{name}>")
        for name, member_id in self.member_ids.items():
            text = text.replace(member_id, f"<{name}>")
        return text

    def _tidy(self, value: Any) -> None:
        """Sort rows of topics and members: Kafka's are in the order of a hash map. Leave out topics
        without partitions."""
        names = {topic_id: name for name, topic_id in self.ids.items()}
        if isinstance(value, list):
            # A share group's target of Kafka keeps topics without partitions.
            value[:] = [each for each in value if getattr(each, "partitions", None) != []]
            for each in value:
                self._tidy(each)
            if value and hasattr(value[0], "topic_id"):
                value.sort(key=lambda row: names.get(row.topic_id, ""))
            elif value and hasattr(value[0], "config_source"):
                value.sort(key=lambda row: str(row.name))
            elif value and hasattr(value[0], "member_id"):
                value.sort(key=lambda row: self._named(row.member_id))
        elif is_dataclass(value):
            for each in fields(value):
                self._tidy(getattr(value, each.name))

    async def until_resolved(self) -> None:
        """Wait until a regular expression of the group is resolved, which is in the background."""

        while True:
            for record in await self._stored():
                if (
                    isinstance(record, ModernGroupRecord)
                    and isinstance(record.value, ConsumerGroupRegularExpressionValue)
                    and record.group_id == self.group
                ):
                    return
            await asyncio.sleep(0.1)

    async def records(self) -> list[str]:
        """Return the records of the groups, and check that we would write their bytes."""
        names = self._groups - {self._without}
        found = [record for record in await self._stored() if record.group_id in names]
        hashes = _hashes(self.ids, self._partitions)
        return [
            text
            for _, some in groupby(found, _kind)
            for text in sorted(self._text(record, hashes) for record in some)
        ]

    async def _stored(self) -> list[GroupRecord]:
        name = "__consumer_offsets"
        topic = FetchTopic(name, partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
        response = await self.request(FetchRequest(max_wait_ms=100, topics=[topic]), 11)
        found: list[GroupRecord] = []
        for record in decode_records(response.responses[0].partitions[0].records):
            decoded = decode_record(record.key or b"", record.value)
            if _is_compared(decoded):
                assert decoded is not None
                assert encode_record(decoded) == (record.key, record.value)
                found.append(decoded)
        return found

    def _text(self, record: GroupRecord, hashes: Mapping[int, tuple[str, ...]]) -> str:
        assert isinstance(record, ModernGroupRecord | GroupStored)
        self._tidy(record.value)
        if isinstance(record.value, METADATA_VALUES):
            topics = hashes[record.value.metadata_hash]
            record.value.metadata_hash = 0
            return f"{topics} {self._named(record)}"
        if isinstance(record.value, ConsumerGroupRegularExpressionValue):
            record.value.version = record.value.timestamp = 0
        if isinstance(record, GroupStored) and record.value is not None:
            record.value.current_state_timestamp = 0
        return self._named(record)


def _hashes(ids: Mapping[str, UUID], partitions: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
    """Return the subscribed topics by the hash that a record of the group has of them."""
    partition = PartitionMetadata(BROKER, 0, (BROKER,), (BROKER,), (), 0, 0)
    topics = {name: dict.fromkeys(range(count), partition) for name, count in partitions.items()}
    image = MetadataImage(topics=topics, topic_ids=ids, racks={BROKER: RACK})
    subsets = (some for size in range(len(ids) + 1) for some in combinations(sorted(ids), size))
    return {hash_of(some, image): some for some in subsets}


def _is_compared(record: GroupRecord | None) -> bool:
    """Kafka 4 writes an empty generation 0 when a classic group is created."""
    if isinstance(record, GroupStored):
        return record.value is None or record.value.generation > 0
    return isinstance(record, ModernGroupRecord)


def _kind(record: GroupRecord) -> object:
    """Records of one kind that follow each other are in the order of a hash map."""
    return type(record.key) if isinstance(record, ModernGroupRecord) else None


Conversation = TypeVar("Conversation", bound=GroupConversation)


def assert_same(
    theirs: str,
    ours: str,
    make: Callable[[Channel], Conversation],
    scenes: Sequence[Callable[[Conversation], Awaitable[None]]],
) -> None:
    """Play the scenes at two addresses, and compare the responses and the records."""
    responses, records = asyncio.run(_play(theirs, make, scenes))
    our_responses, our_records = asyncio.run(_play(ours, make, scenes))
    for (label, expected), (_, response) in zip(responses, our_responses, strict=True):
        assert response == expected, f"{label}: {response}, by Kafka {expected}"
    for expected, record in zip(records, our_records, strict=True):
        assert record == expected


async def _play(
    address: str,
    make: Callable[[Channel], Conversation],
    scenes: Sequence[Callable[[Conversation], Awaitable[None]]],
) -> tuple[list[tuple[str, str]], list[str]]:
    host, _, port = address.rpartition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "client")
    try:
        talk = make(channel)
        await talk.begin()
        for scene in scenes:
            await scene(talk)
        return talk.answers, await talk.records()
    finally:
        channel.close()
