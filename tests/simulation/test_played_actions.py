"""Actions of learn mode that change the cluster from outside, its links, its disks and its clients:
each has its effect, and its recipe replays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.timer import WheelLevel
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.actions import ActionHandle
from minikafka.page.learn.hosts import host_facts
from minikafka.page.learn.messages import REFUSED
from minikafka.page.learn.playback import Playback
from minikafka.page.learn.recipe import MAX_US, Recipe, TimedAction, Value
from minikafka.server.broker.replication.partition import Partition
from minikafka.testing.simulator.cluster import LogEvent, SimCluster

S = 1_000_000
FIRST = TopicPartition("t", 0)
TOPIC = Recipe(
    seed=7, actions=[TimedAction(0, "create_topic", {"topic": "t", "partitions": 1, "replicas": 3})]
)


def begun(recipe: Recipe = TOPIC, messages: int = 0) -> Playback:
    """Return a playback with the topic, at 1 s."""
    playback = Playback(recipe, messages)
    playback.advance_to(1 * S)
    return playback


def facts_of(playback: Playback, name: str) -> list[Mapping[str, Any]]:
    return [event.facts for event in playback.events if event.name == name]


def done(playback: Playback, name: str, /, **arguments: Value) -> str | None:
    """Carry out an action to its end; return its problem."""
    act = begin(playback, name, **arguments)
    assert playback.run_until(lambda _: act.ended)
    return act.problem


def begin(playback: Playback, name: str, /, **arguments: Value) -> ActionHandle:
    return playback.stagehand.acts[playback.act(name, **arguments)]


def check_replay(playback: Playback) -> None:
    """The recipe so far has the same digest from its start."""
    with Playback(Recipe.from_json(playback.recipe.to_json())) as replayed:
        replayed.advance_to(playback.now_us)
        assert replayed.digest() == playback.digest()


@pytest.mark.mission("LEARN-20")
def test_the_controller_znode_is_deleted_by_hand() -> None:
    with begun() as playback:
        before = playback.cluster.controller_id()
        assert done(playback, "delete_znode", path="/controller") is None
        assert playback.run_until(lambda cluster: cluster.controller_id() is not None)
        playback.advance_to(playback.now_us + S)
        assert before is not None
        elected = facts_of(playback, "controller_elected")
        assert len(elected) == 2
        assert done(playback, "delete_znode", path="/brokers") == (
            "/brokers cannot be deleted: NotEmpty"
        )
        assert done(playback, "delete_znode", path="/no") == "/no cannot be deleted: NoNode"
        assert done(playback, "delete_znode", path="no") == "no cannot be deleted: BadPath"
        assert done(playback, "write_znode", path="/by/hand") == (
            "/by/hand cannot be written: NoNode"
        )
        for text in ("a", "b"):
            assert done(playback, "write_znode", path="/by", text=text) is None
            assert playback.cluster.simulation.zookeeper.tree.get("/by")[0] == text.encode()
        assert done(playback, "zookeeper_away") is None
        assert done(playback, "delete_znode") == "ZooKeeper is stopped"
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
def test_a_partition_is_moved_and_led_by_the_wanted_broker() -> None:
    recipe = Recipe(seed=7, brokers=6, actions=TOPIC.actions)
    with begun(recipe) as playback:
        old = playback.cluster.leader(FIRST)
        new = [i for i in playback.cluster.broker_ids if i not in playback.cluster.replicas(FIRST)]
        assert done(playback, "reassign", replicas=",".join(map(str, new))) is None
        assert playback.run_until(
            lambda cluster: sorted(cluster.replicas(FIRST)) == new and cluster.leader(FIRST) != old
        )
        leader = playback.cluster.leader(FIRST)
        problem = done(playback, "elect_leaders")
        assert problem is not None
        assert "ELECTION_NOT_NEEDED" in problem
        done(playback, "kill", broker=leader)
        assert playback.run_until(lambda cluster: cluster.leader(FIRST) not in (leader, -1))
        done(playback, "start", broker=leader)
        assert playback.run_until(lambda cluster: len(cluster.state(FIRST).leader_and_isr.isr) == 3)
        assert done(playback, "elect_leaders", election="preferred") is None
        assert playback.run_until(lambda cluster: cluster.leader(FIRST) == leader)
        for wrong in ("1,x", "0", "7", "1,²"):
            problem = done(playback, "reassign", replicas=wrong)
            assert problem is not None
            assert problem.startswith("replicas are numbers")
        problem = done(playback, "reassign", replicas="")
        assert problem is not None
        assert "NO_REASSIGNMENT_IN_PROGRESS" in problem
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
def test_a_topic_is_created_on_the_wanted_brokers() -> None:
    with begun() as playback:
        assert done(playback, "create_topic", topic="placed", assignment="3,1;2,3") is None
        for number, brokers in enumerate(([1, 3], [2, 3])):
            partition = TopicPartition("placed", number)
            assert sorted(playback.cluster.replicas(partition)) == brokers
        assert playback.cluster.leader(TopicPartition("placed", 0)) == 3
        assert done(playback, "create_topic", topic="x", assignment="4") is not None
        problem = done(playback, "create_topic", topic="placed")
        assert problem is not None
        assert "TOPIC_ALREADY_EXISTS" in problem
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
def test_one_fetch_waits_for_records() -> None:
    with begun() as playback:
        begin_us = playback.now_us
        assert done(playback, "read", max_wait_ms=2_000) is None
        assert 2 * S < playback.now_us - begin_us < 2.2 * S
        act = begin(playback, "read", max_wait_ms=20_000, min_bytes=100)
        done(playback, "produce", value="few")
        done(playback, "produce", value="enough" * 20)
        assert playback.run_until(lambda _: act.ended)
        done(playback, "read", max_wait_ms=500, offset=1)
        read = [facts["values"].split() for facts in facts_of(playback, "read")]
        assert [[value[:3] for value in values] for values in read] == [[], ["few", "eno"], ["eno"]]
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
@pytest.mark.parametrize(
    ("assignor", "expected"), [("range", [[0, 1], [2]]), ("roundrobin", [[0, 2], [1]])]
)
def test_a_group_uses_the_wanted_assignor(assignor: str, expected: list[list[int]]) -> None:
    with begun() as playback:
        done(playback, "create_topic", topic="three", partitions=3)
        for member in ("m1", "m2"):
            begin(playback, "join_group", topic="three", member=member, assignor=assignor)
        assert playback.run_until(
            lambda cluster: sorted(looks.shares(cluster, "g").values()) == expected
        )
        playback.advance_to(playback.now_us)  # also the rest of this microsecond
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
def test_a_consumer_group_waits_for_a_slow_member_and_refuses_a_dead_one() -> None:
    limit = "group.consumer.min.session.timeout.ms"
    settings = {limit: "6000", "group.consumer.session.timeout.ms": "6000"}
    with begun(Recipe(seed=7, settings=settings, actions=TOPIC.actions)) as playback:
        done(playback, "add_partitions", partitions=4)
        member: dict[str, Value] = {"protocol": "consumer", "assignor": "range"}
        begin(playback, "join_group", revoke_ms=7_000, **member)
        assert playback.run_until(lambda cluster: shares_of(cluster) == [[0, 1, 2, 3]])
        begin(playback, "join_group", member="m2", **member)
        assert playback.run_until(lambda cluster: shares_of(cluster) == [[], [0, 1, 2, 3]])
        waits_us = playback.now_us
        assert playback.run_until(lambda cluster: all(shares_of(cluster)))
        assert playback.now_us > waits_us + 7 * S
        assert sorted(map(len, shares_of(playback.cluster))) == [2, 2]
        done(playback, "vanish", member="m2")
        assert done(playback, "commit_offset", member="m2", offset=0) is None
        assert "STALE_MEMBER_EPOCH" in (done(playback, "commit_offset", offset=0, epoch=9) or "")
        assert playback.run_until(lambda cluster: shares_of(cluster) == [[0, 1, 2, 3]])
        assert "UNKNOWN_MEMBER_ID" in (done(playback, "commit_offset", member="m2", offset=0) or "")
        assert done(playback, "leave_group", member="m2") == "the group g has no member m2"
        playback.advance_to(playback.now_us + S)
        check_replay(playback)


def share_start(cluster: SimCluster) -> int:
    known = looks.share_partition(cluster, "queue", FIRST)
    return -1 if known is None else int(known["start"])


def shares_of(cluster: SimCluster) -> list[list[int]]:
    return sorted(looks.shares(cluster, "g").values())


@pytest.mark.mission("LEARN-20")
def test_a_share_consumer_acknowledges_by_itself_or_by_hand() -> None:
    with begun() as playback:
        hand: dict[str, Value] = {"group": "queue", "acknowledgement": "by_hand"}
        leaving = begin(playback, "join_share_group", member="m1", max_records=2, **hand)
        assert playback.run_until(lambda cluster: share_start(cluster) == 0)
        assert "holds no records" in (done(playback, "acknowledge", group="queue") or "")
        begin(playback, "produce", records=5)
        assert playback.run_until(lambda _: bool(facts_of(playback, "acquired")))
        assert done(playback, "acknowledge", group="queue", acknowledgement="reject") is None
        assert playback.run_until(lambda _: len(facts_of(playback, "acquired")) == 2)
        assert done(playback, "leave_group", group="queue") is None  # releases what it holds
        assert playback.run_until(lambda _: leaving.ended)
        assert (done(playback, "commit_offset", group="queue", offset=0) or "").startswith(
            "a share"
        )
        begin(playback, "join_share_group", group="queue", member="m2", work_ms=70)

        assert playback.run_until(lambda cluster: share_start(cluster) == 5)
        acquired = [
            (e["member"], e["offsets"], e["deliveries"]) for e in facts_of(playback, "acquired")
        ]
        assert acquired[:2] == [("m1", [0, 1], [1, 1]), ("m1", [2, 3], [1, 1])]
        delivered = {
            o: n for m, os, ns in acquired if m == "m2" for o, n in zip(os, ns, strict=True)
        }
        assert delivered == {2: 2, 3: 2, 4: 1}
        playback.advance_to(playback.now_us)  # also the rest of this microsecond
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"assignor": "uniform"}, "the classic protocol refuses this: "),
        ({"protocol": "consumer", "session_ms": 6_000}, "the consumer protocol refuses this: "),
        ({"protocol": "consumer", "assignor": "sticky"}, "UNSUPPORTED_ASSIGNOR: "),
    ],
)
def test_what_a_group_protocol_does_not_have_is_refused(
    arguments: dict[str, Value], problem: str
) -> None:
    with begun() as playback:
        assert (done(playback, "join_group", **arguments) or "").startswith(problem)
        assert done(playback, "commit_offset", member="m3", offset=0) == (
            "the group g has no member m3"
        )


@pytest.mark.mission("LEARN-20")
def test_a_member_of_two_topics_says_what_it_gets_and_gives_up() -> None:
    with begun() as playback:
        assert done(playback, "add_partitions", partitions=2) is None
        assert "2 partitions" in (done(playback, "add_partitions", partitions=2) or "")
        done(playback, "create_topic", topic="other")
        act = begin(playback, "join_group", second_topic="other")
        assert playback.run_until(lambda _: bool(facts_of(playback, "partitions_assigned")))
        begin(playback, "leave_group")
        assert playback.run_until(lambda _: act.ended)
        for name in ("partitions_assigned", "partitions_revoked"):
            facts = {"group": "g", "member": "m1", "partitions": ["other-0", "t-0", "t-1"]}
            assert facts_of(playback, name) == [facts]
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
def test_records_without_a_key_take_turns_or_stay_together() -> None:
    with begun() as playback:
        for topic, partitioner in (("turns", "round_robin"), ("stays", "sticky")):
            done(playback, "create_topic", topic=topic, partitions=3)
            places: dict[str, Value] = {"topic": topic, "partitioner": partitioner, "linger_ms": 20}
            done(playback, "produce", records=3, every_ms=2, **places)
            found = [looks.batches(playback.cluster, TopicPartition(topic, n)) for n in range(3)]
            counts = sorted([batch.record_count for batch in each] for each in found)
            assert counts == ([[1]] * 3 if topic == "turns" else [[], [], [3]])
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
def test_records_are_deleted_on_all_replicas() -> None:
    with begun() as playback:
        done(playback, "produce", records=5)
        assert done(playback, "delete_records", offset=3) is None
        [facts] = facts_of(playback, "records_deleted")
        assert (facts["partition"], facts["low_watermark"]) == ("t-0", 3)
        replicas = playback.cluster.replicas(FIRST).values()
        assert [each.log.log_start_offset for each in replicas] == [3] * 3
        assert "OFFSET_OUT_OF_RANGE" in (done(playback, "delete_records", offset=6) or "")
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
def test_a_setting_of_a_topic_is_changed() -> None:
    with begun() as playback:
        assert done(playback, "set_config", name="min.insync.replicas", value="3") is None
        done(
            playback, "kill", broker=next(i for i in (1, 2) if i != playback.cluster.leader(FIRST))
        )
        assert playback.run_until(lambda cluster: len(cluster.state(FIRST).leader_and_isr.isr) == 2)
        act = begin(playback, "produce")
        playback.advance_to(playback.now_us + 2 * S)
        assert not act.ended
        assert done(playback, "set_config", name="min.insync.replicas", value="") is None
        assert playback.run_until(lambda _: act.ended)
        assert facts_of(playback, "produced") == [{"topic": "t", "records": 1}]
        problem = done(playback, "set_config", name="retention.ms", value="soon")
        assert problem is not None
        assert "retention.ms" in problem
        check_replay(playback)


@pytest.mark.mission("LEARN-21")
def test_a_reader_of_committed_records_sees_whole_transactions() -> None:
    with begun() as playback:
        assert done(playback, "begin_transaction") is None
        assert done(playback, "begin_transaction") == "instance 1 of tx is in a transaction"
        assert done(playback, "send_in_transaction", records=2, value="a") is None
        assert done(playback, "read") is None
        assert done(playback, "read", isolation="read_uncommitted") is None
        assert done(playback, "commit_transaction") is None
        assert done(playback, "begin_transaction") is None
        assert done(playback, "send_in_transaction", records=1, value="b") is None
        assert done(playback, "abort_transaction") is None
        assert done(playback, "commit_transaction") == "instance 1 of tx is in no transaction"
        assert done(playback, "produce", value="c") is None
        assert done(playback, "read") is None
        assert done(playback, "read", isolation="read_uncommitted") is None
        seen = [(facts["isolation"], facts["values"]) for facts in facts_of(playback, "read")]
        assert seen == [
            ("read_committed", ""),
            ("read_uncommitted", "a0 a1"),
            ("read_committed", "a0 a1 c0"),
            ("read_uncommitted", "a0 a1 b0 c0"),
        ]
        check_replay(playback)


@pytest.mark.mission("LEARN-21")
def test_a_new_instance_fences_the_old_one() -> None:
    with begun() as playback:
        done(playback, "begin_transaction")
        done(playback, "send_in_transaction", value="old")
        assert done(playback, "begin_transaction", instance=2) is None
        assert done(playback, "send_in_transaction", instance=2, value="new") is None
        problem = done(playback, "send_in_transaction", value="zombie")
        assert problem is not None
        assert "PRODUCER" in problem
        problem = done(playback, "commit_transaction")
        assert problem is not None
        assert done(playback, "commit_transaction", instance=2) is None
        done(playback, "read")
        assert facts_of(playback, "read")[0]["values"] == "new0"
        assert done(playback, "begin_transaction") is None  # it starts again, and fences 2
        assert done(playback, "begin_transaction", instance=2) is None  # this sends no request
        problem = done(playback, "send_in_transaction", instance=2)
        assert problem is not None
        assert "PRODUCER" in problem
        check_replay(playback)


@pytest.mark.mission("LEARN-21")
def test_the_transaction_of_a_producer_that_vanishes_times_out() -> None:
    with begun() as playback:
        done(playback, "begin_transaction", timeout_ms=5_000)
        done(playback, "send_in_transaction", value="lost")
        assert done(playback, "vanish_producer") is None
        assert done(playback, "abort_transaction") == "instance 1 of tx is in no transaction"
        done(playback, "produce", value="v")
        done(playback, "read")
        playback.advance_to(playback.now_us + 20 * S)
        done(playback, "read")
        assert [facts["values"] for facts in facts_of(playback, "read")] == ["", "v0"]
        check_replay(playback)


@pytest.mark.mission("LEARN-20")
def test_records_go_straight_to_a_leader_that_is_none_any_more() -> None:
    """It still takes them with acks=1, since it has not heard of the election; they are lost."""
    with begun() as playback:
        zombie = playback.cluster.leader(FIRST)
        done(playback, "produce", value="kept")
        done(playback, "isolate", broker=zombie)
        assert playback.run_until(lambda cluster: cluster.leader(FIRST) not in (zombie, -1))
        assert done(playback, "produce", acks="1", to=zombie, value="lost") is None
        assert done(playback, "produce", acks="1", to=zombie % 3 + 1, partition=5) is None
        assert done(playback, "produce", to=9) == "there is no broker 9"
        kept, lost, nowhere = facts_of(playback, "produced")
        assert (kept["records"], lost["records"], nowhere["records"]) == (1, 1, 0)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in nowhere["error"]
        done(playback, "heal_all")
        assert playback.run_until(lambda cluster: len(cluster.state(FIRST).leader_and_isr.isr) == 3)
        done(playback, "read")
        assert facts_of(playback, "read")[0]["values"] == "kept0"
        check_replay(playback)


def places(levels: list[WheelLevel]) -> list[tuple[int, int]]:
    """Return level and slot of each timer."""
    return [
        (level.level, slot)
        for level in levels
        for slot, tasks in enumerate(level.tasks_by_slot)
        for _ in range(tasks)
    ]


@pytest.mark.mission("LEARN-22")
@pytest.mark.parametrize("start_us", [1 * S, 1_234_567])
def test_the_timers_of_the_lesson_are_where_the_posts_have_them(start_us: int) -> None:
    with begun() as playback:
        playback.advance_to(start_us)
        act = begin(playback, "timers")
        (wheel,) = playback.stagehand.wheels
        assert places(wheel.purgatory.levels()) == [(1, 2), (1, 8), (1, 19), (2, 17), (3, 1)]
        playback.advance_to(start_us + 341_000)  # the bucket of 340 ms has come down
        assert places(wheel.purgatory.levels()) == [(1, 10), (3, 1)]
        playback.advance_to(start_us + 401_000)
        assert places(wheel.purgatory.levels()) == [(2, 2)]
        playback.advance_to(start_us + 449_000)
        assert not act.ended
        playback.advance_to(start_us + 451_000)
        assert act.ended
        fired = facts_of(playback, "timer_fired")
        assert [facts["delay_ms"] for facts in fired] == [2, 8, 19, 350, 450]
        assert all(0 <= facts["after_ms"] - facts["delay_ms"] <= 1 for facts in fired)
        assert done(playback, "timers", delays=" 5, 7") is None
        assert done(playback, "timers", delays="x") == (
            "delays are numbers with commas between them, not 'x'"
        )
        assert done(playback, "timers", delays="0") == "delays are numbers from 1 to 600000"
        assert done(playback, "timers", delays=",".join(["1"] * 51)) is not None
        check_replay(playback)


LINKS = st.sampled_from(["broker-1", "broker-2", "broker-3", "zookeeper", "client"])


@pytest.mark.mission("LEARN-23")
@pytest.mark.parametrize("repair", ["normal_link", "heal"])
def test_a_slow_link_is_slow_in_both_directions_until_it_is_normal(repair: str) -> None:
    with begun(messages=1_000) as playback:
        leader = playback.cluster.leader(FIRST)
        link = {"one": "client", "other": f"broker-{leader}"}
        done(playback, "slow_link", **link, ms=200)
        (facts,) = (facts for facts in host_facts(playback.cluster) if facts["name"] == "client")
        assert facts["links"] == {f"broker-{leader}": "slow"}
        done(playback, "produce", acks="1")
        produces = [m for m in playback.messages if m.api == "Produce"]
        assert len(produces) == 2
        for message in produces:
            assert message.arrived_us is not None
            assert 200_000 <= message.arrived_us - message.sent_us <= 202_000
        done(playback, repair, **link)
        done(playback, "produce", acks="1")
        last = [message for message in playback.messages if message.api == "Produce"][-1]
        assert last.arrived_us is not None
        assert last.arrived_us - last.sent_us < 2_000
        assert not any(facts["links"] for facts in host_facts(playback.cluster))
        check_replay(playback)


@pytest.mark.mission("LEARN-23")
def test_a_slow_disk_delays_flushes() -> None:
    def took_us(*, slow: bool) -> int:
        with begun() as playback:
            done(playback, "set_config", name="flush.messages", value="1")
            if slow:
                for broker in (1, 2, 3):
                    done(playback, "slow_disk", broker=broker, ms=300)
                assert [f["disk"] for f in host_facts(playback.cluster)][:3] == ["slow"] * 3
            begin_us = playback.now_us
            done(playback, "produce")
            taken_us = playback.now_us - begin_us
            for broker in (1, 2, 3):
                done(playback, "repair_disk", broker=broker)
            assert [f["disk"] for f in host_facts(playback.cluster)][:3] == ["ok"] * 3
            check_replay(playback)
            return taken_us

    assert took_us(slow=True) > took_us(slow=False) + 250_000


def replicas(playback: Playback) -> list[Partition]:
    return list(playback.cluster.replicas(FIRST).values())


def changes_of(playback: Playback) -> Mapping[int, list[str]]:
    """Return what happens to each message from now on."""
    changes: dict[int, list[str]] = defaultdict(list)
    playback.wire_observers.append(lambda m, change: changes[m.number].append(change))
    return changes


def sent(playback: Playback, **wanted: object) -> int:
    """Play until a message is sent; return its number."""

    def found() -> list[int]:
        return [
            message.number
            for message in playback.messages
            if message.arrived_us is None
            and not message.lost
            and all(getattr(message, name) == value for name, value in wanted.items())
        ]

    assert playback.run_until(lambda _: bool(found()), resolution_us=20)
    return found()[0]


@pytest.mark.mission("LEARN-23")
@pytest.mark.parametrize("by_number", [True, False])
def test_a_held_message_and_all_behind_it_arrive_after_its_release(by_number: bool) -> None:
    with begun(messages=1_000) as playback:
        act = begin(playback, "produce", records=3, every_ms=60, acks="0")
        number = sent(playback, api="Produce", is_request=True)
        changes = changes_of(playback)
        assert done(playback, "hold_message", number=number) is None
        playback.advance_to(playback.now_us + 100_000)
        changed = {message.number: message for message in playback.messages}
        assert changed[number].held
        assert changes[number] == ["held"]
        behind = [m for m in changed.values() if m.api == "Produce" and m.number > number]
        assert changes[behind[0].number] == ["sent", "held"]
        assert [message.held for message in behind] == [True]
        client = next(f for f in host_facts(playback.cluster) if f["name"] == "client")
        assert list(client["links"].values()) == ["held"]
        assert all(replica.log.log_end_offset == 0 for replica in replicas(playback))
        assert done(playback, "release_message", number=number + 10_000) is not None
        if by_number:
            assert done(playback, "release_message", number=number) is None
        else:
            other = changed[number].target
            assert done(playback, "heal", one="client", other=other) is None
        released_us = playback.now_us
        assert playback.run_until(lambda _: act.ended)
        for message in (changed[number], *behind):
            assert not message.held
            assert message.arrived_us is not None
            assert message.arrived_us > released_us
            assert changes[message.number][-2:] == ["released", "arrived"]
        done(playback, "read")
        assert facts_of(playback, "read")[0]["values"] == "0 1 2"
        assert done(playback, "hold_message", number=number) == (
            f"the message {number} is not on its way"
        )
        check_replay(playback)


@pytest.mark.mission("LEARN-23")
@pytest.mark.parametrize(("acks", "values"), [("1", "0 0"), ("all", "0")])
def test_a_request_whose_response_is_held_is_repeated(acks: str, values: str) -> None:
    """Only an idempotent producer writes the record once."""
    with begun(messages=5_000) as playback:
        act = begin(playback, "produce", acks=acks)
        number = sent(playback, api="Produce", is_request=False)
        done(playback, "hold_message", number=number)
        held = next(message for message in playback.messages if message.number == number)
        assert playback.run_until(lambda _: act.ended)
        assert facts_of(playback, "produced") == [{"topic": "t", "records": 1}]
        assert held.arrived_us is None
        done(playback, "read")
        assert facts_of(playback, "read")[0]["values"] == values
        check_replay(playback)


@pytest.mark.mission("LEARN-29")
def test_refused_connections_are_on_the_wire() -> None:
    """Something on the way may refuse them for a broker that runs."""
    with begun(messages=5_000) as playback:
        for verb, refuses in (("refuse", True), ("accept", False)):
            done(playback, verb, broker=1)
            host = next(f for f in host_facts(playback.cluster) if f["name"] == "broker-1")
            assert (host["refuses"], host["alive"]) == (refuses, True)
            begin(playback, "produce", to=1)
            playback.advance_to(playback.now_us + 100_000)
            error = facts_of(playback, "produced")[-1].get("error", "")
            assert ("ECONNREFUSED" in error) == refuses
        messages = [m for m in playback.messages if m.sent_us > 1 * S]  # all brokers listen
        refused = [m for m in messages if (m.api, m.target) == (REFUSED, "client")]
        assert {message.source for message in refused} == {"broker-1"}
        for message in refused:
            assert (message.is_request, message.is_zookeeper, message.lost) == (False,) * 3
            assert message.arrived_us is not None
            assert message.arrived_us > message.sent_us
        check_replay(playback)


@pytest.mark.mission("LEARN-29")
def test_messages_of_zookeeper_are_on_the_wire_and_can_be_held() -> None:
    with begun(messages=5_000) as playback:
        names = {message.api for message in playback.messages if message.is_zookeeper}
        assert {"Connect", "Multi /controller", "WatchEvent /brokers/topics"} <= names
        creations = [m for m in playback.messages if m.api == "Multi /controller"]
        requests = [message for message in creations if message.is_request]
        assert len(requests) >= 2  # who wants to be the controller
        for request in requests:
            responses = [
                m for m in creations if (m.target, m.is_request) == (request.source, False)
            ]
            assert len(responses) == 1
            assert request.arrived_us is not None
            assert request.sent_us < request.arrived_us <= responses[0].sent_us
        before = playback.cluster.controller_id()
        done(playback, "delete_znode")
        number = sent(playback, api="Multi /controller")
        done(playback, "hold_message", number=number)
        held = next(message for message in playback.messages if message.number == number)
        playback.advance_to(playback.now_us + 100_000)
        assert held.held
        assert playback.cluster.controller_id() not in (None, int(held.source[-1]))  # outrun
        (zookeeper,) = (f for f in host_facts(playback.cluster) if f["name"] == "zookeeper")
        assert zookeeper["links"] == {held.source: "held"}
        done(playback, "release_message", number=number)
        playback.advance_to(playback.now_us + 10_000)
        assert held.arrived_us is not None
        assert before is not None
        done(playback, "cut", one="broker-1", other="zookeeper")
        playback.advance_to(playback.now_us + 12 * S)
        pings = [m for m in playback.messages if (m.api, m.source) == ("Ping", "broker-1")]
        assert pings[-1].held or pings[-1].lost
        check_replay(playback)


STEPS: Mapping[str, Callable[[st.DrawFn], dict[str, Value]]] = {
    "slow_link": lambda draw: link(draw) | {"ms": draw(st.integers(1, 3_000))},
    "normal_link": lambda draw: link(draw),
    "hold_message": lambda draw: {"number": draw(st.integers(1, 400))},
    "release_message": lambda draw: {"number": draw(st.integers(1, 400))},
    "slow_disk": lambda draw: {"broker": draw(st.integers(1, 3)), "ms": draw(st.integers(1, 900))},
    "delete_znode": lambda draw: {
        "path": draw(st.sampled_from(["/controller", "/brokers/ids/1", "/brokers/topics/t"]))
    },
    "kill": lambda draw: {"broker": draw(st.integers(1, 3))},
    "start": lambda draw: {"broker": draw(st.integers(1, 3))},
    "reset": lambda draw: link(draw),
    "refuse": lambda draw: {"broker": draw(st.integers(1, 3))},
    "accept": lambda draw: {"broker": draw(st.integers(1, 3))},
    "heal_all": lambda draw: {},
    "timers": lambda draw: {"delays": draw(st.sampled_from(["1", "2,8,19,350,450", "5000"]))},
    "produce": lambda draw: {
        "to": draw(st.integers(0, 3)), "acks": draw(st.sampled_from(["0", "1", "all"]))
    },
    "begin_transaction": lambda draw: {"instance": draw(st.integers(1, 2))},
    "send_in_transaction": lambda draw: {"instance": draw(st.integers(1, 2))},
    "commit_transaction": lambda draw: {"instance": draw(st.integers(1, 2))},
    "abort_transaction": lambda draw: {"instance": draw(st.integers(1, 2))},
    "vanish_producer": lambda draw: {"instance": draw(st.integers(1, 2))},
    "elect_leaders": lambda draw: {"election": draw(st.sampled_from(["preferred", "unclean"]))},
    "set_config": lambda draw: {"value": draw(st.sampled_from(["", "2", "3"]))},
    "reassign": lambda draw: {"replicas": draw(st.sampled_from(["", "1,2", "3,1", "2"]))},
    "read": lambda draw: {},
}  # fmt: skip


def link(draw: st.DrawFn) -> dict[str, Value]:
    one = draw(LINKS)
    return {"one": one, "other": draw(LINKS)}


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    recipe = TOPIC
    t_us = 600_000
    for name in draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=8)):
        t_us += draw(st.integers(0, 1_500_000))
        recipe = recipe.then(t_us, name, STEPS[name](draw))
    return recipe


def outcome(playback: Playback) -> tuple[str, list[LogEvent]]:
    return playback.digest(), list(playback.events)


@pytest.mark.mission("LEARN-24")
@settings(max_examples=12, deadline=None)
@given(recipes(), st.lists(st.integers(1, 900_000), max_size=20))
def test_any_recipe_has_one_outcome(recipe: Recipe, slices: list[int]) -> None:
    """In slices, with looks at hosts and messages in between, as in one run."""
    end_us = min(MAX_US, recipe.actions[-1].t_us + 3 * S)
    with Playback(recipe) as whole:
        whole.advance_to(end_us)
        expected = outcome(whole)
    with Playback(recipe, messages=50) as sliced:
        for slice_us in slices:
            sliced.advance_to(min(end_us, sliced.now_us + slice_us))
            look(sliced.cluster, sliced)
        sliced.advance_to(end_us)
        assert outcome(sliced) == expected


def look(cluster: SimCluster, playback: Playback) -> None:
    for message in playback.messages:
        assert not (message.held and (message.lost or message.arrived_us is not None))
    assert {facts["name"] for facts in host_facts(cluster)} == {
        "broker-1", "broker-2", "broker-3", "zookeeper", "client",
    }  # fmt: skip
