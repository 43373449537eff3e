"""Who becomes controller, who resigns, and what is repaired."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.events import ControlledShutdown
from minikafka.kernel.errors import KafkaError
from minikafka.server.controller.elector import STAND_DOWN_MS
from minikafka.server.zookeeper.store import ControllerMoved
from tests.support.controller.controller_lab import NewCluster


def lines(logs: Any) -> Any:
    return [entry["event"] for entry in logs]


@pytest.mark.mission("CEL-1", "CEL-2", "CEL-9", "CEL-14")
async def test_the_first_broker_becomes_the_controller(new_cluster: NewCluster) -> None:
    with capture_logs() as logs:
        async with new_cluster() as cluster:
            (controller,) = await cluster.start(1)
            assert controller.is_active
            assert controller.active_controller_id == 1
            node = cluster.zookeeper.nodes["/controller"]
            assert node.ephemeral_owner == cluster.nodes[1].session.session_id
            content = json.loads(node.data)
            assert content["brokerid"] == 1
            assert content["timestamp"] == str(cluster.clock.wall_ms())
            assert cluster.zookeeper.nodes["/controller_epoch"].data == b"1"
            assert controller.context.epoch == 1
    assert [e["message"] for e in logs if e["event"] == "controller_elected"] == [
        "1 successfully elected as leader"
    ]


@pytest.mark.mission("CEL-1", "CEL-3", "CEL-5")
async def test_the_second_broker_gives_up_without_trying(new_cluster: NewCluster) -> None:
    with capture_logs() as logs:
        async with new_cluster() as cluster:
            first, second = await cluster.start(1, 2)
            assert (first.is_active, second.is_active) == (True, False)
            assert second.active_controller_id == 1
            assert ("multi", "/controller") not in cluster.nodes[2].trace
    assert [e["elected_broker"] for e in logs if e["event"] == "election_stopped"] == [1]


@pytest.mark.mission("CEL-8", "CDU-11", "CRS-4")
async def test_the_watch_is_set_before_the_first_election(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        trace = [call for call in cluster.nodes[1].trace if call[1] == "/controller"]
        assert trace[0] == ("exists", "/controller")
        assert trace.index(("multi", "/controller")) > 0
        watched = cluster.zookeeper.watched(cluster.nodes[2].session)
        assert watched == ["/controller"]  # all that a plain broker watches


@pytest.mark.mission("CEL-4", "CEL-6", "CEL-14")
async def test_one_of_five_concurrent_candidates_wins(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        for broker_id in range(1, 6):
            cluster.make_controller(await cluster.register(broker_id))
        for node in cluster.nodes.values():
            node.controller.start(cluster.tasks)
        await cluster.settle()
        controllers = [n.controller for n in cluster.nodes.values()]
        assert sum(c.is_active for c in controllers) == 1
        assert len({c.active_controller_id for c in controllers}) == 1
        assert cluster.zookeeper.nodes["/controller_epoch"].data == b"1"


@pytest.mark.mission("CEL-10")
async def test_losing_the_election_is_logged(new_cluster: NewCluster) -> None:
    with capture_logs() as logs:
        async with new_cluster() as cluster:
            for broker_id in (1, 2):
                cluster.make_controller(await cluster.register(broker_id))
            for node in cluster.nodes.values():
                node.controller.start(cluster.tasks)
            await cluster.settle()
            winner = cluster.active.active_controller_id
    assert ("election_lost", 3 - winner, winner) in [
        (e["event"], e["broker"], e.get("elected_broker")) for e in logs if "broker" in e
    ]


@pytest.mark.mission("CEL-10", "CEL-13")
async def test_a_winner_that_is_gone_at_once_means_another_round(new_cluster: NewCluster) -> None:
    with capture_logs() as logs:
        async with new_cluster() as cluster:
            node = await cluster.register(1)
            controller = cluster.make_controller(node)
            register = node.store.register_controller_and_increment_epoch
            moved: list[Any] = []

            async def beaten(broker_id: int, wall_ms: int) -> Any:
                if not moved:
                    moved.append(1)
                    raise ControllerMoved("somebody was faster, and is gone")
                return await register(broker_id, wall_ms)

            node.store.register_controller_and_increment_epoch = beaten  # type: ignore[method-assign]  # the test intercepts it
            controller.start(cluster.tasks)
            await cluster.settle()
            assert controller.is_active
    assert "elected_controller_resigned" in lines(logs)


@pytest.mark.mission("CEL-11", "CCB-4")
async def test_an_error_in_taking_office_leads_to_another_controller(
    new_cluster: NewCluster,
) -> None:
    with capture_logs() as logs:
        async with new_cluster() as cluster:
            node = await cluster.register(1)
            cluster.make_controller(node).start(cluster.tasks)
            node.session.fail["children", "/brokers/topics"] = RuntimeError("injected")
            await cluster.settle()
            assert not node.controller.is_active
            assert "/controller" not in cluster.zookeeper.nodes
            assert node.controller.context.epoch == 0  # nothing of the term stays
            (second,) = await cluster.start(2)
            assert second.is_active
            assert second.context.epoch == 2
            cluster.clock.advance(
                STAND_DOWN_MS
            )  # the first one may stand again, and finds the second
            await cluster.settle()
            assert node.controller.active_controller_id == 2
    assert "controller_failover_failed" in lines(logs)


@pytest.mark.mission("CEL-11", "CCB-4")
async def test_a_lone_broker_retries_its_election_after_a_while(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        node = await cluster.register(1)
        cluster.make_controller(node).start(cluster.tasks)
        node.session.fail["children", "/brokers/topics"] = RuntimeError("injected")
        await cluster.settle()
        assert not node.controller.is_active
        cluster.clock.advance(STAND_DOWN_MS)
        await cluster.settle()
        assert node.controller.is_active
        assert node.controller.context.epoch == 2


@pytest.mark.mission("CFO-3", "CFO-4", "CEL-6")
@pytest.mark.parametrize("broker_ids", [(1,), (1, 2)])
async def test_after_the_znode_is_deleted_the_old_controller_resigns_before_the_election(
    new_cluster: NewCluster, broker_ids: Any
) -> None:
    """Before it stands again, that is: another broker may be faster than its resignation."""
    async with new_cluster() as cluster:
        await cluster.start(*broker_ids)
        node = cluster.nodes[1]
        trace = len(node.trace)
        with capture_logs() as logs:
            cluster.zookeeper.delete("/controller")
            await cluster.settle()
        said = [(entry["event"], entry["broker"]) for entry in logs if "broker" in entry]
        elected = cluster.active.active_controller_id
        assert cluster.active.context.epoch == 2
        assert cluster.zookeeper.nodes["/controller_epoch"].data == b"2"
        assert said.count(("controller_resigned", 1)) == 1
        if elected == 1:
            won = said.index(("controller_elected", 1))
            assert said.index(("controller_resigned", 1)) < won
        else:
            assert ("multi", "/controller") not in node.trace[trace:]
        assert elected in broker_ids


@pytest.mark.mission("CFO-5", "CEL-6", "CEL-17")
async def test_a_dead_controller_is_replaced(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        await cluster.kill(1)
        assert cluster.active.active_controller_id in (2, 3)
        ids = {n.controller.active_controller_id for n in cluster.nodes.values()}
        assert ids == {cluster.active.active_controller_id}
        assert cluster.active.context.live_broker_ids() == [2, 3]


@pytest.mark.mission("CFO-5")
async def test_a_stopped_controller_is_replaced(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        first, second = await cluster.start(1, 2)
        await first.stop()
        await cluster.nodes[1].session.close()
        await cluster.settle()
        assert (first.is_active, second.is_active) == (False, True)
        assert second.context.epoch == 2


@pytest.mark.mission("CFO-1", "CFO-2", "CFO-6")
async def test_an_overwritten_controller_id_makes_the_controller_resign_and_all_elect(
    new_cluster: NewCluster,
) -> None:
    """R-13: Kafka would be left without a controller."""
    with capture_logs() as logs:
        async with new_cluster() as cluster:
            await cluster.start(1, 2, 3)
            cluster.zookeeper.set("/controller", b'{"version":1,"brokerid":2,"timestamp":"1"}')
            await cluster.settle()
            assert cluster.active.context.epoch == 2
            owner = cluster.zookeeper.nodes["/controller"].ephemeral_owner
            named = json.loads(cluster.zookeeper.nodes["/controller"].data)["brokerid"]
            assert cluster.nodes[named].session.session_id == owner
            assert cluster.active.active_controller_id == named
    assert "controller_node_repaired" in lines(logs)


@pytest.mark.mission("CEL-4")
@pytest.mark.parametrize("data", [b"", b"garbage", b"{}", b'{"version":1}', b"\xff\xfe"])
async def test_a_node_that_cannot_be_read_is_cleared_away(
    new_cluster: NewCluster, data: bytes
) -> None:
    """R-1: Kafka would wait until it goes by itself."""
    async with new_cluster() as cluster:
        cluster.zookeeper.create("/controller", data)
        (controller,) = await cluster.start(1)
        assert controller.is_active


@pytest.mark.mission("CEL-4", "CFO-2")
async def test_a_node_garbled_under_a_controller_is_cleared_away(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        cluster.zookeeper.set("/controller", b"garbage")
        await cluster.settle()
        assert cluster.active.context.epoch == 2


@pytest.mark.mission("CEL-12", "CEL-13")
async def test_the_node_of_an_own_old_session_gets_time_to_go(new_cluster: NewCluster) -> None:
    """Branch 1: same id. ZooKeeper takes it back within the time-out."""
    async with new_cluster() as cluster:
        ghost = cluster.zookeeper.new_session()
        data = b'{"version":1,"brokerid":1,"timestamp":"1"}'
        await ghost.create("/controller", data, ephemeral=True)
        (controller,) = await cluster.start(1)
        assert not controller.is_active
        cluster.zookeeper.expire_unnoticed(ghost)
        await cluster.settle()
        assert controller.is_active


@pytest.mark.mission("CEL-12", "CEL-13")
async def test_the_node_of_an_own_old_session_that_stays_is_deleted_after_the_time_out(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        ghost = cluster.zookeeper.new_session()
        data = b'{"version":1,"brokerid":1,"timestamp":"1"}'
        await ghost.create("/controller", data, ephemeral=True)
        (controller,) = await cluster.start(1)
        cluster.clock.advance(17_999)
        await cluster.settle()
        assert not controller.is_active
        cluster.clock.advance(1)
        await cluster.settle()
        assert controller.is_active


@pytest.mark.mission("CFO-2", "CRS-4")
async def test_a_resigned_controller_ignores_events(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        first, second = await cluster.start(1, 2)
        cluster.zookeeper.delete("/controller")
        await cluster.settle()
        assert second.is_active
        cluster.brokers.take()
        await cluster.create_topic("t", (1, 2))
        assert {m.controller_id for _, m in cluster.brokers.take()} == {2}
        assert first.context.all_topics == set()


@pytest.mark.mission("CEL-16", "CCB-4")
async def test_a_controller_that_was_fenced_resigns_without_a_write(
    new_cluster: NewCluster,
) -> None:
    """The old one was paused; its node is gone, another one is in office, it does not know yet."""
    async with new_cluster() as cluster:
        first, second = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        before = await cluster.state(tp)
        cluster.zookeeper.lose_data_watch(cluster.nodes[1].session, "/controller")
        cluster.zookeeper.delete("/controller")
        await cluster.settle()
        assert (first.is_active, second.is_active) == (True, True)
        with pytest.raises(KafkaError, match="moved"):
            await first.queue.submit(ControlledShutdown(1, -1))
        await cluster.settle()
        assert not first.is_active
        assert first.active_controller_id == 2
        leader, isr, _ = await cluster.state(tp)
        assert (leader, isr) == before[:2]


@pytest.mark.mission("CEL-16")
async def test_an_epoch_raised_by_hand_makes_the_controller_resign(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        cluster.zookeeper.set("/controller_epoch", b"41")
        await cluster.create_topic("t", (1,))
        await cluster.settle()
        assert controller.is_active
        assert controller.context.epoch == 42


@pytest.mark.mission("CEL-12")
async def test_a_lost_session_ends_the_term_and_a_new_session_joins_the_election(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        first, second = await cluster.start(1, 2)
        node = cluster.nodes[1]
        cluster.zookeeper.expire(node.session)
        await first.on_session_lost()
        assert not first.is_active
        assert first.active_controller_id == -1
        await cluster.settle()
        assert second.is_active
        await cluster.register(1)
        await first.on_new_session(node.store)
        await cluster.settle()
        assert first.active_controller_id == 2
        assert second.context.live_broker_ids() == [1, 2]


@pytest.mark.mission("CEL-12")
async def test_alone_it_is_elected_again_in_its_new_session(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        await cluster.lose_session(1)
        assert controller.is_active
        assert controller.context.epoch == 2


async def test_an_error_in_an_event_makes_the_controller_resign(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        cluster.nodes[1].session.fail["get", "/brokers/topics/t"] = RuntimeError("injected")
        await cluster.create_topic("t", (1,))
        await cluster.create_topic("u", (1,))
        assert not controller.is_active
        cluster.clock.advance(STAND_DOWN_MS)
        await cluster.settle()
        assert controller.is_active
        assert controller.context.all_topics == {"t", "u"}


async def test_a_garbled_epoch_is_waited_out(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        cluster.zookeeper.create("/controller_epoch", b"nonsense")
        (controller,) = await cluster.start(1)
        assert not controller.is_active
        cluster.zookeeper.set("/controller_epoch", b"7")
        cluster.clock.advance(STAND_DOWN_MS)
        await cluster.settle()
        assert controller.is_active
        assert controller.context.epoch == 8
