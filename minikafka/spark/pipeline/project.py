"""The template of a new pipeline project, which works as it is and is meant to be changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.spec import NEEDS_ESCAPES, needs_no_escapes

BOOTSTRAP_KEY: Final = "minikafka.bootstrap.servers"  # a key in the configuration of a spec

_SPEC: Final = """\
# The spec of the pipeline, for spark-pipelines and minikafka pipeline.
# The definitions of its tables and flows are in transformations/.
name: {name}
storage: {storage}
configuration:
  minikafka.bootstrap.servers: 127.0.0.1:9092
  spark.sql.session.timeZone: UTC
  spark.sql.shuffle.partitions: "2" # a flow keeps the number of its first run
libraries:
  - glob:
      include: transformations/**
"""

_ENGINE: Final = """\
# The settings that the pipeline is run with. Keys spark.* are passed on to Spark.
master=local[*]
# with --continuous: the time between the starts of two batches of a flow
trigger.interval.ms=1000
# with --continuous: the time between two refreshes of the materialized views
refresh.interval.ms=60000
# the folder of the catalog, the tables and the logs, relative to this project's spec
state.dir=state
log.level=WARN
# Runs of few records take a sixth less CPU time with this option; those of many take longer.
#spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1
"""

_PYTHON: Final = '''\
"""Read orders as JSON, count the valid ones by the minute into a table and a topic, and send the
invalid ones to a topic for dead letters."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
BROKERS = spark.conf.get("minikafka.bootstrap.servers")
SCHEMA = "product string, amount double, at timestamp"


def topic(name: str) -> dict[str, str]:
    """Return the options of a sink that writes the topic."""
    return {"kafka.bootstrap.servers": BROKERS, "topic": name}


@dp.temporary_view
def orders_read() -> DataFrame:
    """Parse every record. The column `reason` says why an order is invalid; else it is null."""
    records = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = F.from_json(
        F.col("value").cast("string"),
        f"{SCHEMA}, _corrupt string",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"},
    )
    reason = (
        F.when(F.col("value").isNull(), "no value")
        .when(F.col("_corrupt").isNotNull(), f"not JSON of {SCHEMA}")
        .when(F.col("product").isNull(), "no product")
        .when(F.col("at").isNull(), "no time")
    )
    parsed = records.withColumn("order", order).select("*", "order.*")
    return parsed.withColumn("reason", reason).withWatermark("at", "1 minute")


@dp.table(comment="A minute is added when an order arrives that is a minute later than its end.")
def orders_by_minute() -> DataFrame:
    """Count the valid orders of each minute and product, and add up their amounts."""
    return (
        spark.readStream.table("orders_read")
        .where("reason IS NULL")
        .groupBy(F.window("at", "1 minute"), "product")
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
        .select(F.col("window.start").alias("minute"), "product", "orders", "amount")
    )


dp.create_sink("orders_by_minute_topic", "minikafka", topic("orders-by-minute"))


@dp.append_flow(target="orders_by_minute_topic")
def minutes_to_topic() -> DataFrame:
    """Write each row of the table as a JSON record with the product as key."""
    minutes = spark.readStream.table("orders_by_minute")
    return minutes.select(F.col("product").alias("key"), F.to_json(F.struct("*")).alias("value"))


dp.create_sink("dead_letters_topic", "minikafka", topic("orders-dead-letters"))


@dp.append_flow(target="dead_letters_topic")
def dead_letters() -> DataFrame:
    """Copy invalid records unchanged. Headers say why each is invalid and where it was read."""
    facts = ("reason", "topic", "partition", "offset")
    headers = [
        F.struct(F.lit(name).alias("key"), F.col(name).cast("string").cast("binary").alias("value"))
        for name in facts
    ]
    bad = spark.readStream.table("orders_read").where("reason IS NOT NULL")
    return bad.select("key", "value", F.array(*headers).alias("headers"))
'''

_SQL: Final = """\
CREATE MATERIALIZED VIEW product_totals AS
SELECT product, sum(orders) AS orders, sum(amount) AS amount
FROM orders_by_minute
GROUP BY product;
"""

_ORDERS: Final = """\
{"product": "tea", "amount": 3.5, "at": "2026-01-01T10:00:05Z"}
{"product": "tea", "amount": 4.5, "at": "2026-01-01T10:00:40Z"}
{"product": "cake", "amount": 6.0, "at": "2026-01-01T10:00:59Z"}
{"product": "tea", "amount": 2.0, "at": "2026-01-01T10:01:10Z"}
{"product": "cake", "amount":
{"amount": 1.0, "at": "2026-01-01T10:01:20Z"}
{"product": "cake", "amount": 5.0, "at": "2026-01-01T10:09:00Z"}
"""

_README: Final = """\
# {name}

A pipeline of [Spark Declarative Pipelines](https://spark.apache.org/docs/latest/declarative-pipelines-programming-guide.html)
over topics. The files in `transformations/` define its tables and topics, and the flows that fill
them. `config/spark.properties` has the settings that it is run with.

In this folder, start a broker, create the topics and write some orders:

    minikafka up --brokers 1 &
    for topic in orders orders-by-minute orders-dead-letters; do
        minikafka topics create --bootstrap-server 127.0.0.1:9092 --topic $topic --partitions 2
    done
    minikafka produce --bootstrap-server 127.0.0.1:9092 --topic orders < orders.jsonl

Then check and run the pipeline, and read what it wrote:

    minikafka pipeline check .              # check the definitions, run nothing
    minikafka pipeline run .                # process all new records, then end
    minikafka pipeline run . --continuous   # process new records until Ctrl-C
    minikafka pipeline status .             # show the offsets and the lag of each flow
    minikafka consume --bootstrap-server 127.0.0.1:9092 --topic orders-by-minute --from-beginning

`storage` in `spark-pipeline.yml` must be an absolute path. Change it when you move the project.
"""

FILES: Final = {
    "spark-pipeline.yml": _SPEC,
    "config/spark.properties": _ENGINE,
    "transformations/orders.py": _PYTHON,
    "transformations/totals.sql": _SQL,
    "orders.jsonl": _ORDERS,
    "README.md": _README,
}


def make_project(folder: Path) -> list[Path]:
    """Write a new project into a new folder. Return the files that were written.

    Raises PipelineError if the folder exists, or if Spark cannot keep checkpoints at its path.
    Raises OSError if a file cannot be written."""
    if folder.exists():
        raise PipelineError(f"{folder} exists already: choose another name")
    if not needs_no_escapes(str(folder.resolve())):
        raise PipelineError(f"{folder.resolve()}: {NEEDS_ESCAPES}")
    written = []
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if name == "README.md":
            text = text.format(name=folder.name)
        elif name == "spark-pipeline.yml":
            storage = _yaml_string(f"file://{folder.resolve()}/state")
            text = text.format(name=_yaml_string(folder.name), storage=storage)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def _yaml_string(text: str) -> str:
    """Quote a string for YAML, which reads an unquoted 2024 as a number."""
    return json.dumps(text, ensure_ascii=False)
