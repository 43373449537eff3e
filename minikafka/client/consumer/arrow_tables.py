"""The Arrow tables of ``Consumer.poll_arrow``; imported with its first call."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TypeAlias

import pyarrow as pa

from minikafka.client.columnar.decode import Slice, batches_to_arrow, record_schema
from minikafka.core.client.consumer.fetched import BatchRun

Decoded: TypeAlias = "list[pa.RecordBatch]"

_SCHEMA = record_schema()


def decode_run(run: BatchRun) -> Decoded:
    """Decode the records of a run; the list is empty if compaction has removed all of them.
    Raises CorruptRecordError."""
    topic, partition = run.topic_partition
    return list(batches_to_arrow(run.batches, Slice(topic, partition, run.start, run.end), _SCHEMA))


def table_of(runs: Iterable[Decoded]) -> pa.Table:
    return pa.Table.from_batches(chain.from_iterable(runs), _SCHEMA)
