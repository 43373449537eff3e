"""Requests for the controller that clients send to other brokers, in a simulated cluster."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from struct import pack
from typing import Any

import pytest

from minikafka.core.forwarding import encode_address, encode_principal
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.principals import ANONYMOUS, Principal
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.api_keys import ApiKey, Release
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.client_quotas import AlterClientQuotasRequest
from minikafka.protocol.messages.create_topics import CreateTopicsResponse
from minikafka.protocol.messages.envelope import EnvelopeRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from minikafka.protocol.schema import Message
from minikafka.server.broker.apis.forwarding import NOT_FORWARDED
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.simulation.test_authorization import ADMIN, Authorized
from tests.simulation.test_security_apis import config_tree, quota, up
from tests.support.broker.controller_requests import DONE, administrate, altering, creating
from tests.support.security.api_matrix import BOB, STRANGER

BROKERS = (1, 2, 3)
MOVED = ErrorCode.NOT_CONTROLLER
TIMEOUT_MS = 90_000
CREATE_TOPICS_99 = pack(">hh", ApiKey.CREATE_TOPICS, 99)  # a version that nobody has


async def ask(cluster: SimCluster, broker_id: int, message: Message, version: int) -> Any:
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, host_name(broker_id), PORT, "tool", ChannelConfig()
    )
    try:
        return await channel.request(message, version, TIMEOUT_MS)
    finally:
        channel.close()


def errors(response: CreateTopicsResponse) -> list[int]:
    return [row.error_code for row in response.topics]


async def others(cluster: SimCluster) -> tuple[int, list[int]]:
    """Start the cluster. Return the controller, and the other brokers, which all know it."""
    await up(cluster)
    controller = cluster.controller_id()
    assert controller is not None
    await cluster.until(
        "all know the controller",
        lambda: all(n._parts.cache.controller_id == controller for n in cluster.nodes().values()),
    )
    return controller, [broker for broker in cluster.broker_ids if broker != controller]


@pytest.mark.mission("FWD-1", "SEC-114")
def test_every_broker_accepts_what_the_controller_does() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await others(cluster)
        found = [
            await administrate(partial(ask, cluster, broker), str(broker)) for broker in BROKERS
        ]
        assert found == [DONE] * 3
        users = {path for path in config_tree(cluster, "/config/users") if "/u" in path[13:]}
        assert users == {f"/config/users/u{broker}" for broker in BROKERS}

    SimCluster(3, BROKERS).run(scenario)


@pytest.mark.mission("FWD-3")
@pytest.mark.parametrize("release", [Release.KAFKA_3_9, Release.KAFKA_2_8])
def test_brokers_of_an_older_release_refuse(release: Release) -> None:
    """A broker of the newest release forwards nothing to a controller of an older one either."""

    async def scenario(cluster: SimCluster) -> None:
        controller, (second, third) = await others(cluster)
        nodes = cluster.nodes()
        nodes[second].serve_clients_as(release)
        assert errors(await ask(cluster, second, creating("a"), 7)) == [MOVED]
        nodes[controller].serve_clients_as(release)
        refused = await ask(cluster, third, creating("a"), 7)
        assert errors(refused) == [MOVED]
        assert refused.topics[0].error_message == NOT_FORWARDED
        nodes[second].serve_clients_as(Release.NEWEST)
        nodes[controller].serve_clients_as(Release.NEWEST)
        assert errors(await ask(cluster, second, creating("a"), 7)) == [0]

    SimCluster(4, BROKERS).run(scenario)


@pytest.mark.mission("FWD-4")
@pytest.mark.parametrize("graceful", [True, False])
def test_a_request_finds_the_next_controller(graceful: bool) -> None:
    async def scenario(cluster: SimCluster) -> None:
        controller, (second, third) = await others(cluster)
        assert errors(await ask(cluster, second, creating("before"), 7)) == [0]
        if graceful:
            await cluster.stop(controller)
        else:
            await cluster.host(controller).kill()
        for broker in (second, third):
            assert errors(await ask(cluster, broker, creating(f"t{broker}"), 7)) == [0]
        assert cluster.controller_id() in (second, third)

    SimCluster(5, BROKERS).run(scenario)


@pytest.mark.mission("FWD-4")
def test_a_request_that_finds_no_controller_is_refused_with_a_reason() -> None:
    async def scenario(cluster: SimCluster) -> None:
        controller, (second, _) = await others(cluster)
        for pair in ((second, controller), (controller, second)):
            cluster.simulation.links.block(*map(host_name, pair))
        (refused,) = (await ask(cluster, second, altering("u"), 0)).results
        assert (refused.error_code, refused.error_message) == (MOVED, NOT_FORWARDED)
        cluster.simulation.links.open_all()
        assert errors(await ask(cluster, second, creating("a"), 7)) == [0]

    SimCluster(6, BROKERS).run(scenario)


@pytest.mark.mission("FWD-5")
def test_the_quota_of_mutations_holds() -> None:
    async def scenario(cluster: SimCluster) -> None:
        controller, (second, third) = await others(cluster)
        rows = [quota("controller_mutation_rate", 0.1, user=None)]
        await ask(cluster, controller, AlterClientQuotasRequest(rows, False), 1)
        await cluster.until(
            "the quota is known",
            lambda: all(n._client_quotas.enabled for n in cluster.nodes().values()),
        )
        first = await ask(cluster, second, creating("a", partitions=3), 7)
        assert (errors(first), first.throttle_time_ms) == ([0], 0)
        second_one = await ask(cluster, third, creating("b"), 7)
        assert errors(second_one) == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert second_one.throttle_time_ms > 0
        old = await ask(cluster, second, creating("c"), 5)  # older clients are throttled afterwards
        assert (errors(old), old.throttle_time_ms > 0) == ([0], True)

    SimCluster(7, BROKERS).run(scenario)


def enclosed(host: str, message: Message, version: int, principal: Principal) -> EnvelopeRequest:
    key = message.SPEC.api_key
    assert key is not None
    frame = encode_request(RequestHeader(key, version, 7, host), message)[4:]
    return EnvelopeRequest(frame, encode_principal(principal), encode_address(host))


@pytest.mark.mission("FWD-2", "MIX-5")
def test_both_ends_authorize_the_client() -> None:
    authorized = Authorized(brokers=BROKERS)

    async def scenario(cluster: SimCluster) -> None:
        controller, (second, third) = await others(cluster)

        async def forward(sender: str, envelope: EnvelopeRequest, to: int = controller) -> Any:
            return await authorized.ask(sender, envelope, 0, to)

        made = await authorized.ask(BOB, creating("open-1", "secret-1"), 7, second)
        assert errors(made) == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        refused = await authorized.ask(STRANGER, creating("open-2"), 7, second)
        assert errors(refused) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        features = UpdateFeaturesRequest(5_000, [FeatureUpdateKey("x", 1)])
        refused = await authorized.ask(BOB, features, 1, third)
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

        envelope = enclosed(BOB, creating("open-3", "secret-3"), 7, ANONYMOUS)
        for sender in (BOB, STRANGER):  # they may not act as brokers
            assert await forward(sender, envelope) is None
        response = await forward(host_name(second), envelope)
        assert response.error_code == 0
        correlation_id, inner = decode_response(CreateTopicsResponse, 7, response.response_data)
        assert correlation_id == 7
        assert errors(inner) == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        of_another = enclosed(BOB, creating("open-4"), 7, Principal("zed"))
        response = await forward(ADMIN, of_another)
        _, inner = decode_response(CreateTopicsResponse, 7, response.response_data)
        assert errors(inner) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert (await forward(ADMIN, envelope, third)).error_code == MOVED
        for garbled, error in (
            (replace(envelope, request_data=CREATE_TOPICS_99[:2]), ErrorCode.UNSUPPORTED_VERSION),
            (
                replace(envelope, request_data=CREATE_TOPICS_99 + envelope.request_data[4:]),
                ErrorCode.UNSUPPORTED_VERSION,
            ),
            (
                replace(envelope, request_data=envelope.request_data[:-5]),
                ErrorCode.UNSUPPORTED_VERSION,
            ),
            (
                replace(envelope, request_principal=b"\0\1"),
                ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            ),
            (replace(envelope, client_host_address=b"\xff"), ErrorCode.INVALID_REQUEST),
            (enclosed(BOB, MetadataRequest(None), 9, ANONYMOUS), ErrorCode.INVALID_REQUEST),
            (enclosed(BOB, envelope, 0, ANONYMOUS), ErrorCode.INVALID_REQUEST),
        ):
            assert (await forward(ADMIN, garbled)).error_code == error

    authorized.cluster.run(scenario)
