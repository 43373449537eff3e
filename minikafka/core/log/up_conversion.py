"""Up-conversion: turns the message set that an old producer sends into one record batch.

Kafka: ``LogValidator`` with records of magic 0 and 1.
"""

from __future__ import annotations

from minikafka.core.log.config import LogConfig
from minikafka.core.log.record_validation import (
    MAX_TIMESTAMP,
    RecordProblem,
    record_problem,
    refuse,
    too_large,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    NO_TIMESTAMP,
    CorruptRecordError,
    RecordBatch,
    parse_batch,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import LegacyMessage, inner_messages, iterate_messages


def batch_of_message_set(records: Buffer, config: LogConfig, now_ms: int) -> RecordBatch:
    """Convert the messages in ``records`` to one batch, without a producer id.

    The batch has the topic's ``compression.type``, or the codec of the messages if that is
    ``producer``. An incomplete message at the end is left out.

    Raises KafkaError: CORRUPT_MESSAGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE;
    MESSAGE_TOO_LARGE for a message or for the batch; INVALID_RECORD, for example if there are no
    messages, messages of both formats, or others beside a compressed one.
    """
    messages = list(iterate_messages(records))
    if not messages:
        raise KafkaError(ErrorCode.INVALID_RECORD, "an append must have at least one message")
    for message in messages:
        if message.size_bytes > config.max_message_bytes:
            raise too_large(message.size_bytes, config)
        _check_crc(message)
    first = messages[0]
    source = max(messages, key=_codec).compression
    if source is not Compression.NONE:
        if len(messages) > 1:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "a compressed message must be the only one in its set"
            )
        messages = inner_messages(first)
        for message in messages:
            _check_crc(message)
    refuse(
        _problem(index, message, first, config, now_ms) for index, message in enumerate(messages)
    )
    target = config.target_compression(source)
    data = build_batch(
        [(message.timestamp, message.key, message.value, ()) for message in messages],
        compression=target,
        compression_level=config.compression_level(target),
    )
    if len(data) > config.max_message_bytes:
        raise too_large(len(data), config)
    return parse_batch(data, 0)


def _codec(message: LegacyMessage) -> int:
    return message.attributes & COMPRESSION_MASK


def _check_crc(message: LegacyMessage) -> None:
    if not message.crc_is_valid:
        raise CorruptRecordError(f"a message of {message.size_bytes} bytes has a wrong CRC")


def _problem(
    index: int, message: LegacyMessage, first: LegacyMessage, config: LogConfig, now_ms: int
) -> RecordProblem | None:
    """Return why a message is refused, None if it is accepted. ``first`` is the first message of
    the set: for compressed messages, the one that contains them."""
    if message.magic != first.magic:
        why = f"a message of magic {message.magic} among those of magic {first.magic}"
        return index, ErrorCode.INVALID_RECORD, why
    if first.timestamp_type_log_append or message.timestamp_type_log_append:
        why = "a producer may not set the timestamp type LogAppendTime"
        return index, ErrorCode.INVALID_TIMESTAMP, why
    if not NO_TIMESTAMP <= message.timestamp < MAX_TIMESTAMP:
        why = f"{message.timestamp} is not a valid timestamp"
        return index, ErrorCode.INVALID_TIMESTAMP, why
    return record_problem(index, message.key, message.timestamp, config, now_ms)
