"""Accessors of confluent-kafka's messages with types that exclude None."""

from __future__ import annotations

from confluent_kafka import Message


def value_of(message: Message) -> bytes:
    value = message.value()
    assert value is not None
    return value


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def partition_of(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition
