"""Share groups (KIP-932): records that members take, acknowledge, release and reject."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from minikafka.core.config_resources import ResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.connection import Connection
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.groups.members import refused_as_switched_off
from minikafka.testing.conformance.subject import MAX_BYTES, Subject, Topic, expect_open, pause

HEARTBEAT, FETCH = ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH
ACKNOWLEDGE, DESCRIBE = ApiKey.SHARE_ACKNOWLEDGE, ApiKey.SHARE_GROUP_DESCRIBE
ACCEPT, RELEASE, REJECT = 1, 2, 3
JOINING, LEAVING = 0, -1
Acknowledgement = tuple[int, int, int]  # first offset, last offset, kind


class Member:
    """A member with a share session for partition 0 of one topic."""

    def __init__(self, s: Subject, group: str, topic: Topic) -> None:
        self.s, self.group, self.topic = s, group, topic
        self.member_id = str(uuid4())
        self.epoch = JOINING
        self.session_epoch = 0
        self._connection: Connection | None = None
        s.at_end(partial(self.beat, member_epoch=LEAVING))

    async def connection(self) -> Connection:
        """A share session belongs to its connection."""
        if self._connection is None:
            address = self.s.cluster.brokers[self.topic.leaders[0]]
            self._connection = await self.s.connect(address)
        return self._connection

    async def beat(self, **fields: Any) -> Any:
        request = {
            "group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch,
            **fields,
        }  # fmt: skip
        response = await self.s.ask_coordinator(HEARTBEAT, 0, self.group, **request)
        return refused_as_switched_off(response, "the protocol share")

    async def join(self) -> Any:
        """Join, and send heartbeats until the partition is assigned."""
        response = accepted(await self.beat(subscribed_topic_names=[self.topic.name]))
        first = response
        self.epoch = response.member_epoch
        while response.assignment is None or not response.assignment.topic_partitions:
            await pause()
            response = accepted(await self.beat())
            self.epoch = response.member_epoch
        return first

    async def try_fetch(
        self, acknowledged: Sequence[Acknowledgement] = (), epoch: int | None = None, **fields: Any
    ) -> Any:
        rows = [{"partition_index": 0, "acknowledgement_batches": _batches(acknowledged)}]
        request = {
            "max_wait_ms": 200, "min_bytes": 1, "max_bytes": MAX_BYTES, "max_records": 100,
            "batch_size": 100, "group_id": self.group, "member_id": self.member_id,
            "share_session_epoch": self.session_epoch if epoch is None else epoch,
            "topics": [{"topic_id": self.topic.topic_id, "partitions": rows}], **fields,
        }  # fmt: skip
        return await self.s.ask(FETCH, 0, await self.connection(), **request)

    async def fetch(
        self, acknowledged: Sequence[Acknowledgement] = ()
    ) -> list[tuple[int, int, int]]:
        """Return first offset, last offset and delivery count of the acquired records."""
        response = accepted(await self.try_fetch(acknowledged))
        self.session_epoch += 1
        return [
            (row.first_offset, row.last_offset, row.delivery_count)
            for topic in response.responses
            for partition in topic.partitions
            for row in partition.acquired_records
        ]

    async def take(self) -> list[tuple[int, int, int]]:
        """Fetch until there is something."""
        while not (found := await self.fetch()):
            await pause()
        return found

    async def acknowledge(self, *acknowledged: Acknowledgement) -> int:
        """Send ShareAcknowledge, and return the error of the partition, or of the request."""
        rows = [{"partition_index": 0, "acknowledgement_batches": _batches(acknowledged)}]
        response = await self.s.ask(
            ACKNOWLEDGE, 0, await self.connection(), group_id=self.group, member_id=self.member_id,
            share_session_epoch=self.session_epoch,
            topics=[{"topic_id": self.topic.topic_id, "partitions": rows}],
        )  # fmt: skip
        if response.error_code:
            return int(response.error_code)
        self.session_epoch += 1
        return int(response.responses[0].partitions[0].error_code)


def _batches(acknowledged: Sequence[Acknowledgement]) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}
        for first, last, kind in acknowledged
    ]


async def _member(s: Subject, *values: bytes) -> Member:
    """Return a member of a new group that reads a topic with these records from its start."""
    s.version(HEARTBEAT)
    s.version(FETCH)
    s.version(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    expect_open(s.cluster.features.get("share.version", 1) >= 1, "share.version 1")
    topic, group = await s.topic(), s.group()
    await s.set_config(ResourceType.GROUP, group, "share.auto.offset.reset", "earliest")
    if values:
        await s.produce(topic, *values)
    member = Member(s, group, topic)
    await member.join()
    return member


@check("KIP-932")
async def a_member_joins_and_is_assigned_partitions(s: Subject) -> None:
    """A consumer could not enter the group."""
    member = await _member(s)
    expect_true(member.epoch > 0, f"the epoch is {member.epoch}")


@check("KIP-932")
async def an_unknown_member_is_refused(s: Subject) -> None:
    """A consumer would not notice that it was removed."""
    member = await _member(s)
    response = await member.beat(member_id=str(uuid4()), member_epoch=1)
    expect_error(response.error_code, ErrorCode.UNKNOWN_MEMBER_ID)


@check("KIP-932")
async def a_wrong_epoch_is_fenced(s: Subject) -> None:
    """Two processes with one member id would acknowledge each other's records."""
    member = await _member(s)
    response = await member.beat(member_epoch=member.epoch + 5)
    expect_error(response.error_code, ErrorCode.FENCED_MEMBER_EPOCH)


