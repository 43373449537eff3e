"""Groups whose members assign the partitions themselves: joins, generations, heartbeats."""

from __future__ import annotations

import asyncio
from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import (
    accepted,
    expect,
    expect_error,
    expect_in,
    expect_true,
)
from minikafka.testing.conformance.groups.members import ScriptedMember, stable, subscription
from minikafka.testing.conformance.subject import Subject, pause

FIRST_WITH_INSTANCES = 5
UNKNOWN_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID


async def _two(s: Subject) -> tuple[ScriptedMember, ScriptedMember, list[Any]]:
    """Return two members after their common join, the leader first, and both join responses."""
    group = s.group()
    first = await stable(s, group)
    second = ScriptedMember(s, group)
    joining = asyncio.create_task(second.join())
    while await first.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
        await pause()
    responses = [await first.join(), await joining]
    return first, second, responses


@check("FindCoordinator")
async def the_coordinator_is_one_of_the_brokers(s: Subject) -> None:
    """A member would look for its coordinator for ever."""
    group = s.group()
    address = await s.coordinator_address(group)
    expect_in("the coordinator", address, s.cluster.brokers.values())
    for version in s.all_versions(ApiKey.FIND_COORDINATOR):
        fields = {"coordinator_keys": [group]} if version >= 4 else {"key": group}
        response = await s.ask(ApiKey.FIND_COORDINATOR, (version, version), **fields)
        row = response.coordinators[0] if version >= 4 else response
        expect(f"the port in version {version}", row.port, address.port)


@check("KIP-699")
async def several_coordinators_are_found_at_once(s: Subject) -> None:
    """An admin client of many groups would need a request for each."""
    s.version(ApiKey.FIND_COORDINATOR, 4)
    keys = [s.group(), s.group()]
    await s.coordinator(keys[0])
    response = await s.ask(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=keys)
    expect("the keys", [each.key for each in response.coordinators], keys)


@check("FindCoordinatorRequest")
async def an_unknown_kind_of_coordinator_is_refused(s: Subject) -> None:
    """A newer client would take another coordinator for its own."""
    s.version(ApiKey.FIND_COORDINATOR, 3)  # Kafka 2.0 closes the connection
    response = await s.ask(ApiKey.FIND_COORDINATOR, (1, 3), key=s.name(), key_type=99)
    expect_error(response.error_code, ErrorCode.INVALID_REQUEST)


@check("KIP-394")
async def a_new_member_is_given_an_id_first(s: Subject) -> None:
    """A member that times out while it joins would leave a ghost behind, which holds partitions."""
    s.version(ApiKey.JOIN_GROUP, 4)
    response = await ScriptedMember(s, s.group()).try_join(4)
    expect_error(response.error_code, ErrorCode.MEMBER_ID_REQUIRED)
    expect_true(bool(response.member_id), "there is no member id")


@check("JoinGroup")
async def a_lone_member_leads_generation_1(s: Subject) -> None:
    """No member would assign the partitions."""
    member = ScriptedMember(s, s.group())
    response = await member.join()
    expect("the generation", response.generation_id, 1)
    expect("the leader", response.leader, response.member_id)
    expect("the protocol", response.protocol_name, "range")
    found = [(each.member_id, bytes(each.metadata)) for each in response.members]
    expect("the members", found, [(member.member_id, subscription("range"))])


@check("KIP-559")
async def a_join_returns_the_type_of_the_protocol(s: Subject) -> None:
    """A client could not tell a group of consumers from one of Connect."""
    s.version(ApiKey.JOIN_GROUP, 7)
    response = await ScriptedMember(s, s.group()).join(7)
    expect("the type", response.protocol_type, "consumer")


@check("SyncGroup")
async def the_assignment_of_the_leader_comes_back(s: Subject) -> None:
    """A member would read other partitions than the leader has chosen."""
    member = ScriptedMember(s, s.group())
    await member.join()
    response = accepted(await member.sync({member.member_id: b"\x00\x01assignment"}))
    expect("the assignment", bytes(response.assignment), b"\x00\x01assignment")


