"""A topic into tables by functions of docs/how-to/spark-lakes.md. It may kill itself in between.

Writes what is in the tables at the end to standard output, as JSON: rows and different rows."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minikafka.spark.session import local_session

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}
ICEBERG_COLUMNS = "key binary, value binary"


def functions_of_the_page(lake: Path) -> dict[str, Any]:
    """The examples in Python, with the folder of this test."""
    page = (ROOT / "docs" / "how-to" / "spark-lakes.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    code = code.replace("/lake/", f"{lake}/").replace(
        'processingTime="10 seconds"', "availableNow=True"
    )
    names: dict[str, Any] = {}
    exec(compile(code, "spark-lakes.md", "exec"), names)
    return names


def settings_for(jars: list[str], kinds: list[str], page: dict[str, str]) -> dict[str, str]:
    """The settings of the page that concern the formats whose jars there are."""
    settings = dict(SMALL)
    if jars:
        extensions = page["spark.sql.extensions"].split(",")
        known = {"delta": extensions[0], "iceberg": extensions[1]}
        settings["spark.jars"] = ",".join(jars)
        settings["spark.sql.extensions"] = ",".join(known[kind] for kind in kinds)
    prefixes = {"delta": "spark.sql.catalog.spark_catalog", "iceberg": "spark.sql.catalog.lake"}
    for kind in kinds:
        settings |= {key: text for key, text in page.items() if key.startswith(prefixes[kind])}
    return settings


def start_all(
    spark: Any, orders: Any, names: dict[str, Any], kinds: list[str], lake: Path, killed: bool
) -> list[Any]:
    """Start a sink of each kind, and a query whose function writes to all tables."""
    writes: list[Callable[[Any, int], None]] = [names["to_parquet"]]
    writes += [names[f"to_{kind}"] for kind in kinds]

    def to_all(batch: Any, batch_id: int) -> None:
        for write in writes:
            write(batch, batch_id)
        batch.write.mode("append").parquet(f"{lake}/appended")
        if killed:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    if "iceberg" in kinds:
        for table in ("orders", "orders_sink"):
            spark.sql(
                f"CREATE TABLE IF NOT EXISTS lake.shop.{table} ({ICEBERG_COLUMNS}) USING iceberg"
            )
    sinks = [names[f"start_{kind}"](orders) for kind in kinds]
    file_sink = orders.writeStream.format("parquet").option("path", f"{lake}/orders-parquet-sink")
    writers = [
        (file_sink, "parquet-sink"),
        (orders.writeStream.foreachBatch(to_all), "each-batch"),
    ]
    for writer, name in writers:
        located = writer.option("checkpointLocation", f"{lake}/checkpoints/{name}")
        sinks.append(located.trigger(availableNow=True).start())
    return sinks


def main() -> None:
    bootstrap, topic, folder, jar_folder, killed = sys.argv[1:]
    lake = Path(folder)
    jars = sorted(map(str, Path(jar_folder).glob("*.jar"))) if jar_folder else []
    kinds = [
        kind
        for kind, prefix in (("delta", "delta-spark"), ("iceberg", "iceberg-spark"))
        if any(Path(jar).name.startswith(prefix) for jar in jars)
    ]
    names = functions_of_the_page(lake)
    spark = local_session("lake", "local[2]", settings_for(jars, kinds, names["settings"]))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    stream = spark.readStream.format("minikafka").options(**options, startingOffsets="earliest")
    orders = stream.load().select("key", "value")
    for query in start_all(spark, orders, names, kinds, lake, killed == "killed"):
        query.awaitTermination()
    tables = {
        name: spark.read.parquet(f"{lake}/{name}")
        for name in ("appended", "orders-parquet", "orders-parquet-sink")
    }
    if "delta" in kinds:
        for name in ("orders-delta", "orders-delta-sink"):
            tables[name] = spark.read.format("delta").load(f"{lake}/{name}")
    if "iceberg" in kinds:
        tables |= {name: spark.table(f"lake.shop.{name}") for name in ("orders", "orders_sink")}
    counts = {
        name: (rows.count(), rows.select("key").distinct().count()) for name, rows in tables.items()
    }
    sys.stdout.write(json.dumps(counts) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
