"""Exactly-once writes to topics from within a query's ``foreachBatch`` function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_once(
    frame: DataFrame, batch_id: int, sink_id: str, options: Mapping[str, str | int]
) -> None:
    """Write a DataFrame to the topic named in ``options``, once for each ``batch_id``.

    Spark calls the function of ``foreachBatch`` again with the same ``batch_id`` if it failed
    before the batch was noted in the checkpoint. Rows that were committed then are skipped.

    ``sink_id`` identifies this call of this query. It must never change, and must differ between
    two calls in one function and between queries. Raises PySparkException."""
    (
        frame.write.format("minikafka")
        .options(**options)
        .option("sink.id", sink_id)
        .option("sink.batch", str(batch_id))
        .mode("append")
        .save()
    )
