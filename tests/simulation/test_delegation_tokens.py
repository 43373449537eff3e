"""Delegation tokens at simulated brokers: every broker knows them, until they expire."""

from __future__ import annotations

import asyncio
import base64

import pytest

from minikafka.core.security.delegation_tokens import token_hmac
from minikafka.core.security.sasl.plain import PlainClient
from minikafka.core.security.sasl.scram import ScramClient
from minikafka.core.security.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, Mechanism
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.acls import AclCreation, CreateAclsRequest
from minikafka.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.simulation.test_sasl import JAAS, SASL_PORT
from tests.simulation.test_sasl import SETTINGS as SASL_SETTINGS
from tests.support.security.sasl_connection import Closed, SaslConnection

USERS = ("alice", "bob", "carol")
KEY = "of-the-cluster"
MINUTE = 60_000
SETTINGS = {
    **SASL_SETTINGS,
    "listener.name.client.plain.sasl.jaas.config": f"{JAAS}.plain.PlainLoginModule required "
    + " ".join(f'user_{user}="{user}"' for user in USERS)
    + ";",
    "listener.name.client.plain.connections.max.reauth.ms": "0",
    "delegation.token.secret.key": KEY,
    "delegation.token.max.lifetime.ms": str(10 * MINUTE),
    "delegation.token.expiry.time.ms": str(2 * MINUTE),
    "delegation.token.expiry.check.interval.ms": str(MINUTE),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
METADATA = MetadataRequest(topics=[])
MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512)
# Codes of Kafka.
NOT_FOUND, OWNER_MISMATCH, NOT_ALLOWED = 62, 63, 64
NOT_AUTHORIZED, EXPIRED, INVALID_PRINCIPAL_TYPE = 65, 66, 67


async def up(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    await cluster.until("a controller", lambda: cluster.controller_id() is not None)


async def connect(cluster: SimCluster, broker_id: int) -> SaslConnection:
    return await SaslConnection.open(cluster.client_host.world, host_name(broker_id), SASL_PORT)


async def logged_in(cluster: SimCluster, user: str, broker_id: int = 1) -> SaslConnection:
    connection = await connect(cluster, broker_id)
    await connection.log_in(PlainClient(user, user))
    return connection


async def by_token(
    cluster: SimCluster,
    token: CreateDelegationTokenResponse,
    broker_id: int = 1,
    mechanism: Mechanism = SCRAM_SHA_256,
) -> tuple[SaslConnection, int | None]:
    """Log in with a token. Return the lifetime of the session, too. Raises KafkaError."""
    connection = await connect(cluster, broker_id)
    nonce = cluster.client_host.world.entropy.random_bytes(9).hex()
    password = base64.b64encode(token.hmac).decode()
    client = ScramClient(mechanism, token.token_id, password, nonce, by_token=True)
    return connection, (await connection.log_in(client)).session_lifetime_ms


async def until_known(
    cluster: SimCluster, token: CreateDelegationTokenResponse, wanted: bool = True
) -> None:
    """Wait until the token logs in, or does not, on every broker with both mechanisms."""
    for broker_id in cluster.broker_ids:
        for mechanism in MECHANISMS:
            for _ in range(100):
                refusal = None
                try:
                    (await by_token(cluster, token, broker_id, mechanism))[0].close()
                except KafkaError as error:
                    refusal = error.code
                assert refusal in (None, ErrorCode.SASL_AUTHENTICATION_FAILED)
                if (refusal is None) is wanted:
                    break
                await cluster.client_host.world.clock.sleep(20)
            else:
                pytest.fail(f"broker {broker_id}: {mechanism.kafka_name} logs in: {not wanted}")


async def create(
    connection: SaslConnection,
    owner: str | None = None,
    renewers: tuple[str, ...] = (),
    lifetime_ms: int = -1,
    kind: str = "User",
) -> CreateDelegationTokenResponse:
    rows = [CreatableRenewers(kind, renewer) for renewer in renewers]
    request = CreateDelegationTokenRequest("User" if owner else None, owner, rows, lifetime_ms)
    response = await connection.request(request, 3)
    assert isinstance(response, CreateDelegationTokenResponse)
    return response


async def renew(connection: SaslConnection, secret: bytes, period_ms: int = -1) -> tuple[int, int]:
    response = await connection.request(RenewDelegationTokenRequest(secret, period_ms), 2)
    assert isinstance(response, RenewDelegationTokenResponse)
    return response.error_code, response.expiry_timestamp_ms


async def expire(connection: SaslConnection, secret: bytes, period_ms: int = -1) -> tuple[int, int]:
    response = await connection.request(ExpireDelegationTokenRequest(secret, period_ms), 2)
    assert isinstance(response, ExpireDelegationTokenResponse)
    return response.error_code, response.expiry_timestamp_ms


async def seen(connection: SaslConnection, *owners: str) -> list[tuple[str, str, str, bytes]]:
    """Owner, requester, id and HMAC of the tokens of owners, or of everybody."""
    rows = [DescribeDelegationTokenOwner("User", owner) for owner in owners]
    response = await connection.request(DescribeDelegationTokenRequest(rows or None), 3)
    assert isinstance(response, DescribeDelegationTokenResponse)
    assert response.error_code == 0
    return [
        (row.principal_name, row.token_requester_principal_name, row.token_id, row.hmac)
        for row in response.tokens
    ]


async def allow(cluster: SimCluster, kind: int, name: str, operation: int) -> None:
    """Allow carol an operation on a resource."""
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, host_name(1), PORT, "tool", ChannelConfig()
    )
    row = AclCreation(kind, name, 3, "User:carol", "*", operation, 3)
    await channel.request(CreateAclsRequest([row]), 3, 10_000)
    channel.close()


