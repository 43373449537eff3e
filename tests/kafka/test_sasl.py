"""Logins at brokers of both kinds: Kafka's own clients, shared credentials, and the same frames."""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from minikafka.cli.main import main
from minikafka.core.security.jaas import parse_jaas_property
from minikafka.core.security.sasl.login_options import LoginOptions
from minikafka.core.security.sasl.scram import NONCE_BYTES, scram_nonce
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from minikafka.protocol.schema import Message
from minikafka.server.zookeeper.znodes.delegation_tokens import decode_token, encode_token
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world
from scripts.lib.apache_kafka import NEWEST, NoApacheKafka, class_path, java_command
from tests.kafka.conftest import Mixed
from tests.support.cluster.kafka_tools import ToolOutput, normalised
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.tool_jvm import ToolJvm
from tests.support.security.api_matrix import as_of_3_9, is_of_kafka_4
from tests.support.security.certificates import Authority
from tests.support.security.sasl_brokers import (
    ESCAPED_USER,
    LISTENERS,
    PLAIN_PASSWORD,
    PLAIN_USER,
    SCRAM,
    SCRAM_PASSWORD,
    SCRAM_USER,
    bearer_token,
    client_entry,
    sasl_properties,
    tls_properties,
)
from tests.support.security.sasl_connection import SaslConnection

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

PLAIN_LISTENER, TLS_LISTENER = LISTENERS
TOKEN_KEY = "key-of-tokens"
OLDEST_WITH_SCRAM = "0.10.2.2"


