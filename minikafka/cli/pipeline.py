"""The verb `pipeline`: create, check, run and replay Spark pipelines, and show their status."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from minikafka.cli.connect import command_config
from minikafka.cli.output import show
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_json_argument
from minikafka.kernel.config import ConfigError
from minikafka.kernel.extras import require
from minikafka.spark.java import JavaError
from minikafka.spark.option_parsing import OptionError
from minikafka.spark.options import duration_ms
from minikafka.spark.pipeline.engine import (
    CatalogKind,
    Engine,
    load_default_engine,
    load_engine,
    metrics_address,
)
from minikafka.spark.pipeline.failures import PipelineError, spark_errors_in_one_line
from minikafka.spark.pipeline.project import BOOTSTRAP_KEY, make_project
from minikafka.spark.pipeline.run_lock import only_replay, only_run
from minikafka.spark.pipeline.run_log import fresh_log, stderr_in
from minikafka.spark.pipeline.spec import Spec, load_spec

PIPELINES = "pipelines"  # the folder in PySpark, from 4.1 on
FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="init|check|run|replay|status"
    )
    init = commands.add_parser("init", help="create a new project, with a pipeline that works")
    init.add_argument("name", metavar="NAME", type=Path, help="the project's folder, created here")
    init.set_defaults(handler=_init)
    check = commands.add_parser("check", help="check the definitions, without running anything")
    _add_spec(check)
    check.set_defaults(handler=_check)
    # --full-refresh TABLE of spark-pipelines would be taken for --full-refresh-all.
    run = commands.add_parser(
        "run", help="process all new records once, or continuously", allow_abbrev=False
    )
    _add_spec(run)
    run.add_argument(
        "--continuous", action="store_true", help="process new records until SIGTERM or SIGINT"
    )
    run.add_argument(
        "--trigger", metavar="1s", help="with --continuous: time between two batches of a flow"
    )
    run.add_argument(
        "--metrics",
        metavar="[HOST:]PORT",
        help="with --continuous: serve metrics to Prometheus there; 0: the system chooses a port",
    )
    _add_master(run)
    run.add_argument(
        "--full-refresh-all",
        action="store_true",
        help="clear all tables and checkpoints and compute everything again; not with --continuous",
    )
    run.set_defaults(handler=_run)
    replay = commands.add_parser(
        "replay", help="process a range of records once more and write the topics"
    )
    _add_spec(replay)
    _add_range(replay)
    replay.set_defaults(handler=_replay)
    status = commands.add_parser("status", help="show the offsets and the lag of each flow")
    _add_spec(status)
    status.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help=f"the brokers to compute the lag from; default: {BOOTSTRAP_KEY} in the spec",
    )
    status.add_argument(
        "--command-config",
        metavar="FILE",
        help="client settings such as security.protocol, a .properties file",
    )
    form = status.add_mutually_exclusive_group()
    add_json_argument(form)
    form.add_argument(
        "--prometheus", action="store_true", help="print metrics, for a textfile collector"
    )
    status.set_defaults(handler=_status)


def _add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", type=Path, help="spark-pipeline.yml or its folder")
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the engine's settings; default: config/spark.properties beside the spec",
    )


def _add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master", metavar="URL", help="the Spark master: local[2], spark://HOST:7077"
    )


def _add_range(parser: argparse.ArgumentParser) -> None:
    for option, name, meaning in (
        ("--from", "start", "the first record"),
        ("--to", "end", "the end of the range, exclusive"),
    ):
        parser.add_argument(
            option,
            dest=name,
            required=True,
            metavar="TIME|OFFSETS",
            help=f'{meaning}: 2024-05-01T00:00:00Z, ms, {{"topic":{{"0":23}}}}, earliest, latest',
        )
    parser.add_argument(
        "--sink-id",
        required=True,
        metavar="ID",
        help="the name of this replay; a second run with the same name writes only what is missing",
    )
    parser.add_argument(
        "--flow", action="append", default=[], help="replay this flow only; may be repeated"
    )
    parser.add_argument(
        "--into", metavar="TOPIC", help="write this topic instead of the flow's own topic"
    )
    _add_master(parser)


def run(args: argparse.Namespace) -> int:
    require("spark", "minikafka pipeline")
    if not (_folder_of("pyspark") / PIPELINES).is_dir():
        raise ConfigError("pipelines need PySpark 4.1 or newer: this one has no spark-pipelines")
    handler: Callable[[argparse.Namespace], None] = args.handler
    try:
        handler(args)
    except (PipelineError, OptionError, JavaError) as error:
        print(f"minikafka: {error}", file=sys.stderr)
        return FAILED
    return 0


def _folder_of(package: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is installed"
    assert spec.origin is not None, f"{package} is no namespace"
    return Path(spec.origin).parent


def _init(args: argparse.Namespace) -> None:
    for file in make_project(args.name):
        print_line(f"wrote {file}")
    print_line(f"{args.name / 'README.md'} says how to run it")


def _check(args: argparse.Namespace) -> None:
    from minikafka.spark.pipeline import triggered

    spec, engine = _load(args)
    catalog: CatalogKind = "hive"
    temporary: Path | None = None
    with ExitStack() as stack:
        # With a catalog in memory, the check does not find tables that the pipeline does not define
        # itself.
        try:
            log = fresh_log(engine.log_file("check"))
            stack.enter_context(only_run(spec.path, [engine.state_dir], "check"))
        except PipelineError:  # a run has the hive catalog locked
            catalog = "in-memory"
        except OSError:  # the state folder cannot be written
            catalog, temporary = "in-memory", Path(tempfile.mkdtemp(prefix="minikafka-check-"))
            engine = replace(
                engine, state_dir=temporary, warehouse_dir=str(temporary / "warehouse")
            )
            log = fresh_log(engine.log_file("check"))
        triggered.check(spec, engine, catalog, log, print_line)
    if temporary is not None:  # after a failure it stays: the message names the log
        shutil.rmtree(temporary)


def _run(args: argparse.Namespace) -> None:
    spec, engine = _load(args)
    if args.trigger:
        try:
            engine = replace(engine, trigger_interval_ms=duration_ms(args.trigger))
        except OptionError:
            raise WrongUsage(
                f"--trigger {args.trigger}: not a duration, write 1s or 500ms"
            ) from None
    if args.metrics:
        if not args.continuous:
            raise WrongUsage(
                "--metrics needs --continuous (triggered runs: pipeline status --prometheus)"
            )
        metrics_address(args.metrics)
        engine = replace(engine, metrics_listener=args.metrics)
    if args.full_refresh_all and args.continuous:
        raise WrongUsage(
            "--full-refresh-all cannot be used with --continuous: run once with it before"
        )
    from minikafka.spark.pipeline.checkpoints import remove_unfinished_first_offsets

    storage = spec.local_storage()
    with only_run(spec.path, _folders(spec, engine)):
        if storage is not None:
            remove_unfinished_first_offsets(storage)
        if args.continuous:
            _run_continuously(spec, engine)
        else:
            from minikafka.spark.pipeline.triggered import run_once

            options = ["--full-refresh-all"] if args.full_refresh_all else []
            run_once(spec, engine, options, fresh_log(engine.log_file("run")), print_line)


def _folders(spec: Spec, engine: Engine) -> list[Path]:
    """Return the local folders that only one run may write."""
    storage = spec.local_storage()
    return [engine.state_dir] if storage is None else [engine.state_dir, storage]


def _run_continuously(spec: Spec, engine: Engine) -> None:
    from minikafka.spark.pipeline.continuous import run_continuously

    log = fresh_log(engine.log_file("continuous"))
    print_line(f"pipeline={spec.name} log={log}")
    with stderr_in(log), spark_errors_in_one_line(log):
        run_continuously(spec, engine, print_line)
    print_line(f"pipeline={spec.name} stopped")


def _replay(args: argparse.Namespace) -> None:
    from minikafka.spark.pipeline.replay import ReplayOrder, ReplayPlan, check_sink_id, run_replay

    spec, engine = _load(args)
    check_sink_id(args.sink_id)
    folder = engine.state_dir / "replays"
    with only_replay(folder, args.sink_id):
        plan = ReplayPlan.load(folder, args.sink_id, args.start, args.end)
        order = ReplayOrder(args.sink_id, plan, tuple(args.flow), args.into)
        log = fresh_log(engine.log_file("replay"))
        with stderr_in(log), spark_errors_in_one_line(log):
            run_replay(spec, engine, order, print_line)


def _status(args: argparse.Namespace) -> None:
    from minikafka.spark.pipeline.checkpoints import find_checkpoints
    from minikafka.spark.pipeline.status import (
        EndOffsets,
        FlowStatus,
        end_offsets,
        flow_statuses,
        samples,
    )
    from minikafka.spark.query_metrics import metrics_text

    spec = load_spec(args.spec)
    storage = spec.local_storage()
    if storage is None:
        raise PipelineError(
            f"storage {spec.storage} is not in a local file system: status reads local checkpoints"
        )
    servers = args.bootstrap_server or spec.configuration.get(BOOTSTRAP_KEY)
    checkpoints = list(find_checkpoints(storage))
    ends = (
        end_offsets(servers, checkpoints, command_config(args)) if servers else EndOffsets({}, {})
    )
    rows = [row for each in checkpoints for row in flow_statuses(each, ends.for_flow(each))]
    if args.prometheus:
        sys.stdout.write(metrics_text(samples(spec.name, rows)))
    else:
        show(FlowStatus._fields, rows, args.json)


def _load(args: argparse.Namespace) -> tuple[Spec, Engine]:
    spec = load_spec(args.spec)
    engine = (
        load_engine(spec.folder, args.config) if args.config else load_default_engine(spec.folder)
    )
    master = getattr(args, "master", None)
    return spec, replace(engine, master=master) if master else engine


def print_line(line: str) -> None:
    print(line, flush=True)
