"""The options of the sink, checked against the columns of the DataFrame."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from minikafka.client.columnar.encode import BATCH_BYTES
from minikafka.spark.client_options import ClientOptions, client_options
from minikafka.spark.option_names import check_option_names
from minikafka.spark.option_parsing import OptionError, Options
from minikafka.spark.write.routing import check_columns

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
_BYTES: Final = "keys and values are written as the bytes they are"
_OURS: Final = "keys go where Java's own producer sends them; name others in the column partition"
_REFUSED: Final = {
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "partitioner.class": _OURS,
    "partitioner.ignore.keys": _OURS,
}


@dataclass(frozen=True)
class WriteOptions:
    """The parsed options of a sink.

    ``topic`` is None if the rows have a column ``topic``. ``sink_id`` is the name under which a
    batch job writes exactly once, None if it does not; ``sink_batch`` numbers the batches under
    this name. ``plan`` is the ``fingerprint``."""

    client: ClientOptions
    topic: str | None = None
    batch_bytes: int = BATCH_BYTES
    exactly_once: bool = False
    sink_id: str | None = None
    sink_batch: int = 0
    transaction_timeout_ms: int = 60_000
    plan: str = ""


def write_options(
    options: Mapping[str, str], types: Mapping[str, str], streaming: bool = False
) -> WriteOptions:
    """Parse the options of a sink, for columns of these types. Raises OptionError, WriteError."""
    given = Options.of(options)
    check_option_names(given)
    if not (given.get("kafka.bootstrap.servers") or "").strip():
        raise OptionError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"
        )
    for name, why in _REFUSED.items():
        if given.get(f"kafka.{name}") is not None:
            raise OptionError(f"Kafka option '{name}' is not supported: {why}")
    sink_id = given.get("sink.id")
    exactly_once = _exactly_once(given, streaming, sink_id)
    topic = given.get("topic")
    topic = topic.strip() if topic is not None else None
    check_columns(dict(types), topic)
    batch_bytes = given.number("kafka.batch.size", 1)
    client = client_options(given.values)
    if exactly_once and client.acks != -1:
        raise OptionError("delivery=exactly-once needs kafka.acks=all")
    return WriteOptions(
        client=client,
        topic=topic,
        batch_bytes=min(batch_bytes or BATCH_BYTES, client.max_request_size),
        exactly_once=exactly_once,
        sink_id=sink_id,
        sink_batch=_sink_batch(given, sink_id),
        transaction_timeout_ms=given.number("kafka.transaction.timeout.ms", 1) or 60_000,
        plan=fingerprint(topic, types),
    )


def _exactly_once(given: Options, streaming: bool, sink_id: str | None) -> bool:
    """Return whether to deliver exactly once, as the option ``delivery`` says.

    By default streams do, and batches with a ``sink.id``, by which a second run recognizes what the
    first has written. Raises OptionError."""
    delivery = given.get("delivery")
    if delivery is not None and delivery.lower() not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise OptionError(f"delivery must be {EXACTLY_ONCE} or {AT_LEAST_ONCE}, not {delivery!r}")
    if streaming and sink_id is not None:
        raise OptionError("sink.id is for batches: a stream is identified by its checkpoint")
    if delivery is None:
        return streaming or sink_id is not None
    if delivery.lower() == EXACTLY_ONCE and not streaming and sink_id is None:
        raise OptionError(
            "delivery=exactly-once needs the option sink.id in a batch: a name of the job, by "
            "which a second run recognizes what the first has written"
        )
    return delivery.lower() == EXACTLY_ONCE


def _sink_batch(given: Options, sink_id: str | None) -> int:
    number = given.number("sink.batch", 0)
    if number is not None and sink_id is None:
        raise OptionError("sink.batch numbers the batches of a sink.id, which is missing")
    return number or 0


def fingerprint(topic: str | None, types: Mapping[str, str]) -> str:
    """Return a hash of the topic and the columns, which must not change between runs of a batch."""
    text = json.dumps({"topic": topic, "columns": dict(types)})
    return hashlib.sha256(text.encode()).hexdigest()[:16]