@pytest.fixture(scope="module")
def cluster(
    mixed: Mixed, tools: ToolJvm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    """Broker 1 is ours, broker 2 is official. Kafka's tool has created the users of SCRAM."""
    stores = tmp_path_factory.mktemp("stores")
    identity = Authority().issue("broker", ("127.0.0.1",))
    properties = {
        **sasl_properties(),
        **tls_properties(stores, identity),
        f"listener.name.{PLAIN_LISTENER.lower()}.plain.connections.max.reauth.ms": 60_000,
        "delegation.token.secret.key": TOKEN_KEY,
    }
    with mixed(OURS, NEWEST, properties=properties, more_listeners=LISTENERS) as cluster:
        (cluster.directory / "ca.pem").write_bytes(identity.authority_pem)
        cluster.create_topic("t", [1], [2])
        for user in USERS:
            done = create_user(cluster, tools, user)
            assert done.status == 0, done
        yield cluster


USERS = (SCRAM_USER, ESCAPED_USER)


def create_user(cluster: MixedCluster, tools: ToolJvm, user: str) -> ToolOutput:
    config = ",".join(
        f"{mechanism}=[iterations=4096,password={SCRAM_PASSWORD}]"
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    )
    return tools.run(
        cluster,
        "configs",
        *("--bootstrap-server", "{bootstrap}", "--alter", "--add-config", config),
        *("--entity-type", "users", "--entity-name", user),
    )


def client_properties(cluster: MixedCluster, listener: str, mechanism: str, entry: str) -> str:
    """Write the properties of a Java client, and return their path."""
    path = cluster.directory / f"{listener}-{mechanism}.properties"
    lines = {
        "security.protocol": listener,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": entry,
        "ssl.truststore.location": cluster.directory / "ca.pem",
        "ssl.truststore.type": "PEM",
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return str(path)


@pytest.mark.mission("SEC-106")
def test_java_clients_log_in_with_each_mechanism(cluster: MixedCluster, tools: ToolJvm) -> None:
    def describe(listener: str, mechanism: str) -> ToolOutput:
        settings = client_properties(cluster, listener, mechanism, client_entry(mechanism))
        return tools.run(
            cluster,
            "topics",
            *("--bootstrap-server", cluster.address(1, listener), "--describe", "--topic", "t"),
            *("--command-config", settings),
        )

    places = [
        (PLAIN_LISTENER, "PLAIN"),
        (PLAIN_LISTENER, "SCRAM-SHA-256"),
        (TLS_LISTENER, "OAUTHBEARER"),
    ]
    for place in places:
        found = describe(*place)
        assert found.status == 0, (place, found)
        assert "PartitionCount: 2" in found.out
    settings = client_properties(
        cluster, TLS_LISTENER, "SCRAM-SHA-512", client_entry("SCRAM-SHA-512")
    )
    at = ("--bootstrap-server", cluster.address(1, TLS_LISTENER), "--topic", "t")
    sent = tools.run(
        cluster, "console-producer", *at, "--producer.config", settings, stdin="one\ntwo\n"
    )
    assert sent.status == 0, sent
    read = tools.run(
        cluster,
        "console-consumer",
        *(*at, "--consumer.config", settings),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000"),
    )
    assert sorted(read.out.splitlines()) == ["one", "two"], read


def old_tool(tool: str, *arguments: str, stdin: str = "") -> str:
    """Run a tool of Kafka 0.10.2.2, and return what it prints. Skip the test without its jars."""
    try:
        command = java_command(OLDEST_WITH_SCRAM, f"kafka.tools.{tool}", *arguments)
    except NoApacheKafka as missing:
        pytest.skip(str(missing))
    # Its SCRAM uses javax.xml.bind, which has left Java since; Kafka 2.0.1 brings it.
    more = class_path("2.0.1").removesuffix("*") + "jaxb-api-2.3.0.jar"
    command[command.index("-cp") + 1] += f":{more}"
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.mission("SEC-109")
def test_kafka_0_10_2_logs_in_with_raw_tokens(cluster: MixedCluster) -> None:
    """Its clients know SaslHandshake v0 only: tokens have no request around them."""
    cluster.create_topic("old", [1])
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        entry = client_entry(mechanism)
        settings = client_properties(cluster, PLAIN_LISTENER, mechanism, entry)
        at = cluster.address(1, PLAIN_LISTENER)
        topic = ("--topic", "old")
        if mechanism == "PLAIN":
            given = ("--broker-list", at, *topic, "--producer.config", settings)
            old_tool("ConsoleProducer", *given, stdin="one\ntwo\n")
        else:
            given = ("--bootstrap-server", at, *topic, "--consumer.config", settings)
            read = old_tool("ConsoleConsumer", *given, "--from-beginning", "--max-messages", "2")
            assert read.split() == ["one", "two"]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_of_kafkas_tool_logs_in_at_both_kinds(cluster: MixedCluster, mechanism: str) -> None:
    for broker_id in (1, 2):
        for user in USERS:
            settings: dict[str, str | int | float] = {
                "bootstrap.servers": cluster.address(broker_id, PLAIN_LISTENER),
                "security.protocol": PLAIN_LISTENER,
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": SCRAM_PASSWORD,
            }
            assert "t" in AdminClient(settings).list_topics(timeout=30).topics


@pytest.mark.mission("SEC-155")
def test_the_keys_of_sasl_are_described_alike_and_without_secrets(cluster: MixedCluster) -> None:
    def described(broker_id: int) -> dict[str, object]:
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
        admin = AdminClient({"bootstrap.servers": cluster.address(broker_id)})
        entries = admin.describe_configs([resource])[resource].result(30)
        return {
            name: (entry.value, entry.source, entry.is_sensitive)
            for name, entry in entries.items()
            if "sasl" in name or "auth" in name or "token" in name
        }

    ours, official = described(1), described(2)
    names = set(cluster.properties(1)) & set(ours)
    assert "listener.name.sasl_ssl.plain.sasl.jaas.config" in names
    assert "listener.name.sasl_plaintext.plain.connections.max.reauth.ms" in names
    assert {name: ours[name] for name in names} == {name: official[name] for name in names}
    log = (cluster.home("broker-1") / "log").read_text()
    for secret in (PLAIN_PASSWORD, SCRAM_PASSWORD, TOKEN_KEY):
        assert secret not in f"{log}{ours}"


# -- the same frames


def request(message: Message, version: int) -> bytes:
    api_key = message.SPEC.api_key
    assert api_key is not None
    return encode_request(RequestHeader(api_key, version, 7, "test"), message)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def handshake(mechanism: str, version: int = 1) -> bytes:
    return request(SaslHandshakeRequest(mechanism), version)


def token(auth_bytes: bytes, version: int = 2) -> bytes:
    return request(SaslAuthenticateRequest(auth_bytes), version)


def plain(*parts: str) -> bytes:
    return "\0".join(parts).encode()


def bearer(text: str, rest: str = "") -> bytes:
    return f"n,,\x01auth={text}\x01{rest}\x01".encode()


GOOD = plain("", PLAIN_USER, PLAIN_PASSWORD)
METADATA = request(MetadataRequest(topics=[]), 1)
VERSIONS = request(ApiVersionsRequest(), 0)
VERSIONS_3 = request(ApiVersionsRequest("name", "1.0"), 3)
UNKNOWN_KEY = framed(struct.pack(">hhih", 999, 0, 7, -1))
HEADER_ONLY = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1)
BAD_PLAIN = {
    "one part": plain("x"),
    "two parts": plain("", "x"),
    "four parts": plain("", "x", "y", "z"),
    "six parts": plain("", "x", "y", "z", "", ""),
    "no user": plain("", "", "x"),
    "no password": plain("", "x", ""),
    "unknown user": plain("", "x", "y"),
    "wrong password": plain("", PLAIN_USER, "y"),
    "other authorization id": plain("bob", PLAIN_USER, PLAIN_PASSWORD),
}
EXPIRED = bearer_token(1_000_000_000_000)
# Each frame is sent when the one before it has its response. The last one that matters closes the
# connection, or is followed by one that does.
CONVERSATIONS: dict[str, Sequence[bytes]] = {
    "metadata first": [METADATA],
    "unknown key": [UNKNOWN_KEY],
    "unreadable header": [framed(b"\x60\x82\x02\x00")],
    "too large": [struct.pack(">i", 524_289)],
    "negative size": [struct.pack(">i", -1)],
    "versions 99 without tags": [framed(HEADER_ONLY)],
    "versions 99, then twice": [framed(HEADER_ONLY + b"\0"), VERSIONS, VERSIONS],
    "versions 3": [VERSIONS_3, METADATA],
    "bad software name": [request(ApiVersionsRequest("-", "1.0"), 3), METADATA],
    "unknown mechanism": [VERSIONS, handshake("x", 0)],
    "unknown mechanism first": [handshake("x")],
    "handshake 2": [framed(struct.pack(">hhih", 17, 2, 7, -1) + b"\0\5PLAIN")],
    "truncated handshake": [handshake("PLAIN")[:-2].replace(b"\0\0\0\x15", b"\0\0\0\x13")],
    "authenticate first": [token(GOOD)],
    "authenticate without handshake": [VERSIONS, token(GOOD)],
    "versions while authenticating": [handshake("PLAIN"), VERSIONS],
    "metadata while authenticating": [handshake("PLAIN"), METADATA],
    "unknown key while authenticating": [handshake("PLAIN"), UNKNOWN_KEY],
    "raw token after handshake 1": [handshake("PLAIN"), framed(GOOD)],
    "too large while authenticating": [handshake("PLAIN"), struct.pack(">i", 524_289)],
    "raw plain": [handshake("PLAIN", 0), framed(GOOD), handshake("x", 0)],
    "raw plain, wrong": [handshake("PLAIN", 0), framed(BAD_PLAIN["wrong password"])],
    "raw scram, wrong": [handshake("SCRAM-SHA-256", 0), framed(b"n,,n=nobody,r=nonce")],
    "scram, unknown user": [handshake("SCRAM-SHA-256"), token(b"n,,n=nobody,r=nonce")],
    "scram, malformed": [handshake("SCRAM-SHA-512"), token(b"y,,n=bob,r=nonce", 0)],
    "scram, other authorization id": [
        handshake("SCRAM-SHA-512"),
        token(b"n,a=alice,n=bob,r=nonce", 1),
    ],
    "token refused": [handshake("OAUTHBEARER"), token(bearer("Bearer a.b.c")), token(b"\x01")],
    "token expired": [handshake("OAUTHBEARER"), token(bearer(f"Bearer {EXPIRED}")), token(b"\x01")],
    "token malformed": [handshake("OAUTHBEARER"), token(b"n,,\x01\x01")],
    "token with an extension named auth": [
        handshake("OAUTHBEARER"),
        token(bearer(f"Bearer {EXPIRED}", "auth=x\x01")),
        token(b"\x01"),
    ],
    **{
        f"plain, {name}, version {version}": [handshake("PLAIN"), token(bad, version)]
        for name, bad in BAD_PLAIN.items()
        for version in ((0, 1, 2) if name == "no user" else (2,))
    },
}
NO_USER = CreatableRenewers("Group", "g")
NOBODY = DescribeDelegationTokenOwner("User", "nobody")
# With sessions that end; each login has a lifetime then.
AFTER_LOGIN: dict[str, Sequence[bytes]] = {
    "another mechanism": [handshake("SCRAM-SHA-256"), token(b"n,,n=bob,r=nonce")],
    "another principal": [handshake("PLAIN"), token(plain("", "broker", "broker-secret"))],
    "wrong password": [handshake("PLAIN"), token(BAD_PLAIN["wrong password"])],
    "twice within a second": [handshake("PLAIN"), token(GOOD), handshake("PLAIN"), token(GOOD)],
    "token without handshake": [token(GOOD, 0), token(GOOD, 1)],
    "metadata while authenticating again": [handshake("PLAIN"), METADATA],
    "unknown mechanism": [handshake("x")],
    **{
        f"{message} {version}": [request(message, version)]
        for message, versions in (
            (CreateDelegationTokenRequest(renewers=[NO_USER]), (1, 2, 3)),
            (CreateDelegationTokenRequest("User", PLAIN_USER, [NO_USER]), (3,)),
            (CreateDelegationTokenRequest("Group", "g", [NO_USER]), (3,)),
            (CreateDelegationTokenRequest(None, "x"), (3,)),
            (RenewDelegationTokenRequest(b"hmac"), (1, 2)),
            (ExpireDelegationTokenRequest(b"hmac"), (1, 2)),
            (DescribeDelegationTokenRequest(), (1, 2, 3)),
            (DescribeDelegationTokenRequest([NOBODY]), (1, 2, 3)),
        )
        for version in versions
    },
    "versions before the handshake": [VERSIONS_3, handshake("PLAIN"), token(GOOD)],
}
CLOSED = "closed"


def converse(address: str, frames: Sequence[bytes]) -> list[object]:
    """Send frames one after the other. Return the response to each, until there is none because
    the broker closes the connection."""
    host, _, port = address.rpartition(":")
    found: list[object] = []
    with (
        socket.create_connection((host, int(port)), timeout=20) as connection,
        connection.makefile("rb") as reader,
    ):
        for frame in frames:
            connection.sendall(frame)
            try:
                head = reader.read(4)
            except ConnectionResetError:
                head = b""
            if len(head) < 4:
                found.append(CLOSED)
                return found
            body = reader.read(struct.unpack(">i", head)[0])
            found.append(_comparable(frame, body))
    return found


def _comparable(frame: bytes, body: bytes) -> object:
    """Kafka lists the mechanisms in any order, and we have newer versions, too."""
    key, version = struct.unpack(">hh", frame[4:8])
    if key == ApiKey.API_VERSIONS:
        known = version if version <= ApiKey.API_VERSIONS.max_version else 0
        _, versions = decode_response(ApiVersionsResponse, known, body)
        rows = [as_of_3_9(row) for row in versions.api_keys if not is_of_kafka_4(row)]
        return replace(versions, api_keys=rows)
    if key == ApiKey.SASL_HANDSHAKE and version < 2:
        _, message = decode_response(SaslHandshakeResponse, version, body)
        return message.error_code, sorted(message.mechanisms)
    return body


def differences(
    cluster: MixedCluster, conversations: Mapping[str, Sequence[bytes]]
) -> dict[str, tuple[list[object], list[object]]]:
    def both(frames: Sequence[bytes]) -> tuple[list[object], list[object]]:
        ours, official = (
            converse(cluster.address(broker_id, PLAIN_LISTENER), frames) for broker_id in (1, 2)
        )
        return ours, official

    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(conversations, pool.map(both, conversations.values()), strict=True))
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


