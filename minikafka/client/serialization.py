"""The application's serializers and deserializers, as plain functions (``key.serializer`` ...)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.core.client.producer.producer_batch import as_bytes
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError


class Serializer(Protocol):
    """Kafka's interface, for a serializer that has to know the topic. ``data`` may be None."""

    def serialize(self, topic: str, data: Any, /) -> bytes | None: ...


class Deserializer(Protocol):
    """Kafka's interface, for a deserializer that has to know the topic."""

    def deserialize(self, topic: str, data: bytes, /) -> Any: ...


# A function of the data alone does as well: ``str.encode``, ``json.loads``.
AnySerializer: TypeAlias = Serializer | Callable[[Any], bytes | None]
AnyDeserializer: TypeAlias = Deserializer | Callable[[bytes], Any]

Serialize: TypeAlias = Callable[[str, Any], bytes | None]
Deserialize: TypeAlias = Callable[[str, bytes], Any]


class RecordDeserializationError(KafkaError):
    """A deserializer failed; the cause is its exception. Kafka: RecordDeserializationException.

    The position stays at the record: ``seek`` to ``offset + 1`` passes it. ``record`` holds the key
    and value as bytes, ``origin`` says which of the two ("key" or "value") failed.
    """

    def __init__(self, record: ConsumerRecord, origin: str, cause: Exception) -> None:
        self.topic_partition = TopicPartition(record.topic, record.partition)
        self.offset = record.offset
        self.record = record
        self.origin = origin
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"{self.topic_partition} at offset {record.offset}: {origin}.deserializer failed "
            f"({type(cause).__name__}: {cause}); seek past the record to continue",
        )


def check_serialization(key: str, given: object, method: str) -> None:
    """Raise ValueError unless ``given`` is None, a function, or has Kafka's ``method``.

    An instance is required for the latter: a class is rejected if it has the method, or as a
    serializer. A class without the method, such as ``int``, may deserialize bytes.
    """
    has_method = callable(getattr(given, method, None))
    if isinstance(given, type):
        valid = method == "deserialize" and not has_method
    else:
        valid = given is None or callable(given) or has_method
    if not valid:
        raise ValueError(f"{key} must be a function or have a method {method}, not {given!r}")


def resolve_serializer(given: AnySerializer | None) -> Serialize | None:
    """Return a serializer as one function of topic and data; None for None.

    Objects with Kafka's interface are called for None too, as in ``KafkaProducer``. Functions of
    the data alone, such as ``str.encode``, are not: a null key stays null, and a tombstone stays
    one.
    """
    if given is None:
        return None
    method: Serialize | None = getattr(given, "serialize", None)
    if method is not None:
        return method
    return lambda topic, data: None if data is None else given(data)  # type: ignore[operator]


def _resolve_deserializer(given: AnyDeserializer | None) -> Deserialize | None:
    if given is None:
        return None
    method: Deserialize | None = getattr(given, "deserialize", None)
    if method is not None:
        return method
    return lambda topic, data: given(data)  # type: ignore[operator]


def serialize(function: Serialize, key: str, topic: str, data: object) -> bytes | None:
    """Serialize a key or a value. Raises what the serializer raises, and TypeError when it returns
    neither bytes nor None. ``key`` is the name of the configuration key, for the message.
    """
    try:
        return as_bytes(function(topic, data))
    except Exception as error:
        error.add_note(f"raised by {key} for a record of topic {topic}")
        raise


def record_deserializer(
    key: AnyDeserializer | None, value: AnyDeserializer | None
) -> Callable[[ConsumerRecord], ConsumerRecord] | None:
    """Return a function that deserializes a record's key and value; None when neither is wanted.
    Nulls stay None, as with Kafka. The function raises RecordDeserializationError."""
    of_key, of_value = _resolve_deserializer(key), _resolve_deserializer(value)
    if of_key is None and of_value is None:
        return None

    def convert(record: ConsumerRecord) -> ConsumerRecord:
        new_key, new_value = record.key, record.value
        if of_key is not None and new_key is not None:
            new_key = _deserialize(of_key, "key", record, new_key)
        if of_value is not None and new_value is not None:
            new_value = _deserialize(of_value, "value", record, new_value)
        return record._replace(key=new_key, value=new_value)

    return convert


def _deserialize(function: Deserialize, origin: str, record: ConsumerRecord, data: bytes) -> Any:
    try:
        return function(record.topic, data)
    except Exception as error:
        raise RecordDeserializationError(record, origin, error) from error
