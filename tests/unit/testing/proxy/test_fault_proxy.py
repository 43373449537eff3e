"""Real clients of a cluster behind a proxy: all traffic passes it, and faults strike there."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.errors import CorruptRecordException
from confluent_kafka.admin import AdminClient

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.testing.proxy.fault_proxy import FaultProxy
from minikafka.testing.proxy.messages import NodeAddress
from minikafka.testing.request_faults import RequestFaults

NUMBERS = count()


def first_address(cluster: InsideCluster) -> str:
    return cluster.bootstrap.split(",")[0]


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(brokers=3, settings={"group.min.session.timeout.ms": 1000}) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(cluster: InsideCluster) -> Iterator[FaultProxy]:
    with FaultProxy(first_address(cluster)) as running:
        yield running


@pytest.fixture
def faults(proxy: FaultProxy) -> RequestFaults:
    return proxy.request_faults


@pytest.fixture
def topic(cluster: InsideCluster) -> str:
    name = f"t{next(NUMBERS)}"
    cluster.create_topic(name, partitions=3, replication_factor=1)
    return name


def producer(proxy: FaultProxy, **settings: Any) -> confluent_kafka.Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    quick = {"retry.backoff.ms": 1, "linger.ms": 0, "bootstrap.servers": proxy.bootstrap}
    return confluent_kafka.Producer({**quick, **named})


def delivered(
    client: confluent_kafka.Producer, topic: str, value: bytes = b"value", partition: int = 0
) -> Any:
    """Return the error of a record, or None."""
    reports: list[Any] = []
    client.produce(topic, value, partition=partition, on_delivery=lambda e, _: reports.append(e))
    assert client.flush(30) == 0
    return reports[0]


def values(bootstrap: str, topic: str, partition: int, n: int) -> list[bytes | None]:
    """Read the records of a partition, which are ``n``."""
    reader = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    place = confluent_kafka.TopicPartition(topic, partition, 0)
    reader.assign([place])
    assert reader.get_watermark_offsets(place, timeout=20) == (0, n)
    found = [record.value() for record in reader.consume(n, timeout=20)]
    reader.close()
    return found


@pytest.mark.mission("IN-83")
def test_every_broker_has_a_listener_and_every_client_goes_through_it(
    cluster: InsideCluster, proxy: FaultProxy, topic: str
) -> None:
    assert set(proxy.brokers) == {1, 2, 3}
    assert len(proxy.ports) == 3  # the first listener is that of the broker that it was opened for
    brokers = AdminClient({"bootstrap.servers": proxy.bootstrap}).list_topics(timeout=20).brokers
    found = {number: f"{each.host}:{each.port}" for number, each in brokers.items()}
    assert found == {number: pair[0] for number, pair in proxy.brokers.items()}
    assert set(found.values()).isdisjoint(cluster.bootstrap.split(","))
    for partition in range(3):
        client = kafka.KafkaProducer(
            bootstrap_servers=proxy.bootstrap.split(",")[0], client_id=f"{topic}-{partition}"
        )
        client.send(topic, b"value", partition=partition).get(20)
        client.close()
        assert values(proxy.bootstrap.split(",")[1], topic, partition, 1) == [b"value"]
        leader = cluster.leader(topic, partition)
        seen = proxy.request_faults.requests("Produce", f"{topic}-{partition}")
        assert [(each.broker, each.partitions) for each in seen] == [(leader, [(topic, partition)])]


@pytest.mark.mission("IN-83")
async def test_a_group_rebalances_through_the_proxy(
    cluster: InsideCluster, proxy: FaultProxy, topic: str
) -> None:
    """Coordinators, too, are found through the proxy; a member that leaves makes room for another
    one, which reads the rest."""

    async def member(name: str) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=proxy.bootstrap, group_id=topic, client_id=f"{topic}-{name}",
            auto_offset_reset="earliest", heartbeat_interval_ms=100,
        )  # fmt: skip
        await consumer.start()
        return consumer

    first = await member("first")
    assert len(first.assignment()) == 3
    # Two generations follow: the first member gives partitions up while it reads.
    both = asyncio.create_task(member("second"))
    while len(first.assignment()) == 3:
        await first.getmany(timeout_ms=20)
    second = await both
    assert len(first.assignment()) + len(second.assignment()) == 3
    await first.stop()
    while len(second.assignment()) < 3:
        await second.getmany(timeout_ms=20)
    for partition in range(3):
        await asyncio.to_thread(delivered, producer(proxy), topic, b"value", partition)
    found: list[Any] = []
    while len(found) < 3:
        for records in (await second.getmany(timeout_ms=100)).values():
            found += records
    await second.stop()
    joined = proxy.request_faults.requests("JoinGroup")
    assert {each.client_id for each in joined if topic in each.groups} == {
        f"{topic}-first", f"{topic}-second",
    }  # fmt: skip
    assert {each.broker for each in joined if topic in each.groups} == {cluster.coordinator(topic)}


@pytest.mark.mission("IN-83")
def test_a_transaction_passes_in_spite_of_an_error_of_its_coordinator(
    proxy: FaultProxy, faults: RequestFaults, topic: str
) -> None:
    client = producer(proxy, transactional_id=topic)
    client.init_transactions(20)
    client.begin_transaction()
    client.produce(topic, b"value", partition=0)
    with faults.answer("NOT_COORDINATOR", api="EndTxn", transactional_id=topic) as fault:
        client.commit_transaction(20)
    assert fault.hits == 1
    reader = confluent_kafka.Consumer({"bootstrap.servers": proxy.bootstrap, "group.id": topic})
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    assert [record.value() for record in reader.consume(1, timeout=20)] == [b"value"]
    reader.close()


@pytest.mark.mission("IN-83")
def test_clients_log_in_through_the_proxy() -> None:
    """The proxy has no login: it learns the brokers from a client."""
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a"'
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f'{login} password="b" user_a="b";',
    }
    with InsideCluster(2, settings) as secured, FaultProxy(first_address(secured)) as proxy:
        assert proxy.brokers == {}
        assert proxy.events("login_needed")
        own = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        client = producer(proxy, **own, sasl_username="a", sasl_password="b")
        assert delivered(client, "t") is None
        assert {number: pair[1] for number, pair in proxy.brokers.items()} == dict(
            enumerate(secured.bootstrap.split(","), 1)
        )
        assert len(proxy.ports) == 2


@pytest.mark.mission("IN-100")
def test_one_partition_is_refused_and_the_producer_tries_again(
    proxy: FaultProxy, faults: RequestFaults, topic: str
) -> None:
    client = producer(proxy)
    with faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", topic=topic, partition=0) as fault:
        assert delivered(client, topic, b"other", 1) is None
        assert fault.hits == 0
        assert delivered(client, topic, b"value", 0) is None
        assert fault.hits == 1
    assert values(proxy.bootstrap, topic, 0, 1) == [b"value"]


@pytest.mark.mission("IN-100")
async def test_of_two_partitions_in_a_request_one_is_refused(
    cluster: InsideCluster, proxy: FaultProxy, faults: RequestFaults, topic: str
) -> None:
    for partition in (0, 1):
        await asyncio.to_thread(cluster.move_leader, topic, partition, 1)
    client = aiokafka.AIOKafkaProducer(
        bootstrap_servers=proxy.bootstrap, retry_backoff_ms=10, linger_ms=50
    )
    await client.start()
    fault = faults.answer("not_leader_or_follower", api="Produce", topic=topic, partition=0)
    both = [await client.send(topic, b"value", partition=number) for number in (0, 1)]
    await asyncio.gather(*both)
    await client.stop()
    assert fault.hits == 1
    struck = [each for each in faults.requests("Produce") if topic in each.topics]
    assert len(struck[0].partitions) == 2
    for partition in (0, 1):
        assert values(cluster.bootstrap, topic, partition, 1) == [b"value"]


@pytest.mark.mission("IN-100")
def test_an_error_after_the_work_and_selection_by_broker(
    cluster: InsideCluster, proxy: FaultProxy, faults: RequestFaults, topic: str
) -> None:
    leader = cluster.leader(topic, 0)
    other = leader % 3 + 1
    with (
        faults.answer("REQUEST_TIMED_OUT", api="produce", topic=topic, broker=leader) as fault,
        faults.answer("REQUEST_TIMED_OUT", api="produce", topic=topic, broker=other) as unused,
    ):
        assert delivered(producer(proxy), topic) is None
    assert (fault.hits, unused.hits) == (1, 0)
    assert values(cluster.bootstrap, topic, 0, 2) == [b"value"] * 2


@pytest.mark.mission("IN-101")
@pytest.mark.parametrize(("at", "n"), [("before", 1), ("after", 2)])
def test_a_connection_is_closed_before_the_work_or_after_it(
    cluster: InsideCluster, proxy: FaultProxy, faults: RequestFaults, topic: str, at: Any, n: int
) -> None:
    with faults.disconnect(at, api="produce", topic=topic) as fault:
        assert delivered(producer(proxy), topic) is None
    assert fault.hits == 1
    assert values(cluster.bootstrap, topic, 0, n) == [b"value"] * n


@pytest.mark.mission("IN-101")
@pytest.mark.parametrize(("at", "held"), [("before", 0), ("after", 1)])
def test_a_hold_keeps_a_request_or_a_response(
    cluster: InsideCluster, proxy: FaultProxy, faults: RequestFaults, topic: str, at: Any, held: int
) -> None:
    client = producer(proxy)
    with faults.hold(at, api="produce", topic=topic) as fault:
        client.produce(topic, b"value", partition=0)
        client.poll(0)
        fault.wait()
        with faults.observe(api="Metadata"):  # other connections go on
            assert AdminClient({"bootstrap.servers": proxy.bootstrap}).list_topics(timeout=20)
        while len(values(cluster.bootstrap, topic, 0, held)) < held:
            pass
        assert len(client) == 1
        fault.release()
        assert client.flush(20) == 0
    assert values(cluster.bootstrap, topic, 0, 1) == [b"value"]


@pytest.mark.mission("IN-101")
def test_a_swallowed_request_and_all_after_it_have_no_response(
    proxy: FaultProxy, faults: RequestFaults, topic: str
) -> None:
    client = producer(proxy, socket_timeout_ms=300)
    with faults.swallow(api="produce", topic=topic) as fault:
        assert delivered(client, topic) is None
    assert fault.hits == 1
    assert values(proxy.bootstrap, topic, 0, 1) == [b"value"]


@pytest.mark.mission("IN-101")
def test_a_delay_lets_later_rules_have_their_effect(
    proxy: FaultProxy, faults: RequestFaults, topic: str
) -> None:
    with (
        faults.delay(0.01, api="produce", topic=topic, times=2) as delay,
        faults.observe(api="produce", topic=topic) as seen,
        faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", topic=topic) as error,
    ):
        assert delivered(producer(proxy), topic) is None
    assert (delay.hits, seen.hits, error.hits) == (2, 2, 1)


@pytest.mark.mission("IN-102")
def test_a_client_is_throttled(proxy: FaultProxy, faults: RequestFaults, topic: str) -> None:
    """librdkafka reports what the response says."""
    throttled = threading.Event()
    client = confluent_kafka.Producer(
        {"bootstrap.servers": proxy.bootstrap, "throttle_cb": lambda event: throttled.set()}
    )
    with faults.throttle(0.05, api="produce", topic=topic) as fault:
        assert delivered(client, topic) is None
        while not throttled.is_set():
            client.poll(0.01)
    assert fault.hits == 1


@pytest.mark.mission("IN-102")
async def test_records_are_corrupted_on_their_way(
    proxy: FaultProxy, faults: RequestFaults, topic: str
) -> None:
    """The fetch is one of a session, by topic ids: the proxy knows their names."""
    await asyncio.to_thread(delivered, producer(proxy), topic)
    with faults.corrupt(topic=topic) as fault:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=proxy.bootstrap)
        await consumer.start()
        place = aiokafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        with pytest.raises(CorruptRecordException):
            await consumer.getone()
        assert (await consumer.getone()).value == b"value"
        await consumer.stop()
    assert fault.hits == 1
    with faults.corrupt(topic=topic) as fault:
        assert values(proxy.bootstrap, topic, 0, 1) == [b"value"]  # librdkafka fetches again
    assert fault.hits == 1


@pytest.mark.mission("IN-102")
def test_records_without_acknowledgement_pass_before_the_connection_ends(
    cluster: InsideCluster, proxy: FaultProxy, topic: str
) -> None:
    n = 500
    client = kafka.KafkaProducer(bootstrap_servers=proxy.bootstrap, acks=0, linger_ms=0)
    for _ in range(n):
        client.send(topic, b"value" * 100, partition=0)
    client.flush(20)
    client.close()
    reader = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    place = confluent_kafka.TopicPartition(topic, 0, 0)
    while reader.get_watermark_offsets(place, timeout=20)[1] < n:
        pass
    reader.close()


@pytest.mark.mission("IN-103")
def test_the_death_of_a_broker_ends_its_clients_and_those_go_on_with_another() -> None:
    with InsideCluster(brokers=3) as cluster, FaultProxy(first_address(cluster)) as proxy:
        cluster.create_topic("t", partitions=1, replication_factor=3)
        client = producer(proxy)
        assert delivered(client, "t") is None
        leader = cluster.leader("t", 0)
        cluster.kill_broker(leader)
        assert delivered(client, "t") is None
        assert cluster.leader("t", 0) != leader
        cluster.start_broker(leader)
        added = cluster.add_broker()  # the proxy learns it from a client's Metadata
        assert added not in proxy.brokers
        admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
        brokers = admin.list_topics(timeout=20).brokers
        assert f"{brokers[added].host}:{brokers[added].port}" == proxy.brokers[added][0]
        cluster.move_leader("t", 0, added)
        assert delivered(client, "t") is None
        assert values(proxy.bootstrap, "t", 0, 3) == [b"value"] * 3
        assert [each.broker for each in proxy.request_faults.requests("Produce")][-1] == added


@pytest.mark.mission("IN-101")
async def test_faults_are_added_before_the_start_and_read_after_the_end(
    cluster: InsideCluster, topic: str
) -> None:
    proxy = FaultProxy(first_address(cluster), "0.0.0.0:0")
    fault = proxy.request_faults.disconnect("before", api="produce", topic=topic)
    with pytest.raises(RuntimeError):
        fault.wait()
    with proxy:
        bootstrap = f"127.0.0.1:{proxy.ports[0]}"
        client = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "retry.backoff.ms": 1})
        assert await asyncio.to_thread(delivered, client, topic) is None
    fault.remove()
    assert fault.hits == 1
    assert {each.client_host for each in proxy.request_faults.requests("Produce")} == {"127.0.0.1"}


@pytest.mark.mission("IN-103")
def test_a_broker_that_has_moved_keeps_its_listener(cluster: InsideCluster) -> None:
    with FaultProxy(first_address(cluster)) as proxy, socket.create_server(("127.0.0.1", 0)) as new:
        listener = proxy.brokers[2][0]
        new_port = new.getsockname()[1]
        proxy.call(proxy._known.learn([NodeAddress(2, "127.0.0.1", new_port)]))
        assert proxy.brokers[2] == (listener, f"127.0.0.1:{new_port}")
        with socket.create_connection(("127.0.0.1", int(listener.split(":")[1]))):
            new.settimeout(20)
            new.accept()[0].close()


@pytest.mark.mission("IN-103")
def test_a_dead_upstream_closes_connections_and_the_proxy_ends_in_spite_of_a_hold() -> None:
    cluster = InsideCluster(brokers=1)
    cluster.start()
    with FaultProxy(first_address(cluster)) as proxy:
        with connected(proxy) as silent:
            hold = proxy.request_faults.hold(api="Heartbeat")
            with connected(proxy) as holding:
                holding.sendall(encode_request(RequestHeader(12, 0, 7, "c"), HeartbeatRequest()))
                hold.wait()
                cluster.stop()
                assert silent.recv(1) == b""
                assert holding.recv(1) == b""
        with connected(proxy) as refused:
            assert refused.recv(1) == b""
        lost = proxy.events("upstream_lost")
        assert lost[-1].facts["upstream"] == first_address(cluster)
    with pytest.raises(ConnectionError, match="cannot connect to"):
        FaultProxy(f"127.0.0.1:{proxy_port_of_nothing()}").start()


def connected(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.ports[0]), timeout=20)


def proxy_port_of_nothing() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


@pytest.mark.mission("IN-84")
def test_versions_that_are_not_known_do_not_pass(proxy: FaultProxy) -> None:
    newest = ApiKey.API_VERSIONS.max_version
    with connected(proxy) as stream:
        stream.sendall(raw_request(ApiKey.API_VERSIONS, newest + 1, 5))
        correlation_id, own = decode_response(ApiVersionsResponse, 0, frame(stream))
        assert (correlation_id, own.error_code) == (5, 35)
        assert [(row.min_version, row.max_version) for row in own.api_keys] == [(0, newest)]
        header = RequestHeader(ApiKey.API_VERSIONS, newest, 6, "c")
        stream.sendall(encode_request(header, ApiVersionsRequest("name", "1.0")))
        correlation_id, listed = decode_response(ApiVersionsResponse, newest, frame(stream))
        versions = {row.api_key: row for row in listed.api_keys}
        assert versions[ApiKey.SASL_HANDSHAKE].min_version == 1
        assert versions[ApiKey.METADATA].max_version == ApiKey.METADATA.max_version
        stream.sendall(raw_request(ApiKey.METADATA, ApiKey.METADATA.max_version + 1, 7))
        assert stream.recv(1) == b""  # its response would name brokers outside of the proxy
    with connected(proxy) as stream:
        stream.sendall(raw_request(1_000, 0, 8))
        assert stream.recv(1) == b""


def raw_request(api_key: int, version: int, correlation_id: int) -> bytes:
    """Return a request without a body, in a flexible header."""
    body = b"".join(
        number.to_bytes(size, "big")
        for number, size in ((api_key, 2), (version, 2), (correlation_id, 4), (0, 2), (0, 1))
    )
    return len(body).to_bytes(4, "big") + body


def frame(stream: socket.socket) -> bytes:
    with stream.makefile("rb") as file:
        return file.read(int.from_bytes(file.read(4), "big"))
