"""The settings that a pipeline is run with: ``config/spark.properties``, and Spark's own keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

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
from minikafka.spark.session import LOCAL_SETTINGS, SETTINGS

# Where Spark keeps the descriptions of tables: in a database on disk, or in memory for one run.
CatalogKind: TypeAlias = Literal["hive", "in-memory"]

DEFAULT_FILE: Final = Path("config/spark.properties")
ENGINE_SETTINGS: Final = ConfigDef.of(
    [
        Setting(
            "master",
            ConfigType.STRING,
            "local[*]",
            "The URL of the Spark master: local[*], local[2], spark://HOST:7077.",
            non_empty,
        ),
        Setting(
            "remote",
            ConfigType.STRING,
            "",
            "The Spark Connect server for check and triggered runs, sc://HOST:15002. "
            "If it is not set, each of them starts a new server.",
        ),
        Setting(
            "trigger.interval.ms",
            ConfigType.INT,
            1000,
            "Continuous runs: the shortest time between the starts of two batches of a flow.",
            at_least(0),
        ),
        Setting(
            "refresh.interval.ms",
            ConfigType.INT,
            60_000,
            "Continuous runs: the time between two refreshes of the materialized views.",
            at_least(100),
        ),
        Setting(
            "shutdown.timeout.ms",
            ConfigType.INT,
            60_000,
            "Continuous runs: how long running batches may take after SIGTERM before they are "
            "aborted.",
            at_least(0),
        ),
        Setting(
            "metrics.listener",
            ConfigType.STRING,
            "",
            "Continuous runs: the address from which Prometheus reads metrics, [HOST:]PORT. "
            "Port 0: the system chooses one.",
        ),
        Setting(
            "state.dir",
            ConfigType.STRING,
            "state",
            "The folder of the catalog, the tables and the logs, relative to the spec.",
            non_empty,
        ),
        Setting(
            "warehouse.dir",
            ConfigType.STRING,
            "",
            "The folder of the tables, a path or a URI. If it is not set, warehouse in state.dir.",
        ),
        Setting(
            "log.level",
            ConfigType.STRING,
            "WARN",
            "The level of Spark's own log, which is written to logs in state.dir.",
            one_of("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"),
        ),
    ]
)
_MAX_PORT: Final = 65535
# Each flow starts Python processes, and Spark gives each 10 s to connect: limit how many flows
# start at the same time.
_FEW_CONCURRENT_FLOWS: Final = {
    "spark.sql.pipelines.execution.maxConcurrentFlows": str(max(2, os.cpu_count() or 2))
}


@dataclass(frozen=True)
class Engine:
    """The parsed engine settings. ``spark`` holds the keys ``spark.*``, passed on unchanged."""

    master: str
    remote: str
    trigger_interval_ms: int
    refresh_interval_ms: int
    shutdown_timeout_ms: int
    metrics_listener: str
    state_dir: Path
    warehouse_dir: str
    log_level: str
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def metastore_dir(self) -> Path:
        return self.state_dir / "metastore"

    def log_file(self, command: str) -> Path:
        return self.state_dir / "logs" / f"{command}.log"


def load_default_engine(folder: Path) -> Engine:
    """Load ``config/spark.properties`` of the spec's folder, or the defaults if there is no file.

    Raises ConfigError if a setting is invalid, OSError if the file cannot be read."""
    file = folder / DEFAULT_FILE
    return load_engine(folder, file) if file.is_file() else parse_engine(folder, {})


def load_engine(folder: Path, file: Path) -> Engine:
    """Load the settings of an engine from ``file``, for the spec in ``folder``.

    Raises ConfigError if a setting is invalid, OSError if the file cannot be read."""
    text = file.read_text(encoding="utf-8")
    try:
        return parse_engine(folder, parse_properties(text))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def parse_engine(folder: Path, settings: Mapping[str, str]) -> Engine:
    """Parse the settings of an engine, for the spec in ``folder``.

    Raises ConfigError for an invalid value, and for a key that is neither in ``ENGINE_SETTINGS``
    nor one of Spark's."""
    spark = {key: value for key, value in settings.items() if key.startswith("spark.")}
    config = ENGINE_SETTINGS.parse({k: v for k, v in settings.items() if k not in spark})
    state_dir = folder / config.string("state.dir")
    return Engine(
        master=config.string("master"),
        remote=config.string("remote"),
        trigger_interval_ms=config.integer("trigger.interval.ms"),
        refresh_interval_ms=config.integer("refresh.interval.ms"),
        shutdown_timeout_ms=config.integer("shutdown.timeout.ms"),
        metrics_listener=config.string("metrics.listener"),
        state_dir=state_dir,
        warehouse_dir=config.string("warehouse.dir") or str(state_dir / "warehouse"),
        log_level=config.string("log.level"),
        spark=spark,
    )


def metrics_address(listener: str) -> tuple[str, int]:
    """Return the host and port of a ``metrics.listener``. Raises ConfigError."""
    host, _, port = listener.rpartition(":")
    if not port.isdecimal() or int(port) > _MAX_PORT:
        raise ConfigError(f"metrics.listener {listener}: expected [HOST:]PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def static_settings(engine: Engine, catalog: CatalogKind) -> dict[str, str]:
    """Return Spark's static settings, which a session must have from its start.

    Only a ``hive`` catalog still knows the tables in the next run. The keys ``spark.*`` of the
    engine override what is set here."""
    local = {**LOCAL_SETTINGS, **_FEW_CONCURRENT_FLOWS} if engine.master.startswith("local") else {}
    derby = _quoted_option(f"-Dderby.system.home={engine.metastore_dir}")
    options = " ".join(filter(None, (engine.spark.get("spark.driver.extraJavaOptions"), derby)))
    return {
        **SETTINGS,
        **local,
        "spark.sql.catalogImplementation": catalog,
        "spark.sql.warehouse.dir": engine.warehouse_dir,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": engine.log_level,
        **engine.spark,
        "spark.driver.extraJavaOptions": options,
    }


def _quoted_option(option: str) -> str:
    """Quote a Java option that may have spaces: Spark's launcher splits options as a shell does."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
