"""kafka-python against three brokers."""

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import InvalidTopicError

from tests.support.clients.places import Cluster, in_both_places, on_processes
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = pytest.mark.compat
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def create(cluster: Cluster, topic: str, partitions: int = 3) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics([NewTopic(topic, partitions, 3)])
    wait_for_leaders(cluster.bootstrap, topic, partitions)
    while topic not in admin.list_topics():  # another broker may know of it later
        pass
    admin.close()


def read_all(cluster: Cluster, topic: str, partitions: int, count: int) -> list[tuple[int, bytes]]:
    """Everything, once so many records are replicated: acks 0 and 1 do not wait for that."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","))
    assigned = [TopicPartition(topic, p) for p in range(partitions)]
    consumer.assign(assigned)
    consumer.seek_to_beginning()
    while sum((ends := consumer.end_offsets(assigned)).values()) < count:
        pass
    found: list[tuple[int, bytes]] = []
    while any(consumer.position(p) < ends[p] for p in assigned):
        for records in consumer.poll(timeout_ms=500).values():
            found += [(r.partition, r.value) for r in records]
    consumer.close()
    return found


@pytest.mark.mission("CRD-1")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_produce_and_read_back(
    cluster: Cluster, topic: str, codec: str | None, acks: int | str
) -> None:
    create(cluster, topic)
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","),
        acks=acks,
        compression_type=codec,
        enable_idempotence=acks == "all",
    )
    sent = [f"value-{n}".encode() * 20 for n in range(300)]
    futures = [producer.send(topic, v, partition=n % 3) for n, v in enumerate(sent)]
    producer.flush(30)
    if acks != 0:
        assert {f.get(10).offset for f in futures} == set(range(100))
    producer.close()
    found = read_all(cluster, topic, 3, len(sent))
    for partition in range(3):
        expected = [v for n, v in enumerate(sent) if n % 3 == partition]
        assert [v for p, v in found if p == partition] == expected


@in_both_places
def test_offsets_by_time(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, 1)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","))
    for n in range(10):
        producer.send(topic, b"x", partition=0, timestamp_ms=1_700_000_000_000 + n * 1000).get(10)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","))
    partition = TopicPartition(topic, 0)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 10}
    assert consumer.offsets_for_times({partition: 1_700_000_004_500})[partition].offset == 5
    consumer.close()


@on_processes  # levels are those of a process
def test_levels_of_a_brokers_loggers(cluster: Cluster) -> None:
    """KIP-412: described and altered at the broker that is named, and at no other."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    one, two = (node["broker_id"] for node in admin.describe_cluster()["brokers"][:2])

    def levels(broker: int) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker))
        found = admin.describe_configs([resource], config_filter="all")
        entries = found["broker_logger"][str(broker)]
        assert {e["config_source"] for e in entries.values()} == {"DYNAMIC_BROKER_LOGGER_CONFIG"}
        return {name: entry["value"] for name, entry in entries.items()}

    def altered(operation: AlterConfigOp, logger: str, level: str | None) -> str:
        changes = {logger: (operation, level)}
        resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(one), changes)
        told = admin.alter_configs([resource], raise_on_unknown=False)
        return str(told["broker_logger"][str(one)])

    before, others = levels(one), levels(two)
    assert altered(AlterConfigOp.SET, "replica-fetcher", "DEBUG") == "OK"
    assert levels(one) == before | {"replica-fetcher": "DEBUG"}
    assert levels(two) == others
    for operation, logger, level, words in (
        (AlterConfigOp.SET, "nobody", "DEBUG", "Logger nobody does not exist!"),
        (AlterConfigOp.SET, "network", "LOUD", "not a supported log level"),
        (AlterConfigOp.DELETE, "root", None, "root logger is not allowed"),
    ):
        assert words in altered(operation, logger, level)
    assert altered(AlterConfigOp.DELETE, "replica-fetcher", None) == "OK"
    assert levels(one) == before
    admin.close()


def test_a_refused_auto_creation_ends_a_send_before_its_time_out(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, f"{topic}.one", 1)
    for address in cluster.bootstrap.split(","):
        producer = KafkaProducer(bootstrap_servers=address, max_block_ms=5_000)
        with pytest.raises(InvalidTopicError):
            producer.send(f"{topic}_one", b"v").get(10)
        producer.close()


@pytest.mark.mission("FWD-1", "SEC-114")
def test_credentials_are_altered_through_any_broker(cluster: Cluster, topic: str) -> None:
    """Each client sends these requests to one broker that it chooses at random: of twelve some
    choose others than the controller."""
    users = [f"{topic}-{number}" for number in range(12)]
    kind = ScramMechanism.SCRAM_SHA_512
    for user in users:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
        upsertion = UserScramCredentialUpsertion(user, kind, "secret")
        assert admin.alter_user_scram_credentials([upsertion]) == {user: None}
        found = admin.describe_user_scram_credentials([user])[user]["credential_infos"]
        assert [info["mechanism"] for info in found] == [kind]
        deletion = UserScramCredentialDeletion(user, kind)
        assert admin.alter_user_scram_credentials([deletion]) == {user: None}
        admin.close()
