"""A consumer group in a simulated cluster: members that commit growing offsets, and its checks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from minikafka.client.session import Client, look_up_coordinator
from minikafka.core.client.assignors.catalogue import resolve_strategy
from minikafka.core.client.assignors.wire import decode_assignment
from minikafka.core.client.calls import Call, raise_for
from minikafka.core.client.consumer.group_calls import group_key, offset_commit, offset_fetch
from minikafka.core.client.consumer.membership import GroupRebalanceConfig, Membership, Next
from minikafka.core.client.errors import LOST_COORDINATOR
from minikafka.core.client.offsets import NO_GENERATION, GroupMetadata, OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import LogEvent, SimCluster

R = TypeVar("R")
C = TypeVar("C", bound="GroupChecker")

GROUP = "travellers"
SESSION_MS, REBALANCE_MS = 10_000, 20_000
LIFE_MS = 60_000  # of a member, at most, before it leaves or dies and another comes
BEAT_MS = 1_000
LEAVE_GROUP_VERSION = 3  # the first that says which members leave
PATIENCE_MS = 30_000  # with a join, which waits for others
# A member that stands still between reading and committing, perhaps for longer than its session.
NAPS_ONE_IN, NAP_MS = 20, 15_000


class GroupChecker:
    """The facts that all members share. A partition has one owner in a generation, and no member
    fetches an offset below an acknowledged one."""

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
        """Check a fetched offset. ``at_least`` is the offset that was acknowledged before the
        request."""
        assert offset >= at_least, f"{partition}: {offset} committed, after {at_least} was promised"

    def committed(self, partition: TopicPartition, offset: int, above: int) -> None:
        """Note an acknowledged offset. ``above`` is the offset that was acknowledged before the
        request: the commit of a fenced member would repeat it, or take it back."""
        assert offset > above, f"{partition}: {offset} was committed after {above}"
        self.commits += 1
        self.acknowledged[partition] = max(self.acknowledged[partition], offset)


class SoleOwnerChecker(GroupChecker):
    """The facts of a group whose members give up a partition before another one gets it: at any
    time a partition has one owner, unless the coordinator has removed the other one."""

    def __init__(self, cluster: SimCluster, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(partitions)
        self._holders: dict[TopicPartition, str] = {}
        self._removed: set[str] = set()
        cluster.observers.append(self._observe)

    def joins(self, member_id: str) -> None:
        self._removed.discard(member_id)

    def owns(self, member_id: str, generation: int, partitions: Sequence[TopicPartition]) -> None:
        super().owns(member_id, generation, partitions)
        self.gives_up(member_id, partitions)
        if member_id not in self._removed:
            for partition in partitions:
                holder = self._holders.setdefault(partition, member_id)
                assert holder == member_id, f"{partition} of {member_id} is still held by {holder}"

    def gives_up(self, member_id: str, kept: Sequence[TopicPartition] = ()) -> None:
        """Note that a member has left, or gives up all partitions but the ``kept`` ones."""
        for partition, holder in list(self._holders.items()):
            if holder == member_id and partition not in kept:
                del self._holders[partition]

    def _observe(self, event: LogEvent) -> None:
        if event.name == "member_removed":
            self._removed.add(event.facts["member"])
            self.gives_up(event.facts["member"])


class CommittingMember(Client, ABC):
    """A member of a group, without records: it joins, commits one more than the committed offset of
    each partition that it has, and heartbeats in between, as the coordinator requires it."""

    def __init__(self, cluster: SimCluster, checker: GroupChecker, name: str) -> None:
        super().__init__(cluster.client_host.world, cluster.client_config)
        self.assigned: list[TopicPartition] = []
        self.generation = NO_GENERATION  # or the member epoch; set when the member may commit
        self._checker = checker
        self._coordinator: int | None = None
        self._clock = cluster.client_host.world.clock
        self._dice = cluster.simulation.entropy.fork(f"member-{name}")

    @property
    @abstractmethod
    def member_id(self) -> str:
        """The id by which the coordinator knows the member."""

    @abstractmethod
    async def _join(self) -> None:
        """Take a step towards the group. Raises KafkaError."""

    @abstractmethod
    async def _beat(self) -> None:
        """Send a heartbeat, and follow its response. Raises KafkaError."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group if the coordinator can be reached."""

    @abstractmethod
    def _refused(self, code: ErrorCode) -> None:
        """Follow an error that is no failure of the coordinator."""

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.session.start(tasks)

    async def close(self) -> None:
        await self.session.close()

    async def consume(self, lasting_ms: int | None) -> None:
        """Consume for so long; None means until cancelled."""
        end_ms = None if lasting_ms is None else self._clock.monotonic_ms() + lasting_ms
        while end_ms is None or self._clock.monotonic_ms() < end_ms:
            try:
                if self.generation == NO_GENERATION:
                    await self._join()
                else:
                    await self._beat()
                    if self.assigned:
                        await self._commit_more()
                    await self._clock.sleep(BEAT_MS)
            except KafkaError as error:
                self._note_error(error.code)
                await self._clock.sleep(BEAT_MS // 5)

    def _note_error(self, code: ErrorCode) -> None:
        """Find a lost coordinator again and keep the partitions."""
        if code in LOST_COORDINATOR:
            self._coordinator = None
        elif code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._refused(code)

    def _give_up_partitions(self) -> None:
        self.generation, self.assigned = NO_GENERATION, []

    async def _call(self, call: Call[R], timeout_ms: int | None = None) -> R:
        """Carry out a call to the coordinator once, within ``request_timeout_ms`` if no other
        time-out is given. Raises KafkaError."""
        if self._coordinator is None:
            deadline_ms = self.session.deadline_ms(PATIENCE_MS)
            key = group_key(GROUP)
            self._coordinator = await look_up_coordinator(self.session, key, deadline_ms)
        timeout_ms = timeout_ms or self.session.config.request_timeout_ms
        return await self.session.call_within(self._coordinator, call, timeout_ms)

    async def _fetch_offsets(self) -> dict[TopicPartition, int]:
        """Return the committed offsets of the assigned partitions; 0 where nothing is committed."""
        promised = {partition: self._checker.acknowledged[partition] for partition in self.assigned}
        found = await self._call(offset_fetch(GROUP, self.assigned, require_stable=True))
        offsets = {tp: found[tp].offset if tp in found else 0 for tp in self.assigned}
        for partition, offset in offsets.items():
            self._checker.fetched(partition, offset, promised[partition])
        return offsets

    async def _commit_more(self) -> None:
        offsets = {
            partition: offset + 1 for partition, offset in (await self._fetch_offsets()).items()
        }
        if not self._dice.randrange(NAPS_ONE_IN):
            await self._clock.sleep(self._dice.randrange(NAP_MS))
        committer = GroupMetadata(GROUP, self.generation, self.member_id)
        committed = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        promised = {partition: self._checker.acknowledged[partition] for partition in offsets}
        for partition, error in (await self._call(offset_commit(committer, committed))).items():
            if error is not None:
                raise error
            self._checker.committed(partition, offsets[partition], promised[partition])


class SimMember(CommittingMember):
    """A member of the classic protocol."""

    def __init__(self, cluster: SimCluster, checker: GroupChecker, name: str) -> None:
        super().__init__(cluster, checker, name)
        self._membership = Membership(
            GroupRebalanceConfig(
                GROUP,
                resolve_strategy(["range"]),
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=BEAT_MS,
                max_poll_interval_ms=REBALANCE_MS,
            )
        )

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    async def leave(self) -> None:
        request = self._membership.leave_request("its time is over", LEAVE_GROUP_VERSION)
        if request is None:
            return
        try:
            await self._call(Call(request, lambda response: raise_for(response.error_code)))
        except KafkaError as error:
            self._note_error(error.code)

    def _refused(self, code: ErrorCode) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._membership.lose(code.name)
        self._give_up_partitions()

    async def _join(self) -> None:
        membership = self._membership
        counts = Counter(partition.topic for partition in self._checker.partitions)
        join = Call(membership.join_request(counts, ()), membership.on_join)
        step = await self._call(join, PATIENCE_MS)
        if step is Next.GO_ON:
            shares = None
            if membership.is_leader:
                assert membership.assignor is not None
                shares = membership.assignor.assign(counts, membership.subscriptions())
            request = membership.sync_request(shares)
            response = await self._call(Call(request, lambda response: response), PATIENCE_MS)
            step = membership.on_sync(response)
            if step is Next.GO_ON:
                await self._take_over(decode_assignment(response.assignment))
                return
        if step is Next.OTHER_COORDINATOR:
            self._coordinator = None
        if step is not Next.AT_ONCE:
            await self._clock.sleep(BEAT_MS // 5)

    async def _take_over(self, assigned: Sequence[TopicPartition]) -> None:
        membership = self._membership
        self.assigned = list(assigned)
        self._checker.owns(membership.member_id, membership.generation, self.assigned)
        await self._fetch_offsets()
        self.generation = membership.generation

    async def _beat(self) -> None:
        membership = self._membership
        request = membership.heartbeat_request()
        call = Call(request, lambda response: ErrorCode(response.error_code))
        step = membership.on_heartbeat(await self._call(call), request)
        if step is Next.OTHER_COORDINATOR:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if membership.rejoin_needed:
            self._give_up_partitions()


class Travellers(Generic[C]):
    """Keeps ``seats`` members in the group. Each lives for a random time, then leaves or dies
    without a LeaveGroup, and a new one replaces it."""

    def __init__(
        self,
        cluster: SimCluster,
        checker: C,
        make: Callable[[SimCluster, C, str], CommittingMember],
        seats: int = 3,
        life_ms: int = LIFE_MS,
    ) -> None:
        self.checker = checker
        self.members: dict[int, CommittingMember] = {}
        self._cluster = cluster
        self._seats = seats
        self._make = make
        self._life_ms = life_ms
        self._settling = False

    def start(self) -> None:
        for seat in range(self._seats):
            self._cluster.spawn_client(self._sit(seat), f"seat-{seat}")

    def settle(self) -> None:
        """Let the members that join from now on stay."""
        self._settling = True

    def is_stable(self) -> bool:
        """Whether all members are in one generation and each partition is assigned to one of
        them."""
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
            async with self._make(self._cluster, self.checker, f"{seat}.{life}") as member:
                self.members[seat] = member
                lasting_ms = None if self._settling else dice.randrange(self._life_ms)
                await member.consume(lasting_ms)
                if dice.randrange(2):
                    await member.leave()
                del self.members[seat]
