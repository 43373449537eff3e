"""A group in a simulated cluster: members that commit what grows, and what must never happen."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from minikafka.client.coordinators import find_coordinator
from minikafka.client.session import Client
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerTopicPartitions,
)
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.protocol.schema import Message
from minikafka.simulator.cluster import SimCluster

GROUP = "travellers"
SESSION_MS, REBALANCE_MS = 10_000, 20_000
LIFE_MS = 60_000  # of a member, at most, before it leaves or dies and another comes
BEAT_MS = 1_000
PATIENCE_MS = 30_000  # with a join, which waits for others
# A member that stands still between reading and committing, perhaps for longer than its session.
NAPS_ONE_IN, NAP_MS = 20, 15_000


class GroupChecker:
    """What all members know together. One owner for each partition in a generation; an offset that
    was acknowledged is never fetched lower."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self.partitions = tuple(partitions)
        self.acknowledged: dict[TopicPartition, int] = defaultdict(int)
        self.commits = 0
        self._owners: dict[tuple[int, TopicPartition], str] = {}

    def owns(self, member_id: str, generation: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member_id)
            assert owner == member_id, (
                f"{partition} of generation {generation}: {owner}, {member_id}"
            )

    def fetched(self, partition: TopicPartition, offset: int, at_least: int) -> None:
        """``at_least``: what had been acknowledged before it was asked for."""
        assert offset >= at_least, f"{partition}: {offset} committed, after {at_least} was promised"

    def committed(self, partition: TopicPartition, offset: int) -> None:
        self.commits += 1
        self.acknowledged[partition] = max(self.acknowledged[partition], offset)


