"""The options of the sink, checked against the columns of what is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from minikafka.spark.client_options import ClientOptions, client_options
from minikafka.spark.encode import BATCH_BYTES
from minikafka.spark.given import OptionError, Options
from minikafka.spark.routing import check_columns

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
_REFUSED: Final = ("key.serializer", "value.serializer")


@dataclass(frozen=True)
class WriteOptions:
    """``topic`` None: each row names its own."""

    client: ClientOptions
    topic: str | None = None
    batch_bytes: int = BATCH_BYTES


def write_options(options: Mapping[str, str], types: Mapping[str, str]) -> WriteOptions:
    """Raises OptionError, and WriteError for columns."""
    given = Options.of(options)
    if not (given.get("kafka.bootstrap.servers") or "").strip():
        raise OptionError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"
        )
    for name in _REFUSED:
        if given.get(f"kafka.{name}") is not None:
            raise OptionError(
                f"Kafka option '{name}' is not supported: keys and values are written as the bytes "
                "they are"
            )
    delivery = (given.get("delivery") or AT_LEAST_ONCE).lower()
    if delivery == EXACTLY_ONCE:
        raise OptionError(
            "delivery=exactly-once is not there yet: the sink writes no transactions. "
            "delivery=at-least-once is (an idempotent producer)"
        )
    if delivery != AT_LEAST_ONCE:
        raise OptionError(f"delivery must be {AT_LEAST_ONCE}, not {delivery!r}")
    topic = given.get("topic")
    topic = topic.strip() if topic is not None else None
    check_columns(dict(types), topic)
    batch_bytes = given.number("kafka.batch.size", 1)
    client = client_options(given.values)
    return WriteOptions(
        client=client,
        topic=topic,
        batch_bytes=min(batch_bytes or BATCH_BYTES, client.max_request_size),
    )
