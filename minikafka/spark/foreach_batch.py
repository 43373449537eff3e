"""Writes into topics from within ``foreachBatch``, exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_once(
    frame: DataFrame, batch_id: int, sink_id: str, options: Mapping[str, str | int]
) -> None:
    """``frame`` to the topic that ``options`` name. If Spark runs the batch again, because it died
    before it had noted its end, what is in is not written again.

    ``sink_id`` names this one write of this one query, for ever: of two writes within a batch, and
    of two queries, each has its own. Raises PySparkException."""
    (
        frame.write.format("minikafka")
        .options(**options)
        .option("sink.id", sink_id)
        .option("sink.batch", str(batch_id))
        .mode("append")
        .save()
    )
