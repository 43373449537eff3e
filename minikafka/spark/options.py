"""The read options of the data source, parsed from the strings that a user passes to Spark.

Names, defaults and errors are those of Spark's Kafka connector (``KafkaSourceProvider``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.client_options import ClientOptions, client_options
from minikafka.spark.option_names import check_option_names
from minikafka.spark.option_parsing import OptionError, Options
from minikafka.spark.read.offsets import (
    EARLIEST,
    LARGEST,
    LATEST,
    Offsets,
    parse_offsets,
    parse_partitions,
)

STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_REFUSED: Final = {
    "auto.offset.reset": "set startingOffsets to earliest or latest instead: Spark, not the "
    "consumer, keeps track of what was read, and a restart goes on from the checkpoint",
    "key.deserializer": "keys are bytes: use DataFrame operations on them",
    "value.deserializer": "values are bytes: use DataFrame operations on them",
    "enable.auto.commit": "Spark keeps the offsets",
    "interceptor.classes": "interceptors could change the records",
}
_TIME = re.compile(r"(-?\d+)\s*(us|ms|s|m|min|h|d)?")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Edge(Enum):
    """The first or the next offset of every partition: ``earliest`` or ``latest``."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition. -2 stands for the partition's earliest offset, -1 for its
    latest."""

    offsets: Offsets


@dataclass(frozen=True)
class AtTimestamps:
    """A timestamp (ms) for each partition. It stands for the offset of the partition's first record
    with this timestamp or a later one."""

    timestamps_ms: Offsets


@dataclass(frozen=True)
class AtTimestamp:
    """One timestamp (ms) for all partitions, with the meaning that it has in ``AtTimestamps``."""

    timestamp_ms: int


Limit: TypeAlias = Edge | AtOffsets | AtTimestamps | AtTimestamp


@dataclass(frozen=True)
class TopicSelection:
    """The topics or partitions to read. Exactly one of the three fields is set.

    Named ``ConsumerStrategy`` in Spark's Kafka connector."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True)
class ReadOptions:
    """The read options of a batch or of a stream. A limit that the user did not set is None."""

    client: ClientOptions
    subscription: TopicSelection
    starting: Limit
    ending: Limit = Edge.LATEST
    no_match_is_latest: bool = False
    fail_on_data_loss: bool = True
    fail_on_timestamp_overflow: bool = True  # else a timestamp beyond Spark's range is null
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    include_headers: bool = False
    poll_timeout_ms: int = 120_000
    fetch_retries: int = 3
    fetch_retry_interval_ms: int = 10
    pushdown: bool = False
    group: str | None = None  # in streams: the consumer group to commit offsets to
    path: str | None = None  # read the files of this log directory instead of sending requests
    notes: tuple[str, ...] = field(default=(), compare=False)  # warnings about ignored options


def include_headers(options: Mapping[str, str]) -> bool:
    return Options.of(options).flag("includeHeaders", False)


def batch_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of ``spark.read``. Raises OptionError."""
    given = Options.of(options)
    check_option_names(given)
    starting = _limit(given, "starting", Edge.EARLIEST)
    if starting is Edge.LATEST:
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    ending = _limit(given, "ending", Edge.LATEST)
    if ending is Edge.EARLIEST:
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    for limit, wrong, what in (
        (starting, LATEST, "startingOffsets for {} can't be latest for batch queries on Kafka"),
        (ending, EARLIEST, "ending offset for {} can't be earliest for batch queries on Kafka"),
    ):
        if isinstance(limit, AtOffsets):
            for (topic, partition), offset in limit.offsets.items():
                if offset == wrong:
                    raise OptionError(what.format(f"{topic}-{partition}"))
    _check_order(starting, ending)
    ignored = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
    notes = [f"{name} option ignored in batch queries" for name in ignored if given.get(name)]
    return _general(given, starting, ending, tuple(notes))


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of ``spark.readStream``. Raises OptionError."""
    given = Options.of(options)
    check_option_names(given)
    if given.get("path") is not None:
        raise OptionError("option path is for batches: a stream needs kafka.bootstrap.servers")
    if given.get("endingOffsets") is not None:
        raise OptionError("ending offset not valid in streaming queries")
    for name in ("endingOffsetsByTimestamp", "endingTimestamp"):
        if given.get(name) is not None:
            raise OptionError("ending timestamp not valid in streaming queries")
    return _general(given, _limit(given, "starting", Edge.LATEST), Edge.LATEST, ())