@pytest.mark.mission("SEC-107", "SEC-110", "SEC-118")
def test_the_frames_of_a_login_have_the_same_responses(cluster: MixedCluster) -> None:
    assert differences(cluster, CONVERSATIONS) == {}


@pytest.mark.mission("SEC-115", "SEC-117", "SEC-151")
def test_the_frames_after_a_login_have_the_same_responses(cluster: MixedCluster) -> None:
    login = [handshake("PLAIN"), token(GOOD)]
    assert differences(cluster, {name: login + list(f) for name, f in AFTER_LOGIN.items()}) == {}


# -- delegation tokens

LOGIN = [handshake("PLAIN"), token(GOOD)]


def create_token(cluster: MixedCluster, broker_id: int) -> CreateDelegationTokenResponse:
    """Create a token at a broker, of which the escaped user is a renewer."""
    renewer = CreatableRenewers("User", ESCAPED_USER)
    frame = request(CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1), 3)
    *_, body = converse(cluster.address(broker_id, PLAIN_LISTENER), [*LOGIN, frame])
    assert isinstance(body, bytes)
    response = decode_response(CreateDelegationTokenResponse, 3, memoryview(body))[1]
    assert (response.error_code, response.principal_name) == (0, PLAIN_USER)
    return response


def token_entry(made: CreateDelegationTokenResponse) -> str:
    secret = base64.b64encode(made.hmac).decode()
    return f'{SCRAM} required username="{made.token_id}" password="{secret}" tokenauth="true";'