@pytest.mark.mission("SEC-151", "SEC-155")
def test_a_token_logs_in_on_every_broker_until_it_is_removed() -> None:
    logged: list[str] = []

    async def play(cluster: SimCluster) -> None:
        cluster.observers.append(lambda event: logged.append(repr(event)))
        await up(cluster)
        clock = cluster.client_host.world.clock
        alice, bob = await logged_in(cluster, "alice"), await logged_in(cluster, "bob", 2)
        before_ms = clock.wall_ms()
        token = await create(alice, renewers=("bob",))
        assert (token.error_code, token.principal_name) == (0, "alice")
        assert (token.principal_type, token.token_requester_principal_name) == ("User", "alice")
        assert before_ms <= token.issue_timestamp_ms <= clock.wall_ms()
        assert token.expiry_timestamp_ms == token.issue_timestamp_ms + 2 * MINUTE
        assert token.max_timestamp_ms == token.issue_timestamp_ms + 10 * MINUTE
        assert len(token.token_id) == 22
        assert token.hmac == token_hmac(KEY, token.token_id)
        await until_known(cluster, token)
        tree = cluster.simulation.zookeeper.tree
        znode = tree.get(f"/delegation_token/tokens/{token.token_id}")[0]
        assert b'"owner":"User%3Aalice"' in znode
        # It stands for its owner, but makes no further tokens.
        connection, lifetime_ms = await by_token(cluster, token, 3)
        assert lifetime_ms is not None
        assert 0 < lifetime_ms <= 2 * MINUTE
        assert isinstance(await connection.request(METADATA, 1), MetadataResponse)
        assert (await create(connection)).error_code == NOT_ALLOWED
        assert await renew(connection, token.hmac) == (NOT_ALLOWED, -1)
        assert await expire(connection, token.hmac) == (NOT_ALLOWED, -1)
        refused = await connection.request(DescribeDelegationTokenRequest(None), 3)
        assert isinstance(refused, DescribeDelegationTokenResponse)
        assert refused.error_code == NOT_ALLOWED
        # A renewer on another broker.
        await clock.sleep(MINUTE)
        error, expiry_ms = await renew(bob, token.hmac)
        assert error == 0
        assert expiry_ms > token.expiry_timestamp_ms
        assert await renew(alice, token.hmac, 2**63 - 1) == (0, token.max_timestamp_ms)
        assert await expire(alice, token.hmac[:-1]) == (NOT_FOUND, -1)
        error, at_ms = await expire(bob, token.hmac)
        assert error == 0
        assert at_ms <= clock.wall_ms()
        await until_known(cluster, token, wanted=False)
        assert await renew(alice, token.hmac) == (NOT_FOUND, -1)
        assert await seen(alice) == []
        events = "".join(logged)
        assert "token_removed" in events
        for secret in (KEY, token.hmac.hex(), base64.b64encode(token.hmac).decode()):
            assert secret not in events

    SimCluster(0, settings=SETTINGS).run(play)


