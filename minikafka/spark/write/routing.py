"""Chooses the topics and partitions of a DataFrame's rows, by columns and options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from minikafka.client.columnar.partitioning import partitions_of_keys, rows_by_partition
from minikafka.client.columnar.varints import Ints
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import pyarrow as pa

_CONTENT = ("key", "value", "headers")


class WriteError(ValueError):
    """A column cannot be written, or rows have no topic."""


def check_columns(types: dict[str, str], topic: str | None) -> None:
    """Raise WriteError unless the columns can be written.

    ``types`` has the type of each column in Spark's notation. Columns with other names than those
    of the Kafka connector are ignored, as there."""
    if "value" not in types:
        raise WriteError("Required attribute 'value' not found")
    if topic is None and "topic" not in types:
        raise WriteError(
            "topic option required when no 'topic' attribute is present. "
            "Use the topic option for setting a topic."
        )
    text_or_bytes = ("string", "binary")
    headers = ("array<struct<key:string,value:binary>>",)
    allowed = {"key": text_or_bytes, "value": text_or_bytes, "topic": ("string",),
               "partition": ("int",), "headers": headers}  # fmt: skip
    for name, supported in allowed.items():
        if name in types and types[name] not in supported:
            raise WriteError(
                f"{name} attribute unsupported type {types[name]}. "
                f"{name} must be a(n) {' or '.join(supported)}"
            )


class Router:
    """Assigns rows to partitions: by the column ``partition``, else by the hash of the key.

    All rows of a chunk with neither go to one random partition. ``count_of`` returns the number of
    partitions of a topic, ``draw`` a random number."""

    def __init__(
        self, topic: str | None, count_of: Callable[[str], int], draw: Callable[[], int]
    ) -> None:
        self._topic = topic
        self._count_of = count_of
        self._draw = draw

    def route(
        self, columns: dict[str, pa.Array]
    ) -> Iterator[tuple[TopicPartition, dict[str, pa.Array]]]:
        """Group the rows by partition, in order, and yield the columns of each group.

        Yields only the columns key, value and headers. Raises WriteError if a row has no topic,
        KafkaError UNKNOWN_TOPIC_OR_PARTITION if its partition does not exist."""
        import pyarrow as pa

        content = {name: columns[name] for name in _CONTENT if name in columns}
        for topic, rows in self._topics(columns):
            where = self._partitions(topic, columns, rows)
            for partition, chosen in rows_by_partition(where):
                picked = pa.array(chosen if rows is None else rows[chosen])
                taken = {name: column.take(picked) for name, column in content.items()}
                yield TopicPartition(topic, partition), taken

    def _topics(self, columns: dict[str, pa.Array]) -> Iterator[tuple[str, Ints | None]]:
        if self._topic is not None:
            yield self._topic, None
            return
        named = columns["topic"]
        if named.null_count:
            raise WriteError(
                "null topic present in the data. Use the topic option for setting a topic."
            )
        encoded = named.dictionary_encode()
        codes = encoded.indices.to_numpy()
        topics = encoded.dictionary.to_pylist()
        for code, topic in enumerate(topics):
            yield topic, None if len(topics) == 1 else np.flatnonzero(codes == code)

    def _partitions(self, topic: str, columns: dict[str, pa.Array], rows: Ints | None) -> Ints:
        import pyarrow as pa

        def of(name: str) -> Any:
            column = columns.get(name)
            return column if column is None or rows is None else column.take(pa.array(rows))

        count = self._count_of(topic)
        number = len(columns["value"]) if rows is None else len(rows)
        where = np.full(number, self._draw() % count, np.int64)
        key = of("key")
        if key is not None and key.null_count < number:
            keyed = np.asarray(key.is_valid())
            where[keyed] = partitions_of_keys(key, count)[keyed]
        given = of("partition")
        if given is not None and given.null_count < number:
            named = np.asarray(given.is_valid())
            where[named] = given.fill_null(0).to_numpy()[named]
            if (where < 0).any() or (where >= count).any():
                wrong = where[(where < 0) | (where >= count)][0]
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"partition {wrong} of topic {topic} does not exist: the topic has {count}",
                )
        return where