@check("SyncGroup")
async def a_sync_can_be_repeated(s: Subject) -> None:
    """A member that has lost the response would be without partitions."""
    member = await stable(s, s.group(), b"mine")
    expect("the assignment", bytes(accepted(await member.sync()).assignment), b"mine")


@check("Heartbeat")
async def a_member_of_a_stable_group_keeps_its_place(s: Subject) -> None:
    """A group would rebalance without a reason."""
    member = await stable(s, s.group())
    for _ in range(3):
        expect_error(await member.heartbeat(), ErrorCode.NONE)


@check("Heartbeat")
async def a_wrong_generation_is_refused(s: Subject) -> None:
    """A member that missed a rebalance would go on with partitions of another one."""
    member = await stable(s, s.group())
    for generation in (member.generation + 1, member.generation - 1):
        found = await member.heartbeat(generation_id=generation)
        expect_error(found, ErrorCode.ILLEGAL_GENERATION)


@check("SyncGroup")
async def a_sync_of_a_wrong_generation_is_refused(s: Subject) -> None:
    """A member would get the assignment of another generation."""
    member = await stable(s, s.group())
    response = await member.sync(generation_id=member.generation + 1)
    expect_error(response.error_code, ErrorCode.ILLEGAL_GENERATION)


@check("Heartbeat")
async def an_unknown_member_is_refused(s: Subject) -> None:
    """A member that was removed would go on with partitions of another one."""
    member = await stable(s, s.group())
    expect_error(await member.heartbeat(member_id="nobody"), UNKNOWN_MEMBER)


@check("Heartbeat")
async def a_member_of_an_unknown_group_is_refused(s: Subject) -> None:
    """Members would go on after their coordinator has lost the group."""
    member = ScriptedMember(s, s.group())
    found = await member.heartbeat(generation_id=1, member_id="nobody")
    expect_error(found, UNKNOWN_MEMBER)


@check("JoinGroup")
async def a_join_with_an_unknown_id_is_refused(s: Subject) -> None:
    """A member that was removed would come back with what it owned before."""
    await stable(s, group := s.group())
    response = await ScriptedMember(s, group).try_join(member_id="nobody")
    expect_error(response.error_code, UNKNOWN_MEMBER)


@check("group.min.session.timeout.ms")
async def a_session_time_out_has_limits(s: Subject) -> None:
    """A member with a time-out of a month would hold its partitions after its death."""
    for timeout_ms in (1, 2**31 - 1):
        response = await ScriptedMember(s, s.group()).try_join(session_timeout_ms=timeout_ms)
        expect_error(response.error_code, ErrorCode.INVALID_SESSION_TIMEOUT)


@check("GroupCoordinator.validateGroupStatus")
async def an_empty_group_id_is_refused(s: Subject) -> None:
    """All clients without a group id would be one group."""
    member = ScriptedMember(s, "")
    member._connection = await s.coordinator(s.group())
    expect_error((await member.try_join()).error_code, ErrorCode.INVALID_GROUP_ID)


