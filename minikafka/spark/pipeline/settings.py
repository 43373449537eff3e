"""Settings of Spark without which pipelines do not run, or run slower than they could."""

from __future__ import annotations

from typing import Final

from minikafka.spark.pipeline.engine import Engine
from minikafka.spark.pipeline.spec import Spec
from minikafka.spark.session import LOCAL_SETTINGS, SETTINGS

_STATE_STORE: Final = "spark.sql.streaming.stateStore.providerClass"


def static_settings(spec: Spec, engine: Engine, keeps_tables: bool = True) -> dict[str, str]:
    """What must be known when Spark starts: a pipeline cannot set it later. What the engine's
    file says comes last."""
    given = {**spec.configuration, **engine.spark}
    local = LOCAL_SETTINGS if engine.master.startswith("local") else {}
    if given.get(_STATE_STORE, "").endswith("RocksDBStateStoreProvider"):  # wants Hadoop's own way
        local = {**local, "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem"}
    derby = f"-Dderby.system.home={engine.metastore_dir}"
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
