"""The options for TLS and logins, and the connections that Spark's processes make by them."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.kernel.client_security import ClientSecurity
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.principals import Principal
from minikafka.kernel.tls import TlsSettings
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import decode_request_header, encode_response
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.server.listeners.listener_sasl import ListenerSasl
from minikafka.server.listeners.listener_tls import ListenerTls
from minikafka.server.listeners.reply_queue import ReplySlot
from minikafka.server.listeners.server_connection import ServerConnection
from minikafka.spark import secured
from minikafka.spark.client_options import client_options, security_options
from minikafka.spark.connection import BlockingConnection
from minikafka.spark.option_parsing import OptionError, Options
from minikafka.spark.options import batch_options, stream_options
from minikafka.spark.write.write_options import write_options
from minikafka.world.sim.entropy import SimEntropy
from tests.support.network.network_lab import Lab
from tests.support.security.certificates import Authority
from tests.support.security.logins import SERVED, login_config
from tests.support.world.manual_clock import ManualClock

pytestmark = pytest.mark.mission("SPK-8")

BASE = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
MODULE = "org.apache.kafka.common.security"
SECRETS = {
    "kafka.sasl.jaas.config": (
        f'{MODULE}.scram.ScramLoginModule required username="alice" password="hush-1";'
    ),
    "kafka.ssl.keystore.key": "hush-2",
    "kafka.ssl.keystore.password": "hush-3",
    "kafka.ssl.key.password": "hush-4",
    "kafka.ssl.truststore.password": "hush-5",
    "kafka.sasl.password": "hush-6",
}
SECURED = {
    "kafka.security.protocol": "SASL_SSL",
    "Kafka.Sasl.Mechanism": "SCRAM-SHA-512",
    "kafka.ssl.truststore.location": "/ca.pem",
    "kafka.ssl.truststore.type": "PEM",
    **SECRETS,
}
BEARER = f"{MODULE}.oauthbearer.OAuthBearerLoginModule required"
ENDPOINT = {
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "http://h/token",
    "kafka.sasl.jaas.config": f'{BEARER} clientId="spark" clientSecret="hush";',
}
SESSION_MS = 10_000
METADATA = MetadataRequest(topics=[])
AUTHORITY = Authority()


@pytest.mark.parametrize("kind", ["batch", "stream", "sink"])
def test_the_options_reach_the_client_of_each_process(kind: str) -> None:
    if kind == "sink":
        parsed: Any = write_options({**BASE, **SECURED, "topic": "t"}, {"value": "binary"})
    else:
        parsed = {"batch": batch_options, "stream": stream_options}[kind]({**BASE, **SECURED})
    security = pickle.loads(pickle.dumps(parsed)).client.security
    assert security == ClientSecurity(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        ssl_truststore_location="/ca.pem",
        ssl_truststore_type="PEM",
        sasl_jaas_config=SECRETS["kafka.sasl.jaas.config"],
        ssl_keystore_key="hush-2",
        ssl_keystore_password="hush-3",
        ssl_key_password="hush-4",
        ssl_truststore_password="hush-5",
        sasl_password="hush-6",
    )


def test_secrets_are_not_shown() -> None:
    """Spark logs the representations of objects that it pickles and that fail."""
    parsed = batch_options({**BASE, **SECURED})
    sink = write_options({**BASE, **SECURED, "topic": "t"}, {"value": "binary"})
    shown = [parsed, parsed.client, parsed.client.security, sink, Options.of(SECURED)]
    assert "hush" not in " ".join(map(repr, shown))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"kafka.security.protocol": "TLS"}, "security.protocol=TLS: must be one of"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "GSSAPI, which is the default, is not supported in"),
        ({"kafka.sasl.mechanism": "AWS_MSK_IAM"}, "sasl.mechanism=AWS_MSK_IAM is not supported"),
        ({"kafka.ssl.provider": "x"}, "it is not supported: it concerns Java's TLS"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "sasl.jaas.config: PLAIN needs"),
        ({"kafka.sasl.jaas.config": "hush"}, "kafka.*: sasl.jaas.config: "),
        ({"kafka.sasl.jaas.confg": "hush"}, "did you mean 'kafka.sasl.jaas.config'"),
        ({"kafka.ssl.truststore.locaton": "x"}, "did you mean 'kafka.ssl.truststore.location'"),
        ({"kafka.sasl.oauth.token.provider": "x"}, "unknown Kafka client option"),
        ({"kafka.sasl.oauthbearer.sub.claim.name": "x"}, "name: it is not supported"),
        ({"kafka.sasl.oauthbearer.token.endpoint.url": "http://h"}, "needs sasl.mechanism=OAUTH"),
        ({**ENDPOINT, "kafka.sasl.oauthbearer.token.endpoint.url": "h"}, "endpoint.url: it is no"),
        ({**ENDPOINT, "kafka.sasl.login.callback.handler.class": "x"}, "handler.class=x: only org"),
        ({**ENDPOINT, "kafka.sasl.jaas.config": f"{BEARER} clientId=a;"}, "has no clientSecret"),
        ({"kafka.ssl.engine.factory.class": "x"}, "a class of Java cannot be loaded"),
    ],
)
def test_an_unusable_option_is_named_without_a_secret(
    options: dict[str, str], complaint: str
) -> None:
    for parse in (batch_options, stream_options):
        with pytest.raises(OptionError) as raised:
            parse({**BASE, **Options.of(SECURED).values, **options})
        assert complaint in str(raised.value)
        assert "hush" not in str(raised.value)


def test_the_options_for_another_reader_at_the_same_brokers() -> None:
    given = Options.of({**BASE, **SECURED, "kafka.linger.ms": "5"}).values
    assert security_options(given) == Options.of(SECURED).values


# -- connections


class Broker:
    """A SASL listener with TLS. ``users`` has the principal of each Metadata request."""

    def __init__(self, lab: Lab, session_ms: int = 0) -> None:
        self.lab = lab
        self.users: list[Principal] = []
        self.parked: list[tuple[ReplySlot, bytes]] = []
        self.parks = False
        self.sasl = ListenerSasl(login_config(session_ms), 0, lab.clock, SimEntropy(1), lab.log)
        identity = AUTHORITY.issue("broker", ("127.0.0.1",))
        settings = TlsSettings(key=identity.key_pem(), chain=identity.chain_pem)
        self.tls = ListenerTls(settings, lambda _: "", lab.clock, lab.log)
        self.authority = identity.authority_pem.decode()

    async def start(self) -> int:
        server = await self.lab.serve(self._on_frame, sasl=self.sasl, tls=self.tls)
        return server.port

    def _on_frame(self, connection: ServerConnection, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        slot = connection.open_slot(len(frame))
        if header.api_key == ApiKey.API_VERSIONS:
            versions = ApiVersionsResponse(api_keys=list(SERVED))
            slot.send(encode_response(header.correlation_id, versions, 0))
            return
        self.users.append(connection.principal)
        response = MetadataResponse(controller_id=len(self.users))
        self.parked.append((slot, encode_response(header.correlation_id, response, 1)))
        if not self.parks:
            self.respond()

    def respond(self) -> None:
        parked, self.parked = self.parked, []
        for slot, response in parked:
            slot.send(response)


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    lab = Lab()
    yield lab
    await lab.stop()


def connection_to(port: int, broker: Broker, **more: str) -> BlockingConnection:
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "bob",
        "kafka.sasl.password": "builder",
        "kafka.ssl.truststore.certificates": broker.authority,
        **{f"kafka.{name.replace('_', '.')}": text for name, text in more.items()},
    }
    return BlockingConnection("127.0.0.1", port, client_options(options))


def ask(connection: BlockingConnection) -> int:
    connection.open()
    found: int = connection.request(METADATA, 1).controller_id
    connection.close()
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_connection_speaks_tls_and_logs_in(
    lab: Lab, mechanism: str, tmp_path: Path
) -> None:
    broker = Broker(lab)
    port = await broker.start()
    by_text = connection_to(port, broker, sasl_mechanism=mechanism)
    assert await asyncio.to_thread(ask, by_text) == 1
    (tmp_path / "ca.pem").write_text(broker.authority)
    by_file = connection_to(port, broker, ssl_truststore_location=str(tmp_path / "ca.pem"))
    with pytest.raises(ConfigError, match="exclude each other"):
        await asyncio.to_thread(ask, by_file)
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.username": "bob",
        "kafka.sasl.password": "builder",
        "kafka.ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    by_file = BlockingConnection("127.0.0.1", port, client_options(options))
    assert await asyncio.to_thread(ask, by_file) == 2
    assert broker.users == [Principal("bob")] * 2


async def test_a_refused_login_is_an_error_without_the_password(lab: Lab) -> None:
    broker = Broker(lab)
    port = await broker.start()
    connection = connection_to(port, broker, sasl_password="hush")
    opening = asyncio.ensure_future(asyncio.to_thread(connection.open))
    while not opening.done():
        await asyncio.sleep(0.001)
        lab.clock.advance(1)
    with pytest.raises(KafkaError, match=f"127.0.0.1:{port}: Authentication failed") as raised:
        await opening
    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "hush" not in str(raised.value)
    assert not connection.is_open


async def test_a_broker_with_another_certificate_is_refused(lab: Lab) -> None:
    broker = Broker(lab)
    port = await broker.start()
    broker.authority = Authority().issue("other").authority_pem.decode()
    with pytest.raises(KafkaError, match="certificate verify failed") as raised:
        await asyncio.to_thread(ask, connection_to(port, broker))
    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
    assert broker.sasl.counts.successful_authentication == 0


async def test_a_session_is_renewed_after_the_responses_to_requests_in_flight(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(secured, "WallClock", lambda: clock)
    broker = Broker(lab, SESSION_MS)
    port = await broker.start()
    connection = connection_to(port, broker)
    await asyncio.to_thread(connection.open)
    broker.parks = True
    for _ in range(2):
        await asyncio.to_thread(connection.send, METADATA, 1)
    await lab.until(lambda: len(broker.parked) == 2)
    lab.clock.advance(SESSION_MS - 400)
    clock.advance(SESSION_MS - 400)
    third = asyncio.ensure_future(asyncio.to_thread(connection.send, METADATA, 1))
    broker.respond()
    broker.parks = False
    await third
    assert connection.in_flight == 3
    found = [await asyncio.to_thread(connection.receive) for _ in range(3)]
    assert [response.controller_id for response in found] == [1, 2, 3]
    assert broker.sasl.counts.successful_reauthentication == 1
    assert connection.in_flight == 0
    connection.close()