@pytest.mark.mission("SEC-151", "SEC-152")
def test_principals_need_permissions_on_tokens_of_others() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        alice, carol = await logged_in(cluster, "alice"), await logged_in(cluster, "carol")
        own = await create(alice)
        assert await renew(carol, own.hmac) == (OWNER_MISMATCH, -1)
        assert await expire(carol, own.hmac) == (OWNER_MISMATCH, -1)
        assert await seen(carol) == await seen(carol, "alice") == []
        refused = await create(carol, "alice", ("bob",), kind="Group")
        assert refused.error_code == NOT_AUTHORIZED
        assert (refused.token_id, refused.hmac, refused.expiry_timestamp_ms) == ("", b"", -1)
        # CREATE_TOKENS on the user.
        await allow(cluster, 7, "User:alice", 13)
        assert (await create(carol, "alice", ("bob",), kind="Group")).error_code == (
            INVALID_PRINCIPAL_TYPE
        )
        made = await create(carol, "alice")
        assert (made.error_code, made.principal_name) == (0, "alice")
        assert made.token_requester_principal_name == "carol"
        row = ("alice", "carol", made.token_id, made.hmac)
        assert (
            await seen(carol) == await seen(carol, "alice") == await seen(carol, "carol") == [row]
        )
        assert await seen(carol, "bob") == []
        assert await renew(carol, made.hmac) == (OWNER_MISMATCH, -1)
        assert len(await seen(alice)) == 2
        # DESCRIBE on the token, or DESCRIBE_TOKENS on its owner.
        await allow(cluster, 6, own.token_id, 8)
        assert len(await seen(carol)) == 2
        bob = await logged_in(cluster, "bob")
        third = await create(bob, lifetime_ms=MINUTE)
        assert third.expiry_timestamp_ms == third.max_timestamp_ms
        assert len(await seen(carol)) == 2
        await allow(cluster, 7, "User:bob", 14)
        assert len(await seen(carol)) == 3
        assert [row[0] for row in await seen(carol, "bob")] == ["bob"]
        # No owners is not the same as no list of owners.
        empty = await carol.request(DescribeDelegationTokenRequest([]), 1)
        assert empty == DescribeDelegationTokenResponse()
        # Without a login.
        world = cluster.client_host.world
        channel = await Channel.open(
            world.network, world.clock, host_name(1), PORT, "c", ChannelConfig()
        )
        plain = await channel.request(CreateDelegationTokenRequest(None, None, [], -1), 3, 10_000)
        assert isinstance(plain, CreateDelegationTokenResponse)
        assert plain.error_code == NOT_ALLOWED
        channel.close()

    SimCluster(1, settings=SETTINGS).run(play)


@pytest.mark.mission("SEC-152")
def test_an_expired_token_is_cut_off_and_then_removed() -> None:
    """Until the controller has removed it, it still logs in, as with Kafka, but serves nothing."""

    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        clock = cluster.client_host.world.clock
        alice = await logged_in(cluster, "alice")
        token = await create(alice)
        await until_known(cluster, token)
        open_before, _ = await by_token(cluster, token, 2)
        assert (await expire(alice, token.hmac, 5_000))[0] == 0
        await clock.sleep(4_000)
        connection, lifetime_ms = await by_token(cluster, token, 2)
        assert lifetime_ms is not None
        assert lifetime_ms <= 1_000
        assert isinstance(await connection.request(METADATA, 1), MetadataResponse)
        await clock.sleep(1_100)
        with pytest.raises(Closed):
            await connection.request(METADATA, 1)
        # The session of an earlier login ends when the token was to expire at that time.
        assert isinstance(await open_before.request(METADATA, 1), MetadataResponse)
        assert await renew(alice, token.hmac) == (EXPIRED, -1)
        assert await expire(alice, token.hmac, 1) == (EXPIRED, -1)
        late, lifetime_ms = await by_token(cluster, token, 3)
        assert lifetime_ms is None
        await clock.sleep(1)
        with pytest.raises(Closed):
            await late.request(METADATA, 1)
        await clock.sleep(MINUTE)
        await until_known(cluster, token, wanted=False)
        assert cluster.simulation.zookeeper.tree.children("/delegation_token/tokens") == []

    SimCluster(2, settings=SETTINGS).run(play)