async def logs_in(world: World, address: str, made: CreateDelegationTokenResponse) -> bool:
    """Whether our client logs in with a token at this very broker."""
    login = LoginOptions("SCRAM-SHA-512", parse_jaas_property(token_entry(made)).options)
    host, _, port = address.rpartition(":")
    connection = await SaslConnection.open(world, host, int(port))
    nonce = scram_nonce(world.entropy.random_bytes(NONCE_BYTES))
    try:
        lifetime_ms = (await connection.log_in(login.exchange(nonce, 0))).session_lifetime_ms
    except KafkaError as error:
        if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise
        return False
    finally:
        connection.close()
    assert lifetime_ms is not None
    assert 0 < lifetime_ms <= 86_400_000
    return True


async def until_logged_in(
    world: World, cluster: MixedCluster, made: CreateDelegationTokenResponse, wanted: bool = True
) -> None:
    for broker_id in (1, 2):
        address = cluster.address(broker_id, PLAIN_LISTENER)
        for _ in range(200):
            if await logs_in(world, address, made) is wanted:
                break
            await world.clock.sleep(50)
        else:
            pytest.fail(f"broker {broker_id} logs the token in: {not wanted}")


@pytest.mark.mission("SEC-151", "SEC-171")
def test_tokens_of_either_kind_log_in_at_both(
    cluster: MixedCluster, tools: ToolJvm, capsys: pytest.CaptureFixture[str]
) -> None:
    world = real_world()
    of_ours, of_kafka = create_token(cluster, 1), create_token(cluster, 2)
    for made in (of_ours, of_kafka):
        run(until_logged_in(world, cluster, made))
    with cluster.zk() as client:
        path = f"/delegation_token/tokens/{of_kafka.token_id}"
        data = client.get(path)[0]
    assert encode_token(decode_token(path, data)) == data
    # Java's client logs in with a token of ours, and Kafka's tool prints what our verb prints.
    alice = client_properties(cluster, PLAIN_LISTENER, "PLAIN", client_entry("PLAIN"))
    by_token = client_properties(cluster, PLAIN_LISTENER, "SCRAM-SHA-256", token_entry(of_ours))
    at = ("--bootstrap-server", cluster.address(1, PLAIN_LISTENER))
    listing = ("--describe", "--owner-principal", f"User:{PLAIN_USER}")
    described = ("--describe", "--topic", "t")
    seen = tools.run(cluster, "topics", *at, "--command-config", by_token, *described)
    assert "PartitionCount: 2" in seen.out, seen
    official = tools.run(cluster, "delegation-tokens", *at, "--command-config", alice, *listing)
    own = cluster.directory / "alice.properties"  # without the type of a store
    lines = Path(alice).read_text().splitlines(keepends=True)
    own.write_text("".join(line for line in lines if not line.startswith("ssl.")))
    assert main(["tokens", *at, "--command-config", str(own), *listing]) == 0
    ours = normalised(cluster, capsys.readouterr().out)
    assert sorted(ours.splitlines()) == sorted(official.out.splitlines())
    assert "Total number of tokens : 2" in ours
    # Renewed to its end, and the other one removed, it is the same at both.
    (expired,) = differences(
        cluster, {"removed": [*LOGIN, request(ExpireDelegationTokenRequest(of_kafka.hmac, -1), 2)]}
    ).values()
    assert expired[0] != expired[1]  # the second one does not find it
    run(until_logged_in(world, cluster, of_kafka, wanted=False))
    frames = [
        request(RenewDelegationTokenRequest(of_ours.hmac, 10**15), 2),
        request(ExpireDelegationTokenRequest(of_ours.hmac, 10**15), 2),
        *(request(DescribeDelegationTokenRequest(None), version) for version in (1, 2, 3)),
    ]
    assert differences(cluster, {"renewed": [*LOGIN, *frames]}) == {}
