"""Settings of Spark without which pipelines do not run, or run slower than they could."""

from __future__ import annotations

import os
from typing import Final

from minikafka.spark.pipeline.engine import Engine
from minikafka.spark.session import LOCAL_SETTINGS, SETTINGS

# Each flow starts Python processes, to which Spark gives 10 s: not all flows at once.
_FEW_AT_ONCE: Final = {
    "spark.sql.pipelines.execution.maxConcurrentFlows": str(max(2, os.cpu_count() or 2))
}


def static_settings(engine: Engine, keeps_tables: bool = True) -> dict[str, str]:
    """What must be known when Spark starts: a pipeline cannot set it later. What the engine's
    file says comes last."""
    local = {**LOCAL_SETTINGS, **_FEW_AT_ONCE} if engine.master.startswith("local") else {}
    derby = _word(f"-Dderby.system.home={engine.metastore_dir}")
    options = " ".join(filter(None, (engine.spark.get("spark.driver.extraJavaOptions"), derby)))
    return {
        **SETTINGS,
        **local,
        # A catalog in memory has forgotten its tables when the pipeline is run again.
        "spark.sql.catalogImplementation": "hive" if keeps_tables else "in-memory",
        "spark.sql.warehouse.dir": engine.warehouse_dir,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": engine.log_level,
        **engine.spark,
        "spark.driver.extraJavaOptions": options,
    }


def _word(argument: str) -> str:
    """As one, with its spaces, for Spark's launcher, which splits options as a shell does."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
