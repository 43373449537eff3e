"""The verb `pipeline`: Spark Declarative Pipelines over topics."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from minikafka.cli.output import add_json_argument, show
from minikafka.kernel.config import ConfigError
from minikafka.spark.java import JavaError
from minikafka.spark.option_parsing import OptionError
from minikafka.spark.options import duration_ms
from minikafka.spark.pipeline.engine import Engine, load_engine
from minikafka.spark.pipeline.failures import PipelineError, spark_told_in_a_line
from minikafka.spark.pipeline.noise import fresh_log, stderr_in
from minikafka.spark.pipeline.project import BOOTSTRAP_KEY, make_project
from minikafka.spark.pipeline.run_lock import is_running, only_run
from minikafka.spark.pipeline.spec import Spec, load_spec

NEEDED = ("pyspark", "pyarrow", "pandas", "grpc", "yaml")
FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    deeds = parser.add_subparsers(
        dest="deed", required=True, metavar="init|check|run|replay|status"
    )
    init = deeds.add_parser("init", help="write a new project, which works")
    init.add_argument("name", metavar="NAME", type=Path, help="its folder, to be made")
    init.set_defaults(do=_init)
    check = deeds.add_parser("check", help="does it fit together? nothing is run")
    _add_spec(check)
    check.set_defaults(do=_check)
    run = deeds.add_parser("run", help="handle all that is new, or go on without end")
    _add_spec(run)
    run.add_argument("--continuous", action="store_true", help="until SIGTERM or SIGINT")
    run.add_argument("--trigger", metavar="1s", help="continuous: time between batches of a flow")
    run.add_argument("--master", metavar="URL", help="local[2], spark://HOST:7077")
    run.add_argument(
        "--full-refresh-all", action="store_true", help="forget all that was done; not continuous"
    )
    run.set_defaults(do=_run)
    again = deeds.add_parser("replay", help="a range of records once more, into the topics")
    _add_spec(again)
    _add_range(again)
    again.set_defaults(do=_replay)
    status = deeds.add_parser("status", help="how far each flow is")
    _add_spec(status)
    status.add_argument(
        "--bootstrap-server", metavar="HOST:PORT,...", help=f"if not {BOOTSTRAP_KEY} in the spec"
    )
    add_json_argument(status)
    status.set_defaults(do=_status)


def _add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", type=Path, help="spark-pipeline.yml or its folder")
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="if not config/spark.properties beside the spec"
    )


def _add_range(parser: argparse.ArgumentParser) -> None:
    for option, what in (("--from", "start"), ("--to", "end")):
        parser.add_argument(
            option,
            dest=what,
            required=True,
            metavar="TIME|OFFSETS",
            help='2024-05-01T00:00:00Z, ms, {"topic":{"0":23}}, earliest, latest',
        )
    parser.add_argument(
        "--sink-id",
        required=True,
        metavar="ID",
        help="run again with it, it writes what is missing",
    )
    parser.add_argument("--flow", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--into", metavar="TOPIC", help="instead of the flow's own topic")
    parser.add_argument("--master", metavar="URL", help="local[2], spark://HOST:7077")


def run(args: argparse.Namespace) -> int:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"not installed: {', '.join(missing)} (in a checkout: pip install '.[spark]')"
        )
    do: Callable[[argparse.Namespace], None] = args.do
    try:
        do(args)
    except (PipelineError, OptionError, JavaError) as error:
        print(f"minikafka: {error}", file=sys.stderr)
        return FAILED
    return 0


def _init(args: argparse.Namespace) -> None:
    for file in make_project(args.name):
        tell(f"wrote {file}")
    tell(f"what to do with it is in {args.name / 'README.md'}")


def _check(args: argparse.Namespace) -> None:
    from minikafka.spark.pipeline.triggered import run_once

    spec, engine = _load(args)
    # The catalog is taken while the pipeline runs; without it, tables of others are not known.
    run_once(
        spec,
        engine,
        ["dry-run"],
        fresh_log(engine.log_file("check")),
        tell,
        keeps_tables=not is_running(engine.state_dir),
    )


def _run(args: argparse.Namespace) -> None:
    spec, engine = _load(args)
    if args.trigger:
        try:
            engine = replace(engine, trigger_interval_ms=duration_ms(args.trigger))
        except OptionError:
            raise ConfigError(f"--trigger {args.trigger}: no duration, e.g. 1s or 500ms") from None
    if args.full_refresh_all and args.continuous:
        raise ConfigError("--full-refresh-all is not for --continuous: run it before, once")
    with only_run(engine.state_dir):
        if args.continuous:
            _run_continuously(spec, engine)
        else:
            from minikafka.spark.pipeline.triggered import run_once

            deed = ["run", *(["--full-refresh-all"] if args.full_refresh_all else [])]
            run_once(spec, engine, deed, fresh_log(engine.log_file("run")), tell)


def _run_continuously(spec: Spec, engine: Engine) -> None:
    from minikafka.spark.pipeline.continuous import run_continuously

    log = fresh_log(engine.log_file("continuous"))
    tell(f"pipeline={spec.name} log={log}")
    with stderr_in(log), spark_told_in_a_line(log):
        run_continuously(spec, engine, tell)
    tell(f"pipeline={spec.name} stopped")


def _replay(args: argparse.Namespace) -> None:
    from minikafka.spark.pipeline.replay import ReplayOrder, run_replay
    from minikafka.spark.pipeline.replay_plan import ReplayPlan, check_sink_id

    spec, engine = _load(args)
    check_sink_id(args.sink_id)
    folder = engine.state_dir / "replays"
    with only_run(folder, f"{args.sink_id}.lock", f"replay of {args.sink_id}"):
        plan = ReplayPlan.of(folder, args.sink_id, args.start, args.end)
        order = ReplayOrder(args.sink_id, plan, tuple(args.flow), args.into)
        log = fresh_log(engine.log_file("replay"))
        with stderr_in(log), spark_told_in_a_line(log):
            run_replay(spec, engine, order, tell)


def _status(args: argparse.Namespace) -> None:
    from minikafka.spark.pipeline.status import FlowStatus, pipeline_status

    spec = load_spec(args.spec)
    storage = spec.local_storage()
    if storage is None:
        raise PipelineError(f"{spec.storage} is not of this machine: its checkpoints are not read")
    servers = args.bootstrap_server or spec.configuration.get(BOOTSTRAP_KEY)
    show(FlowStatus._fields, pipeline_status(storage, servers), args.json)


def _load(args: argparse.Namespace) -> tuple[Spec, Engine]:
    spec = load_spec(args.spec)
    engine = load_engine(spec.folder, args.config)
    master = getattr(args, "master", None)
    return spec, replace(engine, master=master) if master else engine


def tell(line: str) -> None:
    print(line, flush=True)
