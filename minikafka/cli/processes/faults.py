"""The verb `faults`: a proxy in front of any Kafka, with faults in the requests of its clients."""

from __future__ import annotations

import argparse
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from minikafka.cli.stopping import STOP_SIGNALS
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import at_least
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError

if TYPE_CHECKING:
    from minikafka.testing.fault_control import HttpFaults

ANY_PORT = "127.0.0.1:0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream",
        required=True,
        metavar="HOST:PORT",
        help="a broker of the cluster behind the proxy, without TLS; the others are learnt from it",
    )
    parser.add_argument(
        "--listen",
        default=ANY_PORT,
        metavar="HOST:PORT",
        help="where clients connect; each further broker has the next free port "
        f"({ANY_PORT}: the system chooses all ports)",
    )
    parser.add_argument(
        "--control",
        type=at_least(0),
        metavar="PORT",
        help="serve faults over HTTP, on 127.0.0.1 (0: any port); GET / describes the paths",
    )
    parser.add_argument(
        "--rules",
        metavar="FILE",
        help='faults to begin with, a JSON list as of [{"fault": "delay", "seconds": 1}]',
    )


def run(args: argparse.Namespace) -> int:
    """Pass on what clients send until SIGTERM or SIGINT; a second signal ends the process at
    once."""
    from minikafka.testing.fault_control import HOST, HttpFaults, control_server
    from minikafka.testing.proxy.fault_proxy import FaultProxy, address

    for option, text in (("--upstream", args.upstream), ("--listen", args.listen)):
        try:
            address(text)
        except ValueError as error:
            raise WrongUsage(f"{option}: {error}") from None
    with ExitStack() as running, events.printed("WARNING"):
        proxy = FaultProxy(args.upstream, args.listen, events.event_log("proxy"))
        control = HttpFaults(proxy.request_faults)
        if args.rules is not None:
            add_rules(control, args.rules)
        running.enter_context(proxy)
        # Before the control's threads begin, which inherit it: only ``sigwait`` gets them.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        ready = ["ready", f"bootstrap={proxy.bootstrap}"]
        if args.control is not None:
            bound = running.enter_context(control_server(control, args.control))
            ready.append(f"control=http://{HOST}:{bound}")
        print(*ready)
        for node_id, (listener, behind) in proxy.brokers.items():
            print(f"broker {node_id}: {listener} for {behind}")
        print("", end="", flush=True)
        signal.sigwait(STOP_SIGNALS)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return 0


def add_rules(control: HttpFaults, path: str) -> None:
    """Add the faults of a file with a JSON list. Raises OSError, and ConfigError for what makes no
    sense."""
    try:
        control.add_list(Path(path).read_text())
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
