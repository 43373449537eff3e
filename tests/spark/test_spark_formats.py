"""Columns of Avro, JSON and Protobuf in Spark, beside Confluent's serializers and deserializers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.kafka_side import consume, produce
from tests.support.clients.places import Cluster
from tests.support.registry_server import RegistryServer, registry_server

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).resolve().parents[2]
LOGIN = {"ann": "s3cret"}
OLD = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
NEW = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
     "default": null}]}"""


@pytest.fixture(scope="module")
def registry(inside: Cluster) -> Iterator[RegistryServer]:
    with registry_server(inside.bootstrap, users=LOGIN) as running:
        yield running


@pytest.fixture
def client(registry: RegistryServer) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "ann:s3cret"})


def access(registry: RegistryServer, password: str = "s3cret") -> Any:
    from minikafka.spark.formats import RegistryAccess

    return RegistryAccess(registry.url, user="ann", password=password)


def context(topic: str) -> Any:
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext(topic, MessageField.VALUE)


def read(spark: Any, cluster: Cluster, topic: str) -> Any:
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}
    return spark.read.format("minikafka").options(**options).load()


@pytest.fixture
def orders(cluster: Cluster, make_topic: Callable[..., str], client: Any) -> str:
    """A topic with two orders of two schemas, a null, and a value of no schema."""
    from confluent_kafka.schema_registry.avro import AvroSerializer

    topic = make_topic(1)
    old, new = AvroSerializer(client, OLD), AvroSerializer(client, NEW)
    values = [
        old({"id": 1}, context(topic)),
        new({"id": 2, "at": 1_700_000_000_123}, context(topic)),
        None,
        b"{}",
    ]
    produce(cluster.bootstrap, topic, [{"value": each, "partition": 0} for each in values])
    return topic


@pytest.mark.mission("FMT-3", "FMT-4")
def test_values_without_a_schema_have_a_reason_beside_those_of_two_versions(
    spark: Any, cluster: Cluster, registry: RegistryServer, orders: str
) -> None:
    from minikafka.spark.formats import from_registry

    column = from_registry("value", f"{orders}-value", access(registry), mode="PERMISSIVE")
    frame = read(spark, cluster, orders).select("offset", column.alias("order"))
    assert frame.schema["order"].dataType.simpleString() == (
        "struct<id:bigint,at:timestamp,_reason:string>"
    )
    rows = {row["offset"]: row["order"] for row in frame.collect()}
    assert rows[0].asDict() == {"id": 1, "at": None, "_reason": None}
    assert (rows[1]["id"], rows[1]["at"].microsecond) == (2, 123_000)
    assert rows[2] is None
    assert rows[3].asDict() == {
        "id": None,
        "at": None,
        "_reason": "the value does not begin with the id of a schema",
    }


@pytest.mark.mission("FMT-4", "FMT-6")
def test_a_failed_task_names_the_subject_and_no_plan_has_the_password(
    spark: Any, cluster: Cluster, registry: RegistryServer, orders: str
) -> None:
    from minikafka.spark.formats import FormatError, from_registry

    column = from_registry("value", f"{orders}-value", access(registry))
    frame = read(spark, cluster, orders).select(column.alias("order"))
    plan = frame._jdf.queryExecution().toString()
    assert "from_registry(value" in plan
    with pytest.raises(Exception, match="1 values, the first") as failed:
        frame.collect()
    assert f"{orders}-value" in str(failed.value)
    with pytest.raises(FormatError, match="40101") as refused:
        from_registry("value", "s", access(registry, "s3cret-wrong"))
    for text in (plan, str(failed.value), str(refused.value)):
        assert "s3cret" not in text


@pytest.mark.mission("FMT-5")
def test_rows_are_encoded_for_confluents_deserializers(
    spark: Any, cluster: Cluster, registry: RegistryServer, make_topic: Any, client: Any
) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer
    from pyspark.sql import functions as F

    from minikafka.spark.formats import from_registry, to_registry

    document = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    texts = {"AVRO": OLD, "JSON": json.dumps(document)}
    readers = {"AVRO": AvroDeserializer(client), "JSON": JSONDeserializer(None, None, client)}
    proto = 'syntax = "proto3"; message Order { int64 id = 1; }'
    for kind, text in {**texts, "PROTOBUF": proto}.items():
        topic = make_topic(1)
        encoded = to_registry(
            F.struct("id"),
            f"{topic}-value",
            access(registry),
            schema=text,
            schema_type=kind,
            register=True,
        )
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
        rows = spark.range(1000).select(encoded.alias("value"))
        rows.write.format("minikafka").options(**options).mode("append").save()
        if kind in readers:
            values = [each[4] for each in consume(cluster.bootstrap, topic, 1, "read_committed")]
            found = [readers[kind](value, context(topic))["id"] for value in values]
            assert sorted(found) == list(range(1000))
        again = from_registry("value", f"{topic}-value", access(registry))
        frame = read(spark, cluster, topic).select(again.alias("order")).select("order.id")
        assert frame.agg(F.sum("id"), F.count("id")).first() == (499_500, 1000)


@pytest.mark.mission("FMT-4")
def test_the_example_of_the_documentation_sends_dead_letters(
    streams: Any,
    cluster: Cluster,
    registry: RegistryServer,
    orders: str,
    make_topic: Any,
    tmp_path: Path,
) -> None:
    page = (ROOT / "docs" / "how-to" / "spark.md").read_text()
    section = page.split("## Avro, Protobuf and JSON")[1]
    example = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    good, dead = make_topic(1), make_topic(1)
    for name, value in {
        "127.0.0.1:9092": cluster.bootstrap,
        "http://127.0.0.1:8081": registry.url,
        '"orders': f'"{orders}',
        '"totals"': f'"{good}"',
        '"dead-letters"': f'"{dead}"',
        "/tmp/": f"{tmp_path}/",
        'processingTime="1 second"': "availableNow=True",
    }.items():
        example = example.replace(name, value)
    names: dict[str, Any] = {"spark": streams, "password": "s3cret"}
    registry.send(
        "POST",
        f"/subjects/{good}-value/versions",
        {"schema": OLD},
        Authorization="Basic YW5uOnMzY3JldA==",
    )
    exec(compile(example.replace('"totals-value"', f'"{good}-value"'), "spark.md", "exec"), names)
    for query in (names["valid"], names["invalid"]):
        assert query.awaitTermination(120)
    assert len(consume(cluster.bootstrap, good, 1, "read_committed")) == 2
    (letter,) = consume(cluster.bootstrap, dead, 1, "read_committed")
    assert b"{}" in letter
