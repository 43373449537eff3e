"""Random members, failing appends and changing coordinators: invariants of groups at every step,
and a stable group in the end."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.core.group.group import Group, GroupConfig, GroupState
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.rebalance import SyncFacts
from minikafka.core.group.result import HeartbeatTimer
from minikafka.core.group.shard import GroupShard
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.leave_group import MemberIdentity
from minikafka.protocol.messages.sync_group import SyncGroupResponse
from minikafka.server.coordinator.group_timers import DelayedHeartbeat
from tests.support.coordinator.group_lab import GROUP, GroupLab

SESSION_MS = 10_000
REBALANCE_MS = 20_000
TOPIC_PARTITIONS = [("t", 0), ("t", 1), ("u", 0)]
FATAL = {ErrorCode.FENCED_INSTANCE_ID}


class Client:
    """A consumer that follows the responses. ``wants`` is its next request."""

    def __init__(self, scene: Scene, number: int, static: bool) -> None:
        self.scene = scene
        self.instance = f"i{number}" if static else None
        self.name = f"c{number}"
        self.lives = 0
        self.begin()

    def begin(self) -> None:
        self.alive = True
        self.lives += 1
        self.member_id = ""
        self.generation = -1
        self.wants = "join"
        self.stable = False
        self.assignment = b""
        self.others: list[str] = []
        self.leads = False
        self.waiting = 0  # the number of the request in flight

    def step(self) -> None:
        """Send the next request, unless one is in flight."""
        if not self.alive or self.waiting:
            return
        if self.wants == "join":
            self._join()
        elif self.wants == "sync":
            self._sync()
        else:
            self._hear(self.scene.lab.beat(self.member_id, self.generation, self.instance))

    def _join(self) -> None:
        self.stable = False
        number = self.waiting = self.scene.next_request()
        new_id = f"{self.instance or self.name}-{self.lives}-{number}"
        facts = JoinFacts(
            self.member_id, self.instance, self.name, "/h", REBALANCE_MS, SESSION_MS, "consumer",
            (("range", b"\0\0\0\0\0\0\xff\xff\xff\xff"),), new_id, self.instance is None,
        )  # fmt: skip

        def responded(response: JoinGroupResponse) -> None:
            self.scene.responded(number)
            if self.waiting == number:
                self.waiting = 0
                self._joined(response)

        self.scene.lab.coordinator.join(GROUP, facts, responded)

    def _joined(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code:
            self._hear(ErrorCode(response.error_code))
        else:
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.leads = response.leader == response.member_id
            self.others = [member.member_id for member in response.members]
            self.scene.generations(response.generation_id)
            self.wants = "sync"

    def _sync(self) -> None:
        number = self.waiting = self.scene.next_request()
        given = {m: f"{self.generation}".encode() for m in self.others} if self.leads else {}
        facts = SyncFacts(self.member_id, self.instance, self.generation, None, None, given)

        def responded(response: SyncGroupResponse) -> None:
            self.scene.responded(number)
            if self.waiting == number:
                self.waiting = 0
                if response.error_code:
                    self._hear(ErrorCode(response.error_code))
                else:
                    self.assignment = bytes(response.assignment)
                    self.stable, self.wants = True, "beat"

        self.scene.lab.coordinator.sync(GROUP, facts, responded)

    def _hear(self, error: ErrorCode) -> None:
        if error in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id, self.generation = "", -1
        if error in FATAL:
            self.alive = False
        if error is not ErrorCode.NOT_COORDINATOR or self.wants != "beat":
            self.wants = "join"

    def die(self) -> None:
        self.alive = False
        self.waiting = 0

    def leave(self) -> None:
        if self.alive and self.member_id and not self.waiting:
            identity = MemberIdentity(self.member_id, self.instance)
            if not self.scene.away:
                self.scene.lab.coordinator.leave(GROUP, [identity])
            self.die()


class Scene:
    def __init__(self, seed: int, static: bool) -> None:
        self.dice = random.Random(seed)
        self.lab = GroupLab(group_initial_rebalance_delay_ms=3_000)
        self.clients = [Client(self, n, static and n % 2 == 0) for n in range(5)]
        self.requests = 0
        self.responses: Counter[int] = Counter()
        self.newest_generation = 0
        self.away = False
        self.known: dict[tuple[str, int], int] = {}
        self.attempted: dict[tuple[str, int], int] = {}
        self.value = 0

    def next_request(self) -> int:
        self.requests += 1
        return self.requests

    def responded(self, number: int) -> None:
        self.responses[number] += 1
        assert self.responses[number] == 1, "every request has one response"

    def generations(self, generation: int) -> None:
        self.newest_generation = max(self.newest_generation, generation)

    def play(self, steps: int) -> None:
        actions = {
            self._step: 40, self._commit: 10, self._pass_time: 8, self._die: 1, self._revive: 1,
            self._leave: 1, self._hold: 1, self._release: 3, self._refuse: 1, self._move: 1,
        }  # fmt: skip
        for _ in range(steps):
            self.dice.choices(list(actions), weights=list(actions.values()))[0]()
            self.check()

    def _client(self) -> Client:
        return self.dice.choice(self.clients)

    def _step(self) -> None:
        self._client().step()

    def _pass_time(self) -> None:
        self.lab.clock.advance(self.dice.choice([1, 50, 500, 1_000, 3_000, 3_000, 8_000, 25_000]))

    def _die(self) -> None:
        self._client().die()

    def _revive(self) -> None:
        client = self._client()
        if not client.alive:
            client.begin()

    def _leave(self) -> None:
        self._client().leave()

    def _hold(self) -> None:
        self.lab.log.held = True

    def _release(self) -> None:
        self.lab.log.refusal = None
        self.lab.log.held = False
        self.lab.log.release()

    def _refuse(self) -> None:
        self.lab.log.refusal = self.dice.choice(
            [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        )

    def _move(self) -> None:
        """The coordinator resigns and is elected again, possibly without unreplicated records."""
        log = self.lab.log
        unreplicated = len(log.waiting)
        self.lab.resign()
        log.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.dice.random() < 0.5:
            log.truncate(unreplicated)
        self.lab.elect()

    def _commit(self) -> None:
        """Commit growing values: a committed value must never go back."""
        client = self._client()
        where = self.dice.choice(TOPIC_PARTITIONS)
        self.value += 1
        value = self.value
        member_id, generation = client.member_id, client.generation
        if not (client.alive and client.stable):
            return
        self.attempted[where] = value
        done: list[ErrorCode] = []
        response = self.lab.commit({where: value}, member_id, generation, instance=client.instance)
        done += response.values()
        if done == [ErrorCode.NONE]:
            self.known[where] = value

    # -- invariants

    def check(self) -> None:
        group = self.lab.find_group(GROUP)
        if group is None:
            return
        members = group.members
        assert (group.leader_id in members) if members else group.leader_id is None
        assert group.awaiting_join == sum(m.awaiting_join is not None for m in members.values())
        assert set(group.static_members.values()) <= members.keys()
        assert not members.keys() & group.pending_members.keys()
        assert group.generation_id >= 0
        if group.state is GroupState.STABLE:
            for member in members.values():
                assert member.assignment == f"{group.generation_id}".encode()
        if group.state is GroupState.EMPTY:
            assert not members
        self._check_heartbeats()
        for where, value in self.known.items():
            found = self.lab.committed().get(where, -1)
            assert value <= found <= self.attempted[where]

    def _check_heartbeats(self) -> None:
        group = self.lab.group
        live: Counter[str] = Counter()
        for _, operation in self.lab.heartbeats.purgatory.waiting(1_000):
            assert isinstance(operation, DelayedHeartbeat)
            timer: HeartbeatTimer = operation.timer
            assert timer.group is group, "a dead group has no timers"
            live[timer.member_id] += 1
            member = group.members.get(timer.member_id)
            assert timer.member_id in group.pending_members if timer.is_pending else member
            assert member is None or member.beats == timer.beat or member.awaiting_join
        for member in group.members.values():
            waits = member.awaiting_join is not None or member.awaiting_sync is not None
            if waits and not member.is_new:
                assert live[member.member_id] <= 1
            else:
                assert live[member.member_id] == 1, "exactly one heartbeat timer for each member"
        assert all(live[member_id] == 1 for member_id in group.pending_members)

    # -- the end state

    def come_to_rest(self) -> None:
        self._release()
        for client in self.clients[:3]:
            if not client.alive:
                client.begin()
        for _ in range(150):
            for client in self.clients:
                client.step()
            self.check()
            self.lab.clock.advance(1_000)
        alive = [client for client in self.clients if client.alive]
        group = self.lab.group
        assert group.state is GroupState.STABLE
        assert sorted(group.members) == sorted(client.member_id for client in alive)
        assert {client.generation for client in alive} == {group.generation_id}
        assert all(client.assignment == f"{group.generation_id}".encode() for client in alive)
        assert self.responses.total() == self.requests, "every request has a response"
        self._check_log()

    def _check_log(self) -> None:
        """Loading the log gives the state of this coordinator."""
        shard = GroupShard(GroupConfig())
        for offset, record in enumerate(self.lab.log.records()):
            shard.replay(record, offset)
        shard.loaded(0)
        live, loaded = self.lab.group, shard.groups[GROUP]
        assert isinstance(loaded, Group)
        assert loaded.generation_id == live.generation_id
        assert loaded.leader_id == live.leader_id
        assert {i: m.assignment for i, m in loaded.members.items()} == {
            i: m.assignment for i, m in live.members.items()
        }
        assert {tp: loaded.offsets.get(tp) for tp in loaded.offsets} == {
            tp: live.offsets.get(tp) for tp in live.offsets
        }


@pytest.mark.mission("HB-2", "HB-3", "DOP-9", "DOP-10", "ASG-1")
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 250))
def test_groups(static: bool, seed: int, steps: int) -> None:
    scene = Scene(seed, static)
    scene.play(steps)
    scene.come_to_rest()