@pytest.mark.mission("SEC-151")
def test_a_broker_without_zookeeper_catches_up_in_its_next_session() -> None:
    """A broker that starts knows all tokens before it listens, whatever else is in ZooKeeper."""

    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        clock = cluster.client_host.world.clock
        other = next(i for i in cluster.broker_ids if i != cluster.controller_id())
        third = next(i for i in cluster.broker_ids if i not in (other, cluster.controller_id()))
        alice = await logged_in(cluster, "alice", third)
        gone, kept = await create(alice), await create(alice)
        await until_known(cluster, gone)
        away = cluster.spawn_client(faults.without_zookeeper(cluster, other, 20), "fault")
        await clock.sleep(1_000)
        assert (await expire(alice, gone.hmac))[0] == 0
        new = await create(alice)
        await clock.sleep(10_000)
        with pytest.raises(KafkaError):
            await by_token(cluster, new, other)
        await by_token(cluster, gone, other)
        await away
        await until_known(cluster, new)
        await until_known(cluster, gone, wanted=False)
        session = await cluster.client_host.world.coordination.open(
            "zookeeper:2181", 30_000, 30_000
        )
        await session.create("/delegation_token/tokens/x", b"garbage")
        await session.close()
        await cluster.stop(other)
        cluster.start(other)
        await cluster.until("up again", lambda: len(cluster.nodes()) == 3)
        await by_token(cluster, new, other)
        await by_token(cluster, kept, other)

    SimCluster(3, settings=SETTINGS).run(play)


@pytest.mark.mission("SEC-152")
def test_a_new_controller_removes_expired_tokens_at_once() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        clock = cluster.client_host.world.clock
        first = cluster.controller_id()
        assert first is not None
        alice = await logged_in(cluster, "alice", next(i for i in (1, 2, 3) if i != first))
        assert (await create(alice, lifetime_ms=1_000)).error_code == 0
        await clock.sleep(2_000)
        tree = cluster.simulation.zookeeper.tree
        assert len(tree.children("/delegation_token/tokens")) == 1
        await cluster.stop(first)
        await cluster.until("another", lambda: cluster.controller_id() not in (None, first))
        await clock.sleep(2_000)
        assert tree.children("/delegation_token/tokens") == []

    hourly = {"delegation.token.expiry.check.interval.ms": "3600000"}
    SimCluster(4, settings=SETTINGS | hourly).run(play)


@pytest.mark.mission("SEC-151")
def test_a_renewal_at_another_broker_does_not_bring_back_a_removed_token() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        first, second = await logged_in(cluster, "alice", 1), await logged_in(cluster, "alice", 2)
        tokens = [await create(first) for _ in range(20)]
        for token in tokens:
            await until_known(cluster, token)
        outcomes = set()
        for token in tokens:
            removed, renewed = await asyncio.gather(
                expire(first, token.hmac), renew(second, token.hmac)
            )
            assert removed[0] == 0
            outcomes.add(renewed[0])
        assert outcomes == {0, NOT_FOUND}
        assert await seen(first) == []
        assert cluster.simulation.zookeeper.tree.children("/delegation_token/tokens") == []

    SimCluster(7, settings=SETTINGS).run(play)


@pytest.mark.mission("SEC-151")
def test_without_a_key_there_are_no_tokens() -> None:
    """The older name of the key counts where the newer one is missing."""

    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        alice = await logged_in(cluster, "alice")
        response = await create(alice)
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert (await renew(alice, b"x"))[0] == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert (await expire(alice, b"x"))[0] == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        described = await alice.request(DescribeDelegationTokenRequest(None), 3)
        assert described == DescribeDelegationTokenResponse(61)

    without = {key: value for key, value in SETTINGS.items() if "secret.key" not in key}
    SimCluster(5, [1], settings=without).run(play)

    async def play_old_name(cluster: SimCluster) -> None:
        await up(cluster)
        token = await create(await logged_in(cluster, "alice"))
        assert token.hmac == token_hmac("old", token.token_id)

    old_name = without | {"delegation.token.master.key": "old"}
    SimCluster(6, [1], settings=old_name).run(play_old_name)