@check("JoinGroup")
async def a_join_without_protocols_is_refused(s: Subject) -> None:
    """The group would have no protocol that all members know."""
    response = await ScriptedMember(s, s.group()).try_join(protocols=())
    expect_error(response.error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@check("JoinGroup")
async def a_member_of_another_type_is_refused(s: Subject) -> None:
    """A worker of Connect could break a group of consumers by the same name."""
    await stable(s, group := s.group())
    response = await ScriptedMember(s, group).try_join(protocol_type="connect")
    expect_error(response.error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@check("JoinGroup")
async def a_member_without_a_common_protocol_is_refused(s: Subject) -> None:
    """The group would have no protocol that all members know."""
    await stable(s, group := s.group())
    response = await ScriptedMember(s, group).try_join(protocols=("other",))
    expect_error(response.error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@check("LeaveGroup")
async def a_member_that_left_is_unknown(s: Subject) -> None:
    """A consumer that was closed would hold its partitions until its session ends."""
    member = await stable(s, s.group())
    expect_error(await member.leave(), ErrorCode.NONE)
    expect_error(await member.heartbeat(), UNKNOWN_MEMBER)


@check("KIP-345, LeaveGroup")
async def each_member_that_leaves_has_its_own_error(s: Subject) -> None:
    """An admin client that removes members would not know which of them are gone."""
    s.version(ApiKey.LEAVE_GROUP, 3)
    member = await stable(s, s.group())
    response = await s.ask(
        ApiKey.LEAVE_GROUP, 3, await member.connection(), group_id=member.group,
        members=[{"member_id": "nobody"}, {"member_id": member.member_id}],
    )  # fmt: skip
    found = [each.error_code for each in response.members]
    expect("the errors", found, [UNKNOWN_MEMBER, ErrorCode.NONE])


@check("JoinGroup")
async def a_second_member_begins_a_new_generation(s: Subject) -> None:
    """Two consumers would read the same partitions."""
    first, second, responses = await _two(s)
    expect("the generations", [each.generation_id for each in responses], [2, 2])
    expect("the leaders", {each.leader for each in responses}, {first.member_id})
    expect("the members that the leader sees", len(responses[0].members), 2)
    expect("the members that the other one sees", responses[1].members, [])
    expect_true(first.member_id != second.member_id, "both have the same id")


@check("SyncGroup")
async def a_follower_waits_for_the_leader(s: Subject) -> None:
    """A consumer would begin without partitions."""
    first, second, _ = await _two(s)
    waiting = asyncio.create_task(second.sync())
    await asyncio.sleep(0.2)
    expect_true(not waiting.done(), "the follower did not wait")
    own = accepted(await first.sync({first.member_id: b"1", second.member_id: b"2"}))
    other = accepted(await waiting)
    expect("the assignments", (bytes(own.assignment), bytes(other.assignment)), (b"1", b"2"))


@check("LeaveGroup")
async def the_others_rebalance_when_a_member_leaves(s: Subject) -> None:
    """Nobody would read the partitions of a consumer that was closed."""
    first, second, _ = await _two(s)
    waiting = asyncio.create_task(second.sync())
    await first.sync({first.member_id: b"1", second.member_id: b"2"})
    await waiting
    await first.leave()
    expect_error(await second.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)


@check("JoinGroup")
async def the_protocol_is_one_that_all_members_know(s: Subject) -> None:
    """A member could not read its assignment."""
    group = s.group()
    first = ScriptedMember(s, group)
    await first.join(protocols=("sticky", "range"))
    accepted(await first.sync({}, **_protocol(s, "sticky")))
    joining = asyncio.create_task(ScriptedMember(s, group).join(protocols=("range",)))
    while await first.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
        await pause()
    found = [await first.join(protocols=("sticky", "range")), await joining]
    expect("the protocols", [each.protocol_name for each in found], ["range", "range"])


def _protocol(s: Subject, name: str) -> dict[str, Any]:
    if s.version(ApiKey.SYNC_GROUP) < 5:
        return {}
    return {"protocol_type": "consumer", "protocol_name": name}


@check("KIP-345")
async def a_static_member_returns_without_a_rebalance(s: Subject) -> None:
    """Every restart of a consumer would stop the whole group."""
    s.version(ApiKey.JOIN_GROUP, FIRST_WITH_INSTANCES)
    group = s.group()
    first = ScriptedMember(s, group, group_instance_id="one")
    await first.join(FIRST_WITH_INSTANCES)
    accepted(await first.sync({first.member_id: b"mine"}))
    again = ScriptedMember(s, group, group_instance_id="one")
    response = await again.join(FIRST_WITH_INSTANCES)
    expect("the generation", response.generation_id, first.generation)
    expect("its assignment", bytes(accepted(await again.sync()).assignment), b"mine")


@check("KIP-345")
async def the_predecessor_of_a_static_member_is_fenced(s: Subject) -> None:
    """Two processes with one instance id would both read its partitions."""
    s.version(ApiKey.JOIN_GROUP, FIRST_WITH_INSTANCES)
    group = s.group()
    first = ScriptedMember(s, group, group_instance_id="one")
    await first.join(FIRST_WITH_INSTANCES)
    accepted(await first.sync({first.member_id: b"mine"}))
    await ScriptedMember(s, group, group_instance_id="one").join(FIRST_WITH_INSTANCES)
    expect_error(await first.heartbeat(), ErrorCode.FENCED_INSTANCE_ID)


async def _described(s: Subject, group: str) -> Any:
    at = await s.coordinator(group)
    return (await s.ask(ApiKey.DESCRIBE_GROUPS, 0, at, groups=[group])).groups[0]


@check("DescribeGroups")
async def a_stable_group_can_be_described(s: Subject) -> None:
    """An operator could not see who reads a topic."""
    s.version(ApiKey.DESCRIBE_GROUPS)
    member = await stable(s, s.group(), b"mine")
    found = accepted(await _described(s, member.group))
    state = (found.group_state, found.protocol_type, found.protocol_data)
    expect("state, type and protocol", state, ("Stable", "consumer", "range"))
    (row,) = found.members
    expect("the member", row.member_id, member.member_id)
    expect("its client id", row.client_id, "conformance")
    expect("its assignment", bytes(row.member_assignment), b"mine")


@check("DescribeGroups, KIP-1043")
async def an_unknown_group_is_dead(s: Subject) -> None:
    """An operator would take a misspelled group for an idle one."""
    found = await _described(s, s.name())
    expect("the state", found.group_state, "Dead")
    is_new = s.version(ApiKey.DESCRIBE_GROUPS) >= 6
    expect_error(found.error_code, ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.NONE)


async def _listed(s: Subject, group: str, **filters: Any) -> Any:
    at = await s.coordinator(group)
    response = accepted(await s.ask(ApiKey.LIST_GROUPS, 4 if filters else 0, at, **filters))
    return next((each for each in response.groups if each.group_id == group), None)


@check("ListGroups")
async def groups_are_listed(s: Subject) -> None:
    """An operator would not find the groups of a cluster."""
    s.version(ApiKey.LIST_GROUPS)
    member = await stable(s, s.group())
    found = await _listed(s, member.group)
    expect_true(found is not None, "the group is missing")
    expect("the type of its protocol", found.protocol_type, "consumer")


@check("KIP-518")
async def groups_are_listed_by_state(s: Subject) -> None:
    """An operator who looks for idle groups would see all of them."""
    s.version(ApiKey.LIST_GROUPS, 4)
    member = await stable(s, s.group())
    found = await _listed(s, member.group, states_filter=["Stable"])
    expect_true(found is not None, "the group is missing among the stable ones")
    expect("its state", found.group_state, "Stable")
    found = await _listed(s, member.group, states_filter=["Empty"])
    expect("the group among the empty ones", found, None)


async def _deleted(s: Subject, group: str) -> int:
    at = await s.coordinator(group)
    response = await s.ask(ApiKey.DELETE_GROUPS, 0, at, groups_names=[group])
    return int(response.results[0].error_code)


@check("KIP-229")
async def a_group_with_members_is_not_deleted(s: Subject) -> None:
    """Consumers at work would lose their offsets."""
    s.version(ApiKey.DELETE_GROUPS)
    member = await stable(s, s.group())
    expect_error(await _deleted(s, member.group), ErrorCode.NON_EMPTY_GROUP)


@check("KIP-229")
async def an_empty_group_is_deleted(s: Subject) -> None:
    """Old groups would stay until their offsets expire."""
    s.version(ApiKey.DELETE_GROUPS)
    member = await stable(s, s.group())
    await member.leave()
    expect_error(await _deleted(s, member.group), ErrorCode.NONE)
    expect("the group in the list", await _listed(s, member.group), None)


@check("KIP-229")
async def an_unknown_group_cannot_be_deleted(s: Subject) -> None:
    """An operator would not notice a misspelled group."""
    expect_error(await _deleted(s, s.name()), ErrorCode.GROUP_ID_NOT_FOUND)
