"""Departures by airport and hour, from a topic: their number, their delay, and the weather."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
BROKERS = spark.conf.get("minikafka.bootstrap.servers")

FLIGHT = "origin string, carrier string, time_hour timestamp, dep_delay double"
# The watermark: how late a flight may arrive. The demo writes ten days of flights in a second, so
# this is six seconds of the demo.
LATENESS = "60 days"


@dp.temporary_view
def departures() -> DataFrame:
    lines = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", "flights-live")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "50000")
        .load()
    )
    flight = F.from_json(F.col("value").cast("string"), FLIGHT)
    parsed = lines.select(flight.alias("flight")).select("flight.*")
    return parsed.withWatermark("time_hour", LATENESS)


@dp.table(comment="Has an hour after the watermark has passed it, so that no flight can be added.")
def flights_hourly() -> DataFrame:
    """The flights of each hour. ``latest`` is the carrier with the longest delay; it is null, as
    the mean is, if no flight departed."""
    late = F.when(F.col("dep_delay").isNotNull(), F.struct("dep_delay", "name"))
    by_hour = (
        spark.readStream.table("departures")
        .join(F.broadcast(spark.read.table("carriers")), "carrier", "left")
        .groupBy("origin", F.window("time_hour", "1 hour"))
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departed"),
            F.avg("dep_delay").alias("mean_delay"),
            F.max(late)["name"].alias("latest"),
        )
        .select(
            "origin", F.col("window.start").alias("hour"),
            "flights", "departed", "mean_delay", "latest",
        )
    )  # fmt: skip
    return by_hour.join(F.broadcast(spark.read.table("weather")), ["origin", "hour"], "left")


dp.create_sink(
    "flights_hourly_topic",
    "minikafka",
    {"kafka.bootstrap.servers": BROKERS, "topic": "flights-hourly"},
)


@dp.append_flow(target="flights_hourly_topic")
def hours_to_topic() -> DataFrame:
    """Write each hour to the topic, exactly once."""
    hours = spark.readStream.table("flights_hourly")
    return hours.select(F.col("origin").alias("key"), F.to_json(F.struct("*")).alias("value"))
