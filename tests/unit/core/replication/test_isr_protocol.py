"""A leader that proposes ISRs and the controllers that decide, with messages lost in between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import booleans, sampled_from, sets

from minikafka.core.controller.alter_partition import decide
from minikafka.core.controller.context import ControllerContext
from minikafka.core.replication.isr_outcomes import IsrFailed, IsrWithdrawn, IsrWritten, outcome_of
from minikafka.core.replication.partition_state import (
    LeadershipState,
    as_leader,
    commit_isr,
    leader_and_isr,
    lose_isr,
    propose_isr,
    withdraw_isr,
)
from minikafka.kernel.cluster import (
    Broker,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode

TP = TopicPartition("t", 0)
LEADER, FOLLOWERS = 1, (2, 3, 4)
ASSIGNMENT = ReplicaAssignment((LEADER, *FOLLOWERS))


class Request(NamedTuple):
    controller_epoch: int  # of the controller that receives it
    proposal: LeadershipState


class Response(NamedTuple):
    proposal: LeadershipState
    result: LeaderAndIsr | ErrorCode


class Instruction(NamedTuple):
    """LeaderAndIsr."""

    controller_epoch: int
    state: LeaderAndIsr


@dataclass
class Znode:
    """What ZooKeeper has: the state of the partition, and the epoch of the controller."""

    state: LeaderAndIsr
    controller_epoch: int = 1


class IsrProtocol(RuleBasedStateMachine):
    """Messages to and from one controller keep their order; any message may be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.znode = Znode(LeaderAndIsr(LEADER, 0, (LEADER, *FOLLOWERS), 0))
        self.alive = {LEADER, *FOLLOWERS}
        self.context = self._new_context()
        self.requests: list[Request] = []
        self.responses: list[Response] = []
        self.instructions: list[Instruction] = []
        self.leader = as_leader(LeadershipState(), self.znode.state, ASSIGNMENT, 1, 0)

    def _new_context(self) -> ControllerContext:
        context = ControllerContext()
        context.set_brokers(Broker(number, (), epoch=number) for number in sorted(self.alive))
        context.set_assignment(TP, ASSIGNMENT)
        context.leadership[TP] = LeaderIsrAndControllerEpoch(
            self.znode.state, self.znode.controller_epoch
        )
        return context

    def _write(self, state: LeaderAndIsr) -> LeaderAndIsr:
        written = replace(state, zk_version=self.znode.state.zk_version + 1)
        self.znode.state = written
        self.context.leadership[TP] = LeaderIsrAndControllerEpoch(
            written, self.znode.controller_epoch
        )
        return written

    def _instruct(self) -> None:
        self.instructions.append(Instruction(self.znode.controller_epoch, self.znode.state))

    # ----------------------------------------------------------------------------------- leader

    @precondition(lambda self: not self.leader.isr.in_flight)
    @rule(followers=sets(sampled_from(FOLLOWERS)))
    def propose(self, followers: set[int]) -> None:
        isr = (LEADER, *sorted(followers))
        if set(isr) != set(self.leader.isr.committed):
            self.leader = propose_isr(self.leader, isr)
            self._request()

    def _request(self) -> None:
        self.requests.append(Request(self.znode.controller_epoch, self.leader))

    @precondition(lambda self: self.responses)
    @rule()
    def a_response_arrives(self) -> None:
        proposal, result = self.responses.pop(0)
        if self.leader.isr is not proposal.isr or self.leader.isr.lost:
            return
        outcome = outcome_of(leader_and_isr(proposal), result)
        if isinstance(outcome, IsrWritten):
            self.leader = commit_isr(self.leader, outcome.zk_version)
        elif isinstance(outcome, IsrWithdrawn):
            self.leader = withdraw_isr(self.leader)
        elif isinstance(outcome, IsrFailed):
            self._request()
        else:
            self.leader = lose_isr(self.leader)

    @precondition(lambda self: self.instructions)
    @rule()
    def an_instruction_arrives(self) -> None:
        controller_epoch, state = self.instructions.pop(0)
        if controller_epoch < self.leader.controller_epoch:
            return  # ControllerFence
        if state.leader_epoch < self.leader.leader_epoch:
            return
        if state.zk_version >= self.leader.zk_version:
            self.leader = as_leader(self.leader, state, ASSIGNMENT, controller_epoch, 0)

    # ----------------------------------------------------------------------------------- network

    @precondition(lambda self: self.requests or self.responses)
    @rule(request_is_lost=booleans())
    def a_connection_breaks(self, request_is_lost: bool) -> None:
        """The leader does not know whether its request was served, and repeats it. The first one
        may still be served; a response is lost."""
        if self.requests and request_is_lost:
            self.requests.pop()
        self.responses.clear()
        if self.leader.isr.in_flight and not self.leader.isr.lost:
            self._request()

    # ------------------------------------------------------------------------------- controllers

    @precondition(lambda self: self.requests)
    @rule()
    def a_request_is_served(self) -> None:
        controller_epoch, proposal = self.requests.pop(0)
        if controller_epoch < self.znode.controller_epoch:
            # The old controller cannot write any more, and responds so.
            self.responses.append(Response(proposal, ErrorCode.NOT_CONTROLLER))
            return
        requested = leader_and_isr(proposal)
        result = decide(self.context, TP, requested)
        if result is None:
            result = self._write(requested)
        self.responses.append(Response(proposal, result))

    @rule()
    def another_controller_is_elected(self) -> None:
        """It reads ZooKeeper, and sends LeaderAndIsr. So may the old one have, just before."""
        self.znode.controller_epoch += 1
        self.context = self._new_context()
        self._instruct()

    @rule(broker_id=sampled_from(FOLLOWERS))
    def a_follower_dies(self, broker_id: int) -> None:
        """The controller takes it out of the ISR, in a new leader epoch."""
        self.alive.discard(broker_id)
        self.context.set_brokers(Broker(number, (), epoch=number) for number in sorted(self.alive))
        state = self.znode.state
        if broker_id in state.isr:
            isr = tuple(replica for replica in state.isr if replica != broker_id)
            self._write(replace(state, isr=isr, leader_epoch=state.leader_epoch + 1))
            self._instruct()

    @rule(broker_id=sampled_from(FOLLOWERS))
    def a_follower_starts(self, broker_id: int) -> None:
        self.alive.add(broker_id)
        self.context.set_brokers(Broker(number, (), epoch=number) for number in sorted(self.alive))

    @precondition(lambda self: self.instructions)
    @rule()
    def an_instruction_is_repeated(self) -> None:
        self.instructions.insert(0, self.instructions[0])

    # ---------------------------------------------------------------------------------- checks

    @invariant()
    def every_member_in_zookeeper_counts_for_the_high_watermark(self) -> None:
        """A controller may elect any of them."""
        assert set(self.znode.state.isr) <= self.leader.isr.maximal

    def teardown(self) -> None:
        """When no message is lost any more, the leader knows the ISR in ZooKeeper."""
        while self.requests or self.responses or self.instructions:
            if self.instructions:
                self.an_instruction_arrives()
            elif self.requests:
                self.a_request_is_served()
            else:
                self.a_response_arrives()
        assert not self.leader.isr.in_flight
        assert set(self.leader.isr.committed) == set(self.znode.state.isr)
        assert self.leader.zk_version == self.znode.state.zk_version


TestIsrProtocol = pytest.mark.mission("MIX-6")(IsrProtocol.TestCase)
TestIsrProtocol.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
