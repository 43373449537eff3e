"""A new project: a pipeline that works, to be changed into one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.spec import NOT_PLAIN, is_plain

BOOTSTRAP_KEY: Final = "minikafka.bootstrap.servers"  # in a spec's configuration

_SPEC: Final = """\
# What spark-pipelines and minikafka pipeline read; the definitions are in transformations/.
name: {name}
storage: {storage}
configuration:
  minikafka.bootstrap.servers: 127.0.0.1:9092
  spark.sql.session.timeZone: UTC
  spark.sql.shuffle.partitions: "2" # stays what it was at the first run of a flow
libraries:
  - glob:
      include: transformations/**
"""

_ENGINE: Final = """\
# How the pipeline is run. Keys spark.* are Spark's own and are handed on.
master=local[*]
# between two batches of a flow, with --continuous
trigger.interval.ms=1000
# between two refreshes of the materialized views, with --continuous
refresh.interval.ms=60000
# where catalog, tables and logs are, relative to the spec
state.dir=state
log.level=WARN
"""

_PYTHON: Final = '''\
"""Orders as JSON, checked, counted by the minute: a table and a topic. Bad ones are put aside."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
BROKERS = spark.conf.get("minikafka.bootstrap.servers")
SCHEMA = "product string, amount double, at timestamp"


def topic(name: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": BROKERS, "topic": name}


@dp.temporary_view
def orders_read() -> DataFrame:
    """Every record, and what is wrong with it: `reason` is null where all is well."""
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


@dp.table(comment="A minute is here once an order has come that is a minute younger.")
def orders_by_minute() -> DataFrame:
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
    minutes = spark.readStream.table("orders_by_minute")
    return minutes.select(F.col("product").alias("key"), F.to_json(F.struct("*")).alias("value"))


dp.create_sink("dead_letters_topic", "minikafka", topic("orders-dead-letters"))


@dp.append_flow(target="dead_letters_topic")
def dead_letters() -> DataFrame:
    """As they came; why they are here, and where they were, is in the headers."""
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
over topics: `transformations/` says what is made of what, `config/spark.properties` how it is run.

    minikafka up --brokers 1
    for topic in orders orders-by-minute orders-dead-letters; do
        minikafka topics create --bootstrap-server 127.0.0.1:9092 --topic $topic --partitions 2
    done
    minikafka produce --bootstrap-server 127.0.0.1:9092 --topic orders < orders.jsonl

    minikafka pipeline check .              # does it fit together?
    minikafka pipeline run .                # what is new, once
    minikafka pipeline run . --continuous   # until Ctrl-C
    minikafka pipeline status .             # how far each flow is
    minikafka consume --bootstrap-server 127.0.0.1:9092 --topic orders-by-minute --from-beginning

`storage` in `spark-pipeline.yml` must be an absolute path: change it when the project moves.
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
    """The files that were written. Raises PipelineError where something is, or where Spark can keep
    no checkpoints; OSError."""
    if folder.exists():
        raise PipelineError(f"{folder} is there already")
    if not is_plain(str(folder.resolve())):
        raise PipelineError(f"{folder.resolve()}: {NOT_PLAIN}")
    made = []
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if name == "README.md":
            text = text.format(name=folder.name)
        elif name == "spark-pipeline.yml":
            storage = _quoted(f"file://{folder.resolve()}/state")
            text = text.format(name=_quoted(folder.name), storage=storage)
        file.write_text(text, encoding="utf-8")
        made.append(file)
    return made


def _quoted(text: str) -> str:
    """For YAML, to which 2024 is a number."""
    return json.dumps(text, ensure_ascii=False)
