"""A cluster inside one process in the foreground: no Java, no ZooKeeper, nothing on disk."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from minikafka.cli.stopping import STOP_SIGNALS
from minikafka.cli.usage import WrongUsage
from minikafka.testing.inside.cluster import InsideCluster

MAX_PORT = 65535

# What stands beside the cluster while it runs; its value is printed with the ready line.
Beside: TypeAlias = Callable[[InsideCluster], AbstractContextManager[str]]


def run_inside(
    brokers: int,
    base_port: int,
    settings: Mapping[str, str],
    beside: Beside = lambda _: nullcontext(""),
    debug_ports: Sequence[int] = (),
) -> int:
    """Run the brokers until SIGTERM or SIGINT; a second signal ends the process at once.

    ``base_port`` 0 lets the system choose all ports, a 0 in ``debug_ports`` that of a debug
    listener. Raises ConfigError and OSError."""
    if base_port + brokers - 1 > MAX_PORT:
        raise WrongUsage(f"--base-port is too high for {brokers} brokers")
    # Blocked before the cluster's thread begins, which inherits it: only ``sigwait`` gets them.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    cluster = InsideCluster(brokers, settings, base_port, debug_ports)
    with cluster, beside(cluster) as extra:
        print(" ".join(["ready", f"bootstrap={cluster.bootstrap}", *extra.split()]))
        print("all data is in the memory of this process, and gone when it ends", flush=True)
        signal.sigwait(STOP_SIGNALS)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return 0
