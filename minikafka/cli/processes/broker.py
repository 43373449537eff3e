"""The verb `broker`: one broker process in the foreground, stopped by SIGTERM or SIGINT.

It keeps the pauses of the garbage collector short. CPython's full collection looks at every object,
and nothing else runs meanwhile: 200 ms with the 1.6 million objects of 300 large fetch sessions.
Here each object is looked at in one full collection at most, soon after it was made.

A cycle that dies later is not found any more. So nothing that ends while a broker runs may be a
cycle: requests, connections and sessions go by their reference counts, which tests check.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minikafka.cli.processes import pid_file
from minikafka.cli.stopping import call_when_asked_to_stop
from minikafka.cli.verb_parser import add_pairs_argument, pairs
from minikafka.kernel import events
from minikafka.kernel.config import Config, parse_properties, properties_from_environment
from minikafka.kernel.lazy_module import import_without, import_without_metadata, stand_in
from minikafka.kernel.metrics import MetricKind, Metrics
from minikafka.kernel.security_settings import java_properties
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.world.real.process_io import cpu_seconds, disk_bytes, process_gauges

# Allocations between two collections of the youngest generation, and how many of those are between
# two collections of the next one: a full collection looks at some 100,000 objects, in 10 ms.
THRESHOLDS = (10_000, 5, 2)
FULL = 2  # the oldest generation


def keep_collections_short() -> None:
    """Exclude what exists from garbage collection, and later whatever a full collection leaves."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, collection: Mapping[str, Any]) -> None:
    if phase == "stop" and collection["generation"] == FULL:
        gc.freeze()


# A thread waits this long for the interpreter while the event loop is busy. The threads of kazoo
# wait several times for each request: at Python's 5 ms one write to ZooKeeper took 25 ms, not 1.
SWITCH_INTERVAL_S = 0.001


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a server.properties file")
    add_pairs_argument(
        parser, "--override", "a setting that wins over the file and the environment; repeatable"
    )
    parser.add_argument("--log-level", default="INFO", choices=sorted(events.LEVELS))
    parser.add_argument("--log-json", action="store_true", help="log lines as JSON")
    parser.add_argument(
        "--stop-with-stdin", action="store_true", help="also stop at the end of standard input"
    )


def load_config(
    path: str | None, environment: Mapping[str, str], overrides: Sequence[str]
) -> Config:
    """Parse the configuration from KAFKA_OPTS (of the login at ZooKeeper alone), the file at
    ``path``, ``KAFKA_*`` variables and overrides.

    Later sources win. Raises ConfigError, and OSError if the file cannot be read.
    """
    given = java_properties(environment)
    given |= parse_properties(Path(path).read_text()) if path else {}
    given |= properties_from_environment(environment)
    given |= parse_overrides(overrides)
    return BROKER_CONFIG.parse(given)


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Parse ``--override KEY=VALUE`` options. Raises ConfigError."""
    return {key: value.strip() for key, value in pairs(overrides, "--override").items()}


def run(args: argparse.Namespace) -> int:
    from minikafka.server.node.config_views import log_dirs
    from minikafka.world.real.loop import run as run_real
    from minikafka.world.real.network import raise_descriptor_limit

    import_without_metadata("crc32c")  # takes some ms, for which no Produce shall wait
    if not sys.stderr.isatty():
        # structlog prints tracebacks with rich, which a log that is a file has no use for: 4.6 MB
        # and 60 ms. It looks for greenlets, which there are none of: 1.2 MB.
        # It needs one exception of pickle's, to refuse that its loggers are pickled: 0.4 MB.
        with suppress(ImportError, AttributeError), stand_in("pickle", PicklingError=Exception):
            import_without("structlog", "rich", "greenlet")
    config = load_config(args.config, os.environ, args.override)
    events.configure(args.log_level, args.log_json)
    raise_descriptor_limit()
    with pid_file.held(Path(log_dirs(config)[0])):
        run_real(serve(config, args.stop_with_stdin))
    return 0


def register_disk_bytes(metrics: Metrics) -> None:
    """Register what Kafka shows on Linux: the bytes that this process has moved from and to
    disks."""
    for name in ("read", "write"):
        read = disk_bytes(f"{name}_bytes")
        if read is not None:
            metrics.gauge(f"kafka.server:type=KafkaServer,name=linux-disk-{name}-bytes", read)


def register_process(metrics: Metrics) -> None:
    """Register what Prometheus' clients show of every process; jmx_exporter shows it, too."""

    def cpu() -> Iterator[tuple[str, float]]:
        yield "process:type=cpu,name=seconds", cpu_seconds()

    def others() -> Iterator[tuple[str, float]]:
        for name, value in process_gauges():
            kind, _, rest = name.partition("_")
            yield f"process:type={kind},name={rest}", value

    metrics.family(cpu, MetricKind.COUNTER)
    metrics.family(others)


async def serve(config: Config, stop_with_stdin: bool = False) -> None:
    """Run a broker until a signal stops it or it fails."""
    from minikafka.server.node.broker import EXPECTED_FAILURES, BrokerNode
    from minikafka.world.real.world import real_world

    node = BrokerNode(real_world(), config, socket.gethostname())
    register_disk_bytes(node.metrics)
    register_process(node.metrics)
    log = events.event_log("loop", broker=node.broker_id)

    def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception that no task awaits.

        A bug in a callback stops the broker. A failed socket or a response without a waiting
        caller is only logged.
        """
        error = context.get("exception")
        if error is None or isinstance(error, EXPECTED_FAILURES):
            log.warning("callback_failed", message=context.get("message"), error=repr(error))
        else:
            node.fail(error)

    asyncio.get_running_loop().set_exception_handler(on_loop_error)
    call_when_asked_to_stop(node.request_stop, stop_with_stdin)
    keep_collections_short()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    await node.run()
