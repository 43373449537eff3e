"""Playback: whatever the slices, stops and detours, a recipe has one outcome."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Mapping

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn.actions import ACTIONS
from minikafka.page.learn.playback import Playback
from minikafka.page.learn.recipe import Recipe, TimedAction, Value
from minikafka.testing.simulator.cluster import LogEvent, SimCluster

END_US = 14_000_000
S = 1_000_000
FIRST = TopicPartition("t", 0)
# A broker that leads, or is the controller, dies under load and comes back.
FAILOVER = Recipe(
    "failover",
    seed=3,
    actions=[
        TimedAction(0, "create_topic", {"topic": "t", "partitions": 2, "replicas": 3}),
        TimedAction(1 * S, "produce", {"records": 20, "every_ms": 50}),
        TimedAction(1 * S, "join_group", {"session_ms": 6_000}),
        TimedAction(1_500_000, "kill", {"broker": 1}),
        TimedAction(9 * S, "start", {"broker": 1}),
        TimedAction(9 * S, "cut", {"one": "broker-2", "other": "broker-3"}),
        TimedAction(11 * S, "heal_all", {}),
        TimedAction(12 * S, "leave_group", {}),
    ],
)


def outcome(playback: Playback) -> tuple[str, list[LogEvent]]:
    return playback.digest(), list(playback.events)


@pytest.fixture(scope="module")
def whole() -> tuple[str, list[LogEvent]]:
    """What one uninterrupted run comes to."""
    with Playback(FAILOVER) as playback:
        playback.advance_to(END_US)
        return outcome(playback)


@pytest.mark.mission("LEARN-5")
@pytest.mark.parametrize("seed", range(4))
def test_random_slices_equal_one_run(seed: int, whole: tuple[str, list[LogEvent]]) -> None:
    """With the log of messages, too, and with jumps back and forth."""
    dice = random.Random(seed)
    with Playback(FAILOVER, messages=dice.choice([0, 50])) as playback:
        moves: list[Callable[[], object]] = [
            lambda: playback.advance_to(playback.now_us + dice.randrange(S)),
            lambda: playback.step(dice.randrange(S)),
            lambda: playback.run_until(lambda _: dice.random() < 0.1, dice.randrange(S)),
        ]
        if playback.messages.maxlen:
            moves.append(lambda: playback.step_message(dice.randrange(S)))
        while playback.now_us < END_US - 2 * S:
            dice.choice(moves)()
            if dice.random() < 0.02:
                playback.scrub_to(dice.randrange(END_US))
        playback.advance_to(END_US)
        assert outcome(playback) == whole


@pytest.mark.mission("LEARN-5")
def test_actions_by_hand_equal_their_recipe(whole: tuple[str, list[LogEvent]]) -> None:
    with Playback(Recipe("failover", FAILOVER.seed)) as playback:
        for t_us, name, arguments in FAILOVER.actions:
            playback.advance_to(t_us)
            playback.act(name, **arguments)
        playback.advance_to(END_US)
        assert outcome(playback) == whole
        assert playback.recipe.actions == FAILOVER.actions


@pytest.mark.mission("LEARN-5")
def test_an_action_between_two_turns_is_played_at_its_time() -> None:
    """A step stops amid the turns of one moment; the action comes after all of them."""
    with Playback(FAILOVER) as playback:
        playback.advance_to(1_200_000)
        playback.step()
        playback.act("kill", broker=2)
        playback.step()
        playback.act("isolate", broker=3)
        playback.advance_to(6 * S)
        acted, recipe = outcome(playback), playback.recipe
        playback.scrub_to(0)
        playback.scrub_to(6 * S)
        assert outcome(playback) == acted
    assert [action.name for action in recipe.actions[3:]] == ["kill", "isolate"]  # forked
    with Playback(Recipe.from_fragment(recipe.to_fragment())) as replayed:
        replayed.advance_to(6 * S)
        assert outcome(replayed) == acted


@pytest.mark.mission("LEARN-7")
def test_a_recipe_opens_as_a_test(whole: tuple[str, list[LogEvent]]) -> None:
    source = FAILOVER.as_pytest(END_US, whole[0])
    names: dict[str, Callable[[], None]] = {}
    exec(compile(source, "test_failover.py", "exec"), names)
    names["test_failover"]()
    wrong: dict[str, Callable[[], None]] = {}
    exec(compile(FAILOVER.as_pytest(END_US, "another digest"), "wrong.py", "exec"), wrong)
    with pytest.raises(AssertionError):
        wrong["test_failover"]()


@pytest.mark.mission("LEARN-3")
def test_messages_are_seen_from_the_request_to_the_response() -> None:
    with Playback(FAILOVER, messages=5_000) as playback:
        playback.advance_to(1 * S)
        (first, *_) = playback.step_message()
        assert first.arrived_us == playback.now_us
        playback.advance_to(1_400_000)
        produces = [message for message in playback.messages if message.api == "Produce"]
        requests = [message for message in produces if message.is_request]
        responses = {
            (m.target, m.source, m.correlation_id): m for m in produces if not m.is_request
        }
        assert len(requests) > 5
        for request in requests:
            assert request.source == "client"
            if request.arrived_us is not None:
                key = (request.source, request.target, request.correlation_id)
                if (response := responses.get(key)) is not None:
                    assert request.sent_us < request.arrived_us <= response.sent_us
        assert {"Fetch", "LeaderAndIsr", "UpdateMetadata", "JoinGroup"} <= {
            message.api for message in playback.messages
        }
    with Playback(FAILOVER) as playback, pytest.raises(ValueError, match="keeps no messages"):
        playback.step_message()


@pytest.mark.mission("LEARN-1")
def test_traces_have_names_of_errors(whole: tuple[str, list[LogEvent]]) -> None:
    errors = " ".join(str(value) for event in whole[1] for value in event.facts.values())
    assert "Errno" not in errors
    assert "[ECONNRE" in errors


def names_of(playback: Playback) -> list[str]:
    return [event.name for event in playback.events]


def possible(playback: Playback) -> bool:
    return not {"action_not_possible", "client_failed"} & set(names_of(playback))


@pytest.mark.mission("LEARN-6")
def test_run_until_a_leader_has_changed() -> None:
    with Playback(FAILOVER) as playback:
        playback.advance_to(1 * S)
        leader = playback.cluster.leader(FIRST)

        def changed(cluster: SimCluster) -> bool:
            return cluster.leader(FIRST) not in (leader, -1)

        playback.act("kill", broker=leader)
        assert not playback.run_until(changed, 100_000)
        assert playback.now_us == 1_100_000
        assert playback.run_until(changed)
        assert playback.now_us > 6 * S  # its session had to expire
        assert possible(playback)


@pytest.mark.mission("LEARN-6")
def test_clients_come_and_go() -> None:
    with Playback(FAILOVER.until(0)) as playback:
        playback.advance_to(1 * S)
        playback.act("produce", records=30, acks="1", key="k", value="v")
        for member in ("m1", "m2"):
            playback.act("join_group", member=member, session_ms=6_000)
        playback.advance_to(6 * S)
        read = sum(e.facts["records"] for e in playback.events if e.name == "consumed")
        assert read == 30
        playback.act("join_group", member="m2")
        assert names_of(playback)[-1] == "action_not_possible"
        playback.act("vanish", member="m2")
        playback.advance_to(14 * S)
        assert "member_failed" in names_of(playback)
        playback.act("leave_group", member="m1")
        playback.act("leave_group", member="m2")
        assert playback.events[-1].facts["reason"] == "the group g has no member m2"
        playback.act("delete_topic")
        playback.act("produce", topic="nowhere", records=1)
        playback.advance_to(16 * S)


LINK = {"one": "broker-1", "other": "zookeeper"}
# What to do at 1.5 s under load, and what undoes it at 6 s.
FAULTS: list[tuple[str, Mapping[str, Value], str, Mapping[str, Value]]] = [
    ("kill", {"broker": 1}, "start", {"broker": 1}),
    ("stop", {"broker": 1}, "start", {"broker": 1}),
    ("power_loss", {"broker": 2}, "start", {"broker": 2}),
    ("pause", {"broker": 2}, "resume", {"broker": 2}),
    ("isolate", {"broker": 3}, "heal_all", {}),
    (
        "cut",
        {"one": "broker-1", "other": "zookeeper"},
        "heal",
        {"one": "zookeeper", "other": "broker-1"},
    ),
    ("reset", {"one": "broker-1", "other": "broker-2"}, "heal_all", {}),
    ("refuse", {"broker": 1}, "accept", {"broker": 1}),
    ("zookeeper_away", {}, "zookeeper_back", {}),
    ("expire_session", {"broker": 1}, "heal_all", {}),
    ("full_disk", {"broker": 1}, "repair_disk", {"broker": 1}),
]


@pytest.mark.mission("LEARN-6")
@pytest.mark.parametrize(("fault", "arguments", "repair", "repair_arguments"), FAULTS)
def test_each_fault_is_repaired(
    fault: str, arguments: dict[str, Value], repair: str, repair_arguments: dict[str, Value]
) -> None:
    load = Recipe(seed=1, actions=FAILOVER.actions[:2])
    recipe = load.then(1_500_000, fault, arguments).then(6 * S, repair, repair_arguments)

    def whole_again(cluster: SimCluster) -> bool:
        return len(cluster.nodes()) == 3 and len(cluster.state(FIRST).leader_and_isr.isr) == 3

    with Playback(recipe) as playback:
        playback.advance_to(6 * S)
        playback.advance_to(8 * S)
        assert playback.run_until(whole_again)
        assert possible(playback)


@pytest.mark.mission("LEARN-6")
def test_a_broker_with_a_broken_disk_ends_and_can_be_repaired() -> None:
    with Playback(FAILOVER.until(S)) as playback:
        playback.advance_to(1_200_000)
        playback.act("broken_disk", broker=2)
        assert playback.run_until(lambda cluster: not cluster.host(2).alive)
        playback.act("kill", broker=2)
        assert playback.events[-1].facts["reason"] == "broker 2 is down"
        playback.act("repair_disk", broker=2)
        playback.act("start", broker=2)
        assert playback.run_until(lambda cluster: len(cluster.nodes()) == 3)
        assert "broker_ended" in names_of(playback)


PLAYED_IN_TEST_PLAYED_ACTIONS = {
    "add_partitions",
    "commit_offset",
    "acknowledge",
    "join_share_group",
    "slow_link",
    "normal_link",
    "hold_message",
    "release_message",
    "delete_znode",
    "write_znode",
    "delete_records",
    "slow_disk",
    "read",
    "set_config",
    "reassign",
    "elect_leaders",
    "begin_transaction",
    "send_in_transaction",
    "commit_transaction",
    "abort_transaction",
    "vanish_producer",
    "timers",
}


@pytest.mark.mission("LEARN-6")
def test_every_action_is_played_here() -> None:
    played = {action.name for action in FAILOVER.actions}
    played |= {name for fault, _, repair, _ in FAULTS for name in (fault, repair)}
    above = {"broken_disk", "vanish", "delete_topic"}
    assert set(ACTIONS) - played - above == PLAYED_IN_TEST_PLAYED_ACTIONS


@pytest.mark.mission("LEARN-5")
@pytest.mark.parametrize(
    "t_us", [0, 5_000, 20_000, 40_000, 1_001_000, 1_150_000, 1_600_000, 9_500_000]
)
def test_it_can_be_closed_amid_everything(t_us: int) -> None:
    with Playback(FAILOVER) as playback:
        playback.advance_to(t_us)
        unhandled = playback.cluster.simulation.loop.unhandled
    gc.collect()  # of tasks whose exceptions nobody has seen
    assert not unhandled


@pytest.mark.mission("LEARN-5")
def test_times_are_checked() -> None:
    with Playback(Recipe()) as playback:
        playback.advance_to(1_000)
        for t_us in (999, 3_600 * S + 1):
            with pytest.raises(ValueError, match="the time must be"):
                playback.advance_to(t_us)
        assert playback.now_us == 1_000


@pytest.mark.mission("LEARN-5")
def test_after_a_failure_it_can_be_scrubbed_back() -> None:
    with Playback(Recipe(seed=2)) as playback:
        playback.advance_to(1 * S)
        before = outcome(playback)

        async def fail() -> None:
            raise ValueError("a bug")

        playback.cluster.spawn_client(fail(), "bug")
        with pytest.raises(ValueError, match="a bug"):
            playback.advance_to(2 * S)
        playback.scrub_to(1 * S)
        assert outcome(playback) == before