@check("KIP-932")
async def a_member_that_leaves_is_unknown(s: Subject) -> None:
    """A consumer that was closed would hold records."""
    member = await _member(s)
    response = accepted(await member.beat(member_epoch=LEAVING))
    expect("the epoch of the response", response.member_epoch, LEAVING)
    response = await member.beat()
    expect_error(response.error_code, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@check("KIP-932")
async def records_are_taken_with_their_delivery_count(s: Subject) -> None:
    """A consumer could not tell a record that failed before."""
    member = await _member(s, b"0", b"1")
    expect("what was acquired", await member.take(), [(0, 1, 1)])


@check("KIP-932")
async def what_a_member_has_taken_nobody_else_gets(s: Subject) -> None:
    """Two consumers would process the same records."""
    member = await _member(s, b"0")
    await member.take()
    other = Member(s, member.group, member.topic)
    await other.join()
    expect("what the other one acquired", await other.fetch(), [])


@check("KIP-932")
async def accepted_records_do_not_come_back(s: Subject) -> None:
    """A consumer would process records twice."""
    member = await _member(s, b"0", b"1")
    await member.take()
    expect_error(await member.acknowledge((0, 1, ACCEPT)), ErrorCode.NONE)
    expect("what was acquired", await member.fetch(), [])


@check("KIP-932")
async def a_fetch_can_acknowledge(s: Subject) -> None:
    """A consumer would need a request more for each batch."""
    member = await _member(s, b"0")
    await member.take()
    expect("what was acquired", await member.fetch([(0, 0, ACCEPT)]), [])
    accepted(await member.try_fetch(epoch=LEAVING, topics=[]))
    other = Member(s, member.group, member.topic)
    await other.join()
    expect("what another one acquired", await other.fetch(), [])


@check("KIP-932")
async def released_records_come_back_with_a_higher_count(s: Subject) -> None:
    """A record whose processing failed would be lost."""
    member = await _member(s, b"0")
    await member.take()
    expect_error(await member.acknowledge((0, 0, RELEASE)), ErrorCode.NONE)
    expect("what was acquired", await member.take(), [(0, 0, 2)])


@check("KIP-932")
async def rejected_records_do_not_come_back(s: Subject) -> None:
    """A record that can never be processed would block its consumers."""
    member = await _member(s, b"0")
    await member.take()
    expect_error(await member.acknowledge((0, 0, REJECT)), ErrorCode.NONE)
    expect("what was acquired", await member.fetch(), [])


@check("KIP-932")
async def what_was_not_taken_cannot_be_acknowledged(s: Subject) -> None:
    """A consumer would acknowledge records of another one."""
    member = await _member(s, b"0", b"1")
    await member.take()
    other = Member(s, member.group, member.topic)
    await other.join()
    await other.fetch()
    expect_error(await other.acknowledge((0, 1, ACCEPT)), ErrorCode.INVALID_RECORD_STATE)


@check("KIP-932, ShareSession")
async def a_session_begins_with_epoch_0(s: Subject) -> None:
    """A consumer would not notice that the broker has forgotten what it reads."""
    member = await _member(s)
    response = await member.try_fetch(epoch=1)
    expect_error(response.error_code, ErrorCode.SHARE_SESSION_NOT_FOUND)


@check("KIP-932, ShareSession")
async def a_wrong_epoch_of_the_session_is_refused(s: Subject) -> None:
    """A request that got lost would leave consumer and broker with different partitions."""
    member = await _member(s)
    await member.fetch()
    response = await member.try_fetch(epoch=7)
    expect_error(response.error_code, ErrorCode.INVALID_SHARE_SESSION_EPOCH)


@check("KIP-932, ShareSession")
async def the_end_of_a_session_releases_its_records(s: Subject) -> None:
    """The records of a consumer that was closed would come back late."""
    member = await _member(s, b"0")
    await member.take()
    accepted(await member.try_fetch(epoch=LEAVING, topics=[]))
    other = Member(s, member.group, member.topic)
    await other.join()
    expect("what the other one acquired", [row[:2] for row in await other.take()], [(0, 0)])


@check("KIP-932")
async def a_share_group_can_be_described(s: Subject) -> None:
    """An operator could not see who reads a topic."""
    s.version(DESCRIBE)
    member = await _member(s)
    described = await s.ask_coordinator(DESCRIBE, 0, member.group, group_ids=[member.group])
    found = accepted(described).groups[0]
    expect("the state", found.group_state, "Stable")
    expect("the members", [row.member_id for row in found.members], [member.member_id])


@check("KIP-932")
async def an_unknown_share_group_cannot_be_described(s: Subject) -> None:
    """An operator would not notice a misspelled group."""
    group = s.name()
    found = (await s.ask_coordinator(DESCRIBE, 0, group, group_ids=[group])).groups[0]
    refused_as_switched_off(found, "the protocol share")
    expect_error(found.error_code, ErrorCode.GROUP_ID_NOT_FOUND)
