"""Settings of the engine that runs a pipeline: ``config/spark.properties`` beside its spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from minikafka.kernel.config import (
    ConfigDef,
    ConfigError,
    ConfigType,
    Setting,
    at_least,
    non_empty,
    one_of,
    parse_properties,
)

DEFAULT_FILE: Final = Path("config/spark.properties")
ENGINE_SETTINGS: Final = ConfigDef.of(
    [
        Setting(
            "master",
            ConfigType.STRING,
            "local[*]",
            "Where Spark runs: local[*], local[2], spark://HOST:7077.",
            non_empty,
        ),
        Setting(
            "remote",
            ConfigType.STRING,
            "",
            "Spark Connect server for check and triggered runs, sc://HOST:15002; "
            "if unset one is started here.",
        ),
        Setting(
            "trigger.interval.ms",
            ConfigType.INT,
            1000,
            "Continuous: the least time between the starts of two batches of a flow.",
            at_least(0),
        ),
        Setting(
            "refresh.interval.ms",
            ConfigType.INT,
            60_000,
            "Continuous: the time between two refreshes of the materialized views.",
            at_least(100),
        ),
        Setting(
            "shutdown.timeout.ms",
            ConfigType.INT,
            60_000,
            "Continuous: how long batches may run on after SIGTERM before they are cut.",
            at_least(0),
        ),
        Setting(
            "state.dir",
            ConfigType.STRING,
            "state",
            "Catalog, tables and logs; relative to the spec.",
            non_empty,
        ),
        Setting(
            "warehouse.dir",
            ConfigType.STRING,
            "",
            "Where tables lie, a path or a URI; warehouse in state.dir if unset.",
        ),
        Setting(
            "log.level",
            ConfigType.STRING,
            "WARN",
            "What of Spark's own log is written, into logs in state.dir.",
            one_of("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"),
        ),
    ]
)


@dataclass(frozen=True)
class Engine:
    """``spark``: the keys ``spark.*``, handed on as they are."""

    master: str
    remote: str
    trigger_interval_ms: int
    refresh_interval_ms: int
    shutdown_timeout_ms: int
    state_dir: Path
    warehouse_dir: str
    log_level: str
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def metastore_dir(self) -> Path:
        return self.state_dir / "metastore"

    def log_file(self, verb: str) -> Path:
        return self.state_dir / "logs" / f"{verb}.log"


def load_engine(folder: Path, file: Path | None) -> Engine:
    """From ``file``, or from the default one under ``folder`` if it is there. Raises ConfigError,
    OSError."""
    if file is None:
        default = folder / DEFAULT_FILE
        file = default if default.is_file() else None
    text = "" if file is None else file.read_text(encoding="utf-8")
    try:
        return parse_engine(folder, parse_properties(text))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def parse_engine(folder: Path, given: Mapping[str, str]) -> Engine:
    """Raises ConfigError for a key that is neither ours nor Spark's."""
    spark = {key: value for key, value in given.items() if key.startswith("spark.")}
    config = ENGINE_SETTINGS.parse({k: v for k, v in given.items() if k not in spark})
    state_dir = folder / config.string("state.dir")
    return Engine(
        master=config.string("master"),
        remote=config.string("remote"),
        trigger_interval_ms=config.integer("trigger.interval.ms"),
        refresh_interval_ms=config.integer("refresh.interval.ms"),
        shutdown_timeout_ms=config.integer("shutdown.timeout.ms"),
        state_dir=state_dir,
        warehouse_dir=config.string("warehouse.dir") or str(state_dir / "warehouse"),
        log_level=config.string("log.level"),
        spark=spark,
    )