class SimMember(Client):
    """A consumer without records: it joins, commits one more than was committed, and joins again
    whenever it is told to."""

    def __init__(self, cluster: SimCluster, checker: GroupChecker, name: str) -> None:
        super().__init__(cluster.client_host.world, cluster.client_config)
        self.assigned: list[TopicPartition] = []
        self.generation = -1
        self._checker = checker
        self._member_id = ""
        self._coordinator: int | None = None
        self._clock = cluster.client_host.world.clock
        self._dice = cluster.simulation.entropy.fork(f"member-{name}")

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.session.start(tasks)

    async def close(self) -> None:
        await self.session.close()

    async def consume(self, lasting_ms: int | None) -> None:
        """Until the time is over; None: until cancelled."""
        end_ms = None if lasting_ms is None else self._clock.monotonic_ms() + lasting_ms
        while end_ms is None or self._clock.monotonic_ms() < end_ms:
            try:
                if self.generation < 0:
                    await self._join()
                else:
                    await self._work()
                    await self._clock.sleep(BEAT_MS)
            except KafkaError as error:
                self._hear(error.code)
                await self._clock.sleep(BEAT_MS // 5)

    async def leave(self) -> None:
        """As far as the coordinator can be reached."""
        identity = MemberIdentity(self._member_id)
        try:
            await self._ask(LeaveGroupRequest(GROUP, members=[identity]))
        except KafkaError as error:
            self._hear(error.code)

    def _hear(self, code: ErrorCode) -> None:
        """A member that does not know better joins anew; one that cannot reach its coordinator
        looks for it, and keeps what it has."""
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._member_id = ""
        lost = (
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.REQUEST_TIMED_OUT,
        )
        if code in lost:
            self._coordinator = None
        elif code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.generation, self.assigned = -1, []

    async def _ask(self, message: Message, timeout_ms: int | None = None) -> Message:
        """One answer of the coordinator. Raises KafkaError."""
        if self._coordinator is None:
            deadline_ms = self.session.deadline_ms(PATIENCE_MS)
            self._coordinator = await find_coordinator(self.session, GROUP, deadline_ms)
        answer = await self.session.connections.request(
            self._coordinator, message, timeout_ms=timeout_ms
        )
        code = getattr(answer, "error_code", 0)
        if code and not isinstance(answer, JoinGroupResponse):
            raise KafkaError(ErrorCode(code))
        assert isinstance(answer, Message)
        return answer

    # -- joining

    async def _join(self) -> None:
        topics = sorted({partition.topic for partition in self._checker.partitions})
        metadata = b"\0\0" + encode(ConsumerProtocolSubscription(topics), 0)
        request = JoinGroupRequest(
            GROUP,
            SESSION_MS,
            REBALANCE_MS,
            self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", metadata)],
        )
        answer = await self._ask(request, PATIENCE_MS)
        assert isinstance(answer, JoinGroupResponse)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        self._member_id = answer.member_id
        await self._sync(answer)

    async def _sync(self, joined: JoinGroupResponse) -> None:
        given = self._assign(joined) if joined.leader == joined.member_id else []
        request = SyncGroupRequest(
            GROUP,
            joined.generation_id,
            self._member_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=given,
        )
        answer = await self._ask(request, PATIENCE_MS)
        own = decode(ConsumerProtocolAssignment, 0, answer.assignment, 2)  # type: ignore[attr-defined]
        self.assigned = [
            TopicPartition(topic.topic, number)
            for topic in own.assigned_partitions
            for number in topic.partitions
        ]
        self._checker.owns(self._member_id, joined.generation_id, self.assigned)
        await self._look()
        self.generation = joined.generation_id

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """In turn."""
        members = [member.member_id for member in joined.members]
        shares: dict[str, list[ConsumerTopicPartitions]] = {member: [] for member in members}
        for turn, partition in enumerate(self._checker.partitions):
            share = ConsumerTopicPartitions(partition.topic, [partition.partition])
            shares[members[turn % len(members)]].append(share)
        return [
            SyncGroupRequestAssignment(
                member, b"\0\0" + encode(ConsumerProtocolAssignment(share), 0)
            )
            for member, share in shares.items()
        ]

    # -- working

    async def _look(self) -> dict[TopicPartition, int]:
        """What is committed of what is assigned."""
        promised = {partition: self._checker.acknowledged[partition] for partition in self.assigned}
        asked = [OffsetFetchRequestTopics(topic, [number]) for topic, number in self.assigned]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(GROUP, topics=asked)], require_stable=True
        )
        answer = await self._ask(request)
        found = answer.groups[0]  # type: ignore[attr-defined]
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code))
        offsets: dict[TopicPartition, int] = {}
        for topic in found.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise KafkaError(ErrorCode(each.error_code))
                partition = TopicPartition(topic.name, each.partition_index)
                offsets[partition] = max(0, each.committed_offset)
                self._checker.fetched(partition, offsets[partition], promised[partition])
        return offsets

    async def _work(self) -> None:
        beat = HeartbeatRequest(GROUP, self.generation, self._member_id)
        await self._ask(beat)
        if not self.assigned:
            return
        offsets = {partition: offset + 1 for partition, offset in (await self._look()).items()}
        if not self._dice.randrange(NAPS_ONE_IN):
            await self._clock.sleep(self._dice.randrange(NAP_MS))
        topics = [
            OffsetCommitRequestTopic(topic, [OffsetCommitRequestPartition(number, offset)])
            for (topic, number), offset in offsets.items()
        ]
        request = OffsetCommitRequest(GROUP, self.generation, self._member_id, topics=topics)
        answer = await self._ask(request)
        for topic in answer.topics:  # type: ignore[attr-defined]
            for each in topic.partitions:
                if each.error_code:
                    raise KafkaError(ErrorCode(each.error_code))
                partition = TopicPartition(topic.name, each.partition_index)
                self._checker.committed(partition, offsets[partition])


class Travellers:
    """``seats`` members at a time: each lives for as long as the dice say, then leaves, or is never
    heard of again; another takes its seat."""

    def __init__(
        self, cluster: SimCluster, partitions: Sequence[TopicPartition], seats: int = 3
    ) -> None:
        self.checker = GroupChecker(partitions)
        self.members: dict[int, SimMember] = {}
        self._cluster = cluster
        self._seats = seats
        self._settling = False

    def start(self) -> None:
        for seat in range(self._seats):
            self._cluster.spawn_client(self._sit(seat), f"seat-{seat}")

    def settle(self) -> None:
        """From now on who comes stays."""
        self._settling = True

    def is_stable(self) -> bool:
        """Every seat taken, all in one generation, each partition with one."""
        members = list(self.members.values())
        generations = {member.generation for member in members}
        owned = sorted(partition for member in members for partition in member.assigned)
        return (
            len(members) == self._seats
            and len(generations) == 1
            and -1 not in generations
            and owned == sorted(self.checker.partitions)
        )

    async def _sit(self, seat: int) -> None:
        dice = self._cluster.simulation.entropy.fork(f"seat-{seat}")
        for life in range(1_000):
            async with SimMember(self._cluster, self.checker, f"{seat}.{life}") as member:
                self.members[seat] = member
                lasting_ms = None if self._settling else dice.randrange(LIFE_MS)
                await member.consume(lasting_ms)
                if dice.randrange(2):
                    await member.leave()
                del self.members[seat]
