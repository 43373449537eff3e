"""A cluster in simulated time for a scenario: its clients."""

from __future__ import annotations

import pytest

from minikafka.testing.simulated import Play, SimulatedCluster


@pytest.mark.mission("IN-51")
def test_clients_take_the_keywords_of_aio(minikafka_simulated: Play) -> None:
    async def scenario(cluster: SimulatedCluster) -> bytes | None:
        await cluster.create_topic("shop", 2)
        async with (
            cluster.producer(linger_ms=1, client_id="me") as producer,
            cluster.consumer(topics=["shop"], auto_offset_reset="earliest") as consumer,
            cluster.admin(client_id="me") as admin,
        ):
            assert [topic.name for topic in await admin.list_topics()] == ["shop"]
            assert len(consumer.assignment) == 2
            await producer.send_and_wait("shop", b"pear")
            config = producer.session.config
            assert (config.client_id, config.request_timeout_ms) == ("me", 5_000)
            value: bytes | None = (await anext(consumer)).value
            return value

    assert minikafka_simulated(scenario, seed=3) == b"pear"


@pytest.mark.mission("IN-51")
def test_a_wrong_keyword_is_named(minikafka_simulated: Play) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(TypeError, match="did you mean group_id"):
            cluster.consumer(groupid="g")
        with pytest.raises(TypeError, match="topics is a list"):
            cluster.consumer(topics="shop")

    minikafka_simulated(scenario)