def _general(given: Options, starting: Limit, ending: Limit, notes: tuple[str, ...]) -> ReadOptions:
    subscription = _subscription(given)
    for name, why in _REFUSED.items():
        if given.get(f"kafka.{name}") is not None:
            raise OptionError(f"Kafka option '{name}' is not supported: {why}")
    if given.get("path") is None and not (given.get("kafka.bootstrap.servers") or "").strip():
        raise OptionError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"
        )
    least = given.number("minOffsetsPerTrigger", 0)
    most = given.number("maxOffsetsPerTrigger", 1)
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"the value of minOffsetsPerTrigger ({least}) is higher than that of "
            f"maxOffsetsPerTrigger ({most})"
        )
    strategy = (given.get("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError("startingOffsetsByTimestampStrategy must be error or latest")
    return ReadOptions(
        client=client_options(given.values),
        subscription=subscription,
        starting=starting,
        ending=ending,
        no_match_is_latest=strategy == "latest",
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        fail_on_timestamp_overflow=given.flag("failOnTimestampOverflow", True),
        min_partitions=given.number("minPartitions", 1),
        max_records_per_partition=given.number("maxRecordsPerPartition", 1),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=duration_ms(given.get("maxTriggerDelay") or "15m"),
        include_headers=given.flag("includeHeaders", False),
        poll_timeout_ms=given.count("kafkaConsumer.pollTimeoutMs", 120_000),
        fetch_retries=given.count("fetchOffset.numRetries", 3),
        fetch_retry_interval_ms=given.count("fetchOffset.retryIntervalMs", 10),
        pushdown=given.flag("pushdown", False),
        group=_group(given),
        path=given.get("path"),
        notes=notes,
    )


def _group(given: Options) -> str | None:
    group = given.get("kafka.group.id")
    if group is not None and not group.strip():
        raise OptionError("kafka.group.id must not be empty")
    return group


def _subscription(given: Options) -> TopicSelection:
    named = [name for name in STRATEGIES if given.get(name) is not None]
    if len(named) != 1:
        raise OptionError(
            f"{'One' if not named else 'Only one'} of the following options "
            f"{'must' if not named else 'can'} be specified for Kafka source: "
            f"{', '.join(STRATEGIES)}"
        )
    value = (given.get(named[0]) or "").strip()
    match named[0]:
        case "subscribe":
            topics = tuple(dict.fromkeys(t.strip() for t in value.split(",") if t.strip()))
            if not topics:
                raise OptionError(
                    f"No topics to subscribe to as specified value for option 'subscribe' "
                    f"is '{value}'"
                )
            return TopicSelection(topics=topics)
        case "subscribePattern":
            if not value:
                raise OptionError(
                    "Pattern to subscribe is empty as specified value for option "
                    f"'subscribePattern' is '{value}'"
                )
            try:
                re.compile(value)
            except re.error as error:
                raise OptionError(
                    f"subscribePattern '{value}' is not a regular expression: {error}"
                ) from None
            return TopicSelection(pattern=value)
        case _:
            try:
                partitions = parse_partitions(value)
            except ValueError as error:
                raise OptionError(f"option assign: {error}") from None
            if not partitions:
                raise OptionError(
                    f"No topicpartitions to assign as specified value for option 'assign' "
                    f"is '{value}'"
                )
            return TopicSelection(partitions=tuple(partitions))


def _limit(given: Options, edge: str, default: Edge) -> Limit:
    """Parse the limit of an edge (``starting`` or ``ending``), or return ``default``.

    If several options set it, ``<edge>Timestamp`` takes precedence over
    ``<edge>OffsetsByTimestamp``, and that over ``<edge>Offsets``. Raises OptionError."""
    if (text := given.get(f"{edge}Timestamp")) is not None:
        # Refuse -1 and -2: in ListOffsets they are not times, but mean latest and earliest.
        if not text.strip().isdecimal() or int(text) > LARGEST:
            raise OptionError(f"{edge}Timestamp: expected milliseconds since 1970, got {text}")
        return AtTimestamp(int(text))
    name = f"{edge}OffsetsByTimestamp"
    try:
        if (text := given.get(name)) is not None:
            return AtTimestamps(parse_offsets(text.strip(), lowest=0))
        name = f"{edge}Offsets"
        if (text := given.get(name)) is None:
            return default
        if text.strip().lower() in ("earliest", "latest"):
            return Edge(text.strip().lower())
        return AtOffsets(parse_offsets(text.strip()))
    except ValueError as error:
        raise OptionError(f"option {name}: {error}") from None


def _check_order(starting: Limit, ending: Limit) -> None:
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        start, end, what = starting.offsets, ending.offsets, "offset"
    elif isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        start, end, what = starting.timestamps_ms, ending.timestamps_ms, "timestamp"
    else:
        return
    if start.keys() != end.keys():
        raise OptionError(f"starting and ending {what}s must name the same partitions")
    for (topic, partition), first in start.items():
        last = end[TopicPartition(topic, partition)]
        if first >= 0 and last >= 0 and first > last:
            raise OptionError(
                f"{topic}-{partition}: start {what} {first} is greater than end {what} {last}"
            )


def duration_ms(text: str) -> int:
    """Parse a duration in Spark's notation, such as ``15m``, ``10s`` or ``500ms``.

    A number without a unit is milliseconds. Raises OptionError."""
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        raise OptionError(
            f"maxTriggerDelay: expected a duration such as 15m or 500ms, got {text!r}"
        )
    number, unit = int(match[1]), match[2] or "ms"
    return number // 1000 if unit == "us" else number * _UNITS_MS[unit]
