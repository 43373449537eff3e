"""The verb `pipeline`: Spark Declarative Pipelines over topics."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from minikafka.kernel.config import ConfigError
from minikafka.spark.given import OptionError
from minikafka.spark.java import JavaError
from minikafka.spark.options import duration_ms
from minikafka.spark.pipeline.engine import Engine, load_engine
from minikafka.spark.pipeline.failures import PipelineError
from minikafka.spark.pipeline.noise import fresh_log, stderr_in
from minikafka.spark.pipeline.spec import Spec, load_spec

NEEDED = ("pyspark", "pyarrow", "pandas", "grpc", "yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    deeds = parser.add_subparsers(dest="deed", required=True, metavar="run")
    run = deeds.add_parser("run", help="handle all that is new, or without end")
    _add_spec(run)
    run.add_argument("--continuous", action="store_true", help="until SIGTERM")
    run.add_argument("--trigger", metavar="1s", help="continuous: time between batches of a flow")
    run.add_argument("--master", metavar="URL", help="local[2], spark://HOST:7077")
    run.set_defaults(do=_run)


def _add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", type=Path, help="spark-pipeline.yml or its folder")
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="config/spark.properties beside the spec"
    )


def run(args: argparse.Namespace) -> int:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"not installed: {', '.join(missing)} (pip install 'minikafka[spark]')")
    do: Callable[[argparse.Namespace], int] = args.do
    try:
        return do(args)
    except (PipelineError, JavaError) as error:
        print(f"minikafka: {error}", file=sys.stderr)
        return 1


def _load(args: argparse.Namespace) -> tuple[Spec, Engine]:
    spec = load_spec(args.spec)
    return spec, load_engine(spec.folder, args.config)


def _run(args: argparse.Namespace) -> int:
    spec, engine = _load(args)
    if args.master:
        engine = replace(engine, master=args.master)
    if args.trigger:
        try:
            engine = replace(engine, trigger_interval_ms=duration_ms(args.trigger))
        except OptionError:
            raise ConfigError(f"--trigger {args.trigger}: no duration, e.g. 1s or 500ms") from None
    from minikafka.spark.pipeline.continuous import run_continuously

    log = fresh_log(engine.log_file("continuous"))
    show(f"pipeline={spec.name} log={log}")
    with stderr_in(log):
        run_continuously(spec, engine, show)
    show(f"pipeline={spec.name} stopped")
    return 0


def show(line: str) -> None:
    print(line, flush=True)
