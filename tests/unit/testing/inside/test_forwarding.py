"""Requests for the controller, sent to each of three brokers inside the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from minikafka.kernel.errors import ErrorCode
from minikafka.network.channel import Channel
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.schema import Message
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.broker.controller_requests import DONE, administrate, creating

CLIENT = "kafka-python"
TIMEOUT_MS = 60_000
BROKERS = (1, 2, 3)
AFTER_THE_KILL = 5  # topics that are created then
MOST_USERS = 60  # each one by a client that chooses a broker at random


@pytest.fixture(scope="module")
def three() -> Iterator[InsideCluster]:
    with InsideCluster(3) as cluster:
        yield cluster


class Tool:
    """A client on the cluster's event loop, with a connection to one broker."""

    def __init__(self, cluster: InsideCluster, broker: int) -> None:
        self._cluster = cluster
        self._address = cluster.bootstrap.split(",")[broker - 1].partition(":")
        self._channel: Channel | None = None

    async def send(self, message: Message, version: int) -> Any:
        if self._channel is None:
            world, _ = self._cluster.client()
            host, _, port = self._address
            self._channel = await Channel.open(world.network, world.clock, host, int(port), "tool")
        return await self._channel.request(message, version, TIMEOUT_MS)

    async def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            await self._channel.wait_closed()


def ask(cluster: InsideCluster, broker: int, message: Message, version: int) -> Any:
    async def run() -> Any:
        tool = Tool(cluster, broker)
        try:
            return await tool.send(message, version)
        finally:
            await tool.close()

    return cluster.call(run())


def controller_of(cluster: InsideCluster, broker: int) -> int:
    found: int = ask(cluster, broker, DescribeClusterRequest(), 0).controller_id
    return found


@pytest.mark.mission("FWD-1")
@pytest.mark.parametrize("broker", BROKERS)
def test_every_broker_does_what_the_controller_does(three: InsideCluster, broker: int) -> None:
    async def run() -> dict[str, Any]:
        tool = Tool(three, broker)
        try:
            return await administrate(tool.send, f"-{broker}")
        finally:
            await tool.close()

    assert three.call(run()) == DONE


@pytest.mark.mission("FWD-1")
def test_requests_of_several_clients_are_forwarded_at_the_same_time(three: InsideCluster) -> None:
    """More than there are connections to the controller."""
    broker = next(b for b in BROKERS if b != controller_of(three, 1))
    tools = [Tool(three, broker) for _ in range(20)]

    async def run() -> list[Any]:
        try:
            requests = [tool.send(creating(f"many-{n}"), 7) for n, tool in enumerate(tools)]
            return await asyncio.gather(*requests)
        finally:
            for tool in tools:
                await tool.close()

    found = three.call(run())
    assert [row.error_code for response in found for row in response.topics] == [0] * 20


@pytest.mark.mission("FWD-1")
def test_kafka_python_alters_credentials_without_looking_for_the_controller(
    three: InsideCluster,
) -> None:
    """kafka-python 3 sends the request to any broker, and takes NOT_CONTROLLER for a success."""
    controller = controller_of(three, 1)
    users: list[str] = []
    asked: set[int] = set()
    while len(users) < MOST_USERS and asked <= {controller}:
        admin = KafkaAdminClient(bootstrap_servers=three.bootstrap.split(","), client_id=CLIENT)
        user = f"python-{len(users)}"
        users.append(user)
        credential = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, "secret")
        assert admin.alter_user_scram_credentials([credential]) == {user: None}
        found = admin.describe_user_scram_credentials([user])[user]["credential_infos"]
        assert [info["mechanism"] for info in found] == [ScramMechanism.SCRAM_SHA_256]
        admin.close()
        seen = three.requests(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, client_id=CLIENT)
        asked = {request.broker for request in seen}
    assert not asked <= {controller}


@pytest.mark.mission("FWD-3")
def test_no_broker_forwards_while_older_ones_are_played(three: InsideCluster) -> None:
    controller = controller_of(three, 1)
    other = next(b for b in BROKERS if b != controller)
    three.as_version("3.9")
    (refused,) = ask(three, other, creating("of-3.9"), 7).topics
    assert (refused.error_code, refused.error_message) == (ErrorCode.NOT_CONTROLLER, None)
    three.as_version(None)
    assert ask(three, other, creating("of-3.9"), 7).topics[0].error_code == 0


@pytest.mark.mission("FWD-4")
def test_a_controller_is_killed_while_requests_are_forwarded() -> None:
    with InsideCluster(3) as cluster, ThreadPoolExecutor(1) as threads:
        controller = controller_of(cluster, 1)
        other = next(b for b in BROKERS if b != controller)
        errors: list[int] = []
        some, killed = threading.Event(), threading.Event()

        async def create_topics() -> None:
            tool, left = Tool(cluster, other), AFTER_THE_KILL
            try:
                while left:
                    left -= killed.is_set()
                    response = await tool.send(creating(f"t{len(errors)}"), 7)
                    errors.append(response.topics[0].error_code)
                    # If the response was lost, the topic exists when the request is sent again.
                    assert errors[-1] in (0, ErrorCode.TOPIC_ALREADY_EXISTS)
                    some.set()
            finally:
                await tool.close()

        creation = threads.submit(cluster.call, create_topics())
        creation.add_done_callback(lambda _: some.set())
        assert some.wait(TIMEOUT_MS / 1000)
        cluster.kill_broker(controller)
        killed.set()
        creation.result(TIMEOUT_MS / 1000)
        assert controller_of(cluster, other) != controller
