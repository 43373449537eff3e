"""The names of all options of the data source, and the check for unknown ones."""

from __future__ import annotations

import difflib
from typing import Final

from minikafka.kernel.client_security import security_keys, why_unsupported
from minikafka.spark.option_parsing import OptionError, Options

_OF_SOURCES: Final = """
    subscribe subscribePattern assign path pushdown includeHeaders groupIdPrefix
    failOnDataLoss failOnTimestampOverflow
    startingOffsets startingOffsetsByTimestamp startingTimestamp startingOffsetsByTimestampStrategy
    endingOffsets endingOffsetsByTimestamp endingTimestamp
    minPartitions maxRecordsPerPartition maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay
    kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs
    """
_OF_SINKS: Final = "topic delivery sink.id sink.batch"
# Options of Spark's stream writer, which Spark also passes to the sink.
_OF_SPARK: Final = """
    checkpointLocation queryName outputMode
    asyncProgressTrackingEnabled asyncProgressTrackingCheckpointIntervalMs
    _asyncProgressTrackingOverrideSinkSupportCheck
    """
# The keys of Kafka's consumers, producers and admin clients, from 2.0 to 4.1.
_OF_CLIENTS: Final = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter
    auto.offset.reset batch.size bootstrap.controllers bootstrap.servers buffer.memory check.crcs
    client.dns.lookup client.id client.rack compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level connections.max.idle.ms default.api.timeout.ms
    delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    interceptor.classes internal.leave.group.on.close
    internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer
    key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
    metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms partition.assignment.strategy
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    security.providers send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms transaction.timeout.ms transactional.id value.deserializer
    value.serializer
    """
_KAFKA: Final = "kafka."
_NEAR: Final = 0.6

_CLIENT_NAMES: Final = tuple(f"{_KAFKA}{name}" for name in (*_OF_CLIENTS.split(), *security_keys()))
_OWN_NAMES: Final = tuple(f"{_OF_SOURCES} {_OF_SINKS}".split())
_KNOWN: Final = frozenset(
    name.lower() for name in (*_OWN_NAMES, *_CLIENT_NAMES, *_OF_SPARK.split())
)


def check_option_names(given: Options) -> None:
    """Raise OptionError for the first unknown option. Its message suggests the nearest known name.

    Sources also accept the options of sinks, and sinks those of sources, so that a user can pass
    the same dictionary to both."""
    for name in sorted(given.values):
        if name in _KNOWN:
            continue
        why = why_unsupported(name.removeprefix(_KAFKA)) if name.startswith(_KAFKA) else None
        if why is not None:
            raise OptionError(f"option {name}: {why}")
        what = "Kafka client option" if name.startswith(_KAFKA) else "option"
        near = _nearest(name)
        # Spark has put the name in lower case. Say so unless the user wrote it so, too.
        cased = "" if near and near.islower() else " (Spark passes names of options in lower case)"
        hint = f": did you mean '{near}'?" if near else ""
        raise OptionError(f"unknown {what} '{name}'{cased}{hint}")


def _nearest(name: str) -> str | None:
    """Return the known name most similar to ``name``, None if none is similar.

    The prefix ``kafka.`` is not compared: users omit it (``max.poll.records``) or add it to names
    that have none (``kafka.subscribe``)."""
    by_bare = {each.removeprefix(_KAFKA).lower(): each for each in (*_CLIENT_NAMES, *_OWN_NAMES)}
    found = difflib.get_close_matches(name.removeprefix(_KAFKA), by_bare, n=1, cutoff=_NEAR)
    return by_bare[found[0]] if found else None
