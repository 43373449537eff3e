"""Confluent's registry client, serializers and deserializers against our registry."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.type import money_pb2

from minikafka.testing.inside.cluster import InsideCluster
from tests.support.clients.places import Cluster
from tests.support.registry_server import RegistryServer, registry_server

pytestmark = pytest.mark.compat

ORDER = '{"type": "record", "name": "Order", "namespace": "shop", "fields": [%s]}'
META = meta_pb2.DESCRIPTOR.extensions_by_name["field_meta"]
ID = '{"name": "id", "type": "long"}'
NOTE = '{"name": "note", "type": ["null", "string"], "default": null}'
AMOUNT = '{"name": "amount", "type": "double"}'


@pytest.fixture(scope="module")
def registry(inside: Cluster) -> Iterator[RegistryServer]:
    with registry_server(inside.bootstrap) as running:
        yield running


@pytest.fixture
def client(registry: RegistryServer) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url, "max.retries": 0})


@pytest.fixture
def subject() -> str:
    return f"s-{uuid.uuid4().hex[:8]}-value"


def avro(*fields: str) -> Schema:
    return Schema(ORDER % ", ".join(fields), "AVRO")


def context(subject: str) -> SerializationContext:
    return SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)


def code_of(call: Any, *args: Any, **named: Any) -> int:
    with pytest.raises(SchemaRegistryError) as failed:
        call(*args, **named)
    return int(failed.value.error_code)


@pytest.mark.mission("REG-1")
def test_avro_evolves_between_confluents_serializers(
    client: SchemaRegistryClient, subject: str
) -> None:
    old = AvroSerializer(client, ORDER % ID)
    new = AvroSerializer(client, ORDER % f"{ID}, {NOTE}")
    first = old({"id": 7}, context(subject))
    second = new({"id": 8, "note": "late"}, context(subject))
    assert first is not None
    assert second is not None
    assert first[:1] == second[:1] == b"\0"
    reader = AvroDeserializer(client, ORDER % f"{ID}, {NOTE}")
    assert reader(first, context(subject)) == {"id": 7, "note": None}
    assert reader(second, context(subject)) == {"id": 8, "note": "late"}
    assert client.get_versions(subject) == [1, 2]


@pytest.mark.mission("REG-1")
def test_json_documents_pass_confluents_serializers(
    client: SchemaRegistryClient, subject: str
) -> None:
    text = json.dumps(
        {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    )
    raw = JSONSerializer(text, client)({"id": 7}, context(subject))
    assert JSONDeserializer(None, schema_registry_client=client)(raw, context(subject)) == {"id": 7}
    assert client.get_latest_version(subject).schema.schema_type == "JSON"


def message_type() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    inner = message.nested_type.add(name="Line")
    inner.field.add(name="text", number=1, type=field.TYPE_STRING, label=field.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order.Line"))


@pytest.mark.mission("REG-1")
def test_protobuf_messages_pass_confluents_serializers(
    client: SchemaRegistryClient, subject: str
) -> None:
    line = message_type()
    config = {"use.deprecated.format": False}
    raw = ProtobufSerializer(line, client, config)(line(text=["a", "b"]), context(subject))
    assert raw is not None
    assert raw[5:8] == bytes([4, 0, 0])  # two indexes: the first message, its first message
    read = ProtobufDeserializer(line, config, client)(raw, context(subject))
    assert list(read.text) == ["a", "b"]
    stored = client.get_latest_version(subject).schema
    assert stored.schema_type == "PROTOBUF"
    assert "  message Line {\n    repeated string text = 1;\n  }\n" in str(stored.schema_str)


def order_with_known_types(*more: str) -> Any:
    """Return a message class with fields of types for which Confluent's client registers nothing,
    and with those given."""
    file = descriptor_pb2.FileDescriptorProto(name="k.proto", package="shop", syntax="proto3")
    pool = descriptor_pool.DescriptorPool()
    for module in (descriptor_pb2, meta_pb2, decimal_pb2, money_pb2):
        known = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(known)
        pool.Add(known)
        file.dependency.append(known.name)
    field = descriptor_pb2.FieldDescriptorProto
    message = file.message_type.add(name="Order")
    for number, name in enumerate(("google.type.Money", "confluent.type.Decimal", *more), 1):
        each = message.field.add(name=f"f{number}", number=number, label=field.LABEL_OPTIONAL)
        each.type, each.type_name = field.TYPE_MESSAGE, f".{name}"
        each.options.Extensions[META].tags.append("PII")
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


@pytest.mark.mission("REG-1", "REG-5")
def test_known_types_need_no_reference(client: SchemaRegistryClient, subject: str) -> None:
    order, config = order_with_known_types(), {"use.deprecated.format": False}
    value = order(f1={"currency_code": "EUR", "units": 3}, f2={"value": b"\1\0", "scale": 2})
    raw = ProtobufSerializer(order, client, config)(value, context(subject))
    read = ProtobufDeserializer(order, config, client)(raw, context(subject))
    assert read == value
    stored = client.get_latest_version(subject).schema
    assert not stored.references
    assert '  google.type.Money f1 = 1 [(confluent.field_meta) = { tags: "PII" }];' in str(
        stored.schema_str
    )
    assert client.lookup_schema(subject, stored).version == 1
    assert client.test_compatibility(subject, stored)
    more = order_with_known_types("confluent.type.Decimal")
    ProtobufSerializer(more, client, config)(more(), context(subject))
    assert client.get_versions(subject) == [1, 2]
    other = Schema(str(stored.schema_str).replace("google.type.Money", "bytes"), "PROTOBUF")
    assert not client.test_compatibility(subject, other)


@pytest.mark.mission("REG-11")
def test_avro_schemas_that_break_the_specification_are_refused(
    client: SchemaRegistryClient, subject: str
) -> None:
    for fields in (
        '{"name": "a-b", "type": "int"}',
        f"{ID}, {ID}",
        '{"name": "a", "type": ["int", "int"]}',
    ):
        assert code_of(client.register_schema, subject, avro(fields)) == 42201
    client.register_schema(subject, avro(ID))
    moved = Schema(str(avro(ID).schema_str).replace("shop", "store"), "AVRO")
    assert client.test_compatibility(subject, moved)
    client.register_schema(subject, moved)
    assert client.get_versions(subject) == [1, 2]


@pytest.mark.mission("REG-3")
def test_an_incompatible_schema_is_refused(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, avro(ID))
    assert code_of(client.register_schema, subject, avro(ID, AMOUNT)) == 409
    assert not client.test_compatibility(subject, avro(ID, AMOUNT))
    assert client.test_compatibility(subject, avro(ID, NOTE))
    client.set_compatibility(subject, "FORWARD")
    assert client.get_compatibility(subject) == "FORWARD"
    assert client.register_schema(subject, avro(ID, AMOUNT)) > 0


@pytest.mark.mission("REG-2")
def test_a_schema_has_one_id_in_all_subjects(
    registry: RegistryServer, client: SchemaRegistryClient, subject: str
) -> None:
    number = client.register_schema(subject, avro(ID))
    spaced = Schema(json.dumps(json.loads(ORDER % ID), indent=3), "AVRO")
    other = SchemaRegistryClient({"url": registry.url})
    assert other.register_schema(f"{subject}-2", spaced) == number
    found = other.lookup_schema(subject, spaced)
    assert (found.version, found.schema_id) == (1, number)
    assert {subject, f"{subject}-2"} <= set(client.get_subjects())
    assert code_of(client.lookup_schema, subject, avro(ID, NOTE)) == 40403
    assert code_of(client.get_versions, f"{subject}-3") == 40401
    assert code_of(client.get_version, subject, 9) == 40402
    assert code_of(client.get_schema, 99_999) == 40403
    assert code_of(client.register_schema, subject, Schema("{", "AVRO")) == 42201


@pytest.mark.mission("REG-4")
def test_subjects_are_deleted_softly_and_then_for_good(
    client: SchemaRegistryClient, subject: str
) -> None:
    number = client.register_schema(subject, avro(ID))
    client.register_schema(subject, avro(ID, NOTE))
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    assert client.get_versions(subject, deleted=True) == [1, 2]
    assert client.get_schema(number).schema_str  # what was written can still be read
    assert client.delete_subject(subject) == [2]
    assert subject not in client.get_subjects()
    assert subject in client.get_subjects(deleted=True)
    assert code_of(client.delete_subject, subject) == 40404
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    assert code_of(client.get_versions, subject, deleted=True) == 40401


@pytest.mark.mission("REG-5")
def test_references_are_resolved_and_protected(client: SchemaRegistryClient, subject: str) -> None:
    inner = Schema('{"type": "enum", "name": "shop.Kind", "symbols": ["A", "B"]}', "AVRO")
    client.register_schema(f"{subject}-kind", inner)
    reference = SchemaReference("shop.Kind", f"{subject}-kind", 1)
    outer = Schema(ORDER % '{"name": "kind", "type": "shop.Kind"}', "AVRO", [reference])
    number = client.register_schema(subject, outer)
    assert client.get_referenced_by(f"{subject}-kind", 1) == [number]
    found = client.get_schema(number).references or []
    assert [(each.name, each.subject, each.version) for each in found] == [
        ("shop.Kind", f"{subject}-kind", 1)
    ]
    assert code_of(client.delete_subject, f"{subject}-kind") == 42206


@pytest.mark.mission("REG-6")
def test_a_subject_in_readonly_mode_takes_no_schema(
    client: SchemaRegistryClient, subject: str
) -> None:
    client.update_mode(subject, "READONLY")
    assert client.get_mode(subject) == "READONLY"
    assert code_of(client.register_schema, subject, avro(ID)) == 42205
    client.delete_mode(subject)
    assert client.register_schema(subject, avro(ID)) > 0


@pytest.mark.mission("REG-7", "REG-8")
def test_a_later_process_takes_over_and_the_earlier_one_follows(
    inside: Cluster, subject: str
) -> None:
    topic = f"schemas-{subject}"
    with registry_server(inside.bootstrap, topic=topic) as first:
        _, body = first.send("POST", f"/subjects/{subject}/versions", {"schema": ORDER % ID})
        with (
            registry_server(inside.bootstrap, topic=topic) as second,
            registry_server(inside.bootstrap, topic=topic, read_only=True) as third,
        ):
            path = f"/schemas/ids/{body['id']}"
            assert second.send("GET", path) == third.send("GET", path) == first.send("GET", path)
            added = {"schema": ORDER % f"{ID}, {NOTE}"}
            for reader in (first, third):
                status, refused = reader.send("POST", f"/subjects/{subject}/versions", added)
                assert (status, refused["error_code"]) == (500, 50004)
            status, body = second.send("POST", f"/subjects/{subject}/versions", added)
            assert (status, body) == (200, {"id": body["id"]})
            found: tuple[int, Any] = (404, None)
            while found[0] != 200:  # the others follow the topic
                found = first.send("GET", f"/subjects/{subject}/versions/2")
            assert found[1]["id"] == body["id"]


@pytest.mark.mission("REG-7")
def test_a_restarted_registry_reads_the_topic(subject: str) -> None:
    with InsideCluster(1) as cluster:
        with registry_server(cluster.bootstrap) as before:
            before.send("POST", f"/subjects/{subject}/versions", {"schema": ORDER % ID})
            before.send("PUT", f"/config/{subject}", {"compatibility": "FULL"})
            before.send("PUT", "/mode", {"mode": "READONLY"})
        with registry_server(cluster.bootstrap) as after:
            assert after.send("GET", f"/subjects/{subject}/versions/latest")[1]["id"] == 1
            assert after.send("GET", f"/config/{subject}")[1] == {"compatibilityLevel": "FULL"}
            assert after.send("GET", "/mode")[1] == {"mode": "READONLY"}


@pytest.mark.mission("REG-9")
def test_a_registry_with_users_needs_a_login(inside: Cluster, subject: str) -> None:
    with registry_server(
        inside.bootstrap, topic=f"u-{subject}", users={"ann": "s3:cret"}
    ) as closed:
        assert closed.send("GET", "/subjects")[0] == 401
        with_login = {"url": closed.url, "basic.auth.user.info": "ann:s3:cret"}
        assert SchemaRegistryClient(with_login).get_subjects() == []
        wrong = {"url": closed.url, "basic.auth.user.info": "ann:cret", "max.retries": 0}
        assert code_of(SchemaRegistryClient(wrong).get_subjects) == 40101
        assert closed.send("GET", "/subjects", Origin="http://evil.example")[0] == 403
