"""The verb `ui`: a page that shows what happens inside a cluster."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minikafka.cli.cluster.users import read_password
from minikafka.cli.connect import (
    BOOTSTRAP_SERVERS,
    REGISTRY_LOGIN,
    REGISTRY_LOGIN_FROM,
    REGISTRY_URL,
    client_config,
    client_file,
)
from minikafka.cli.processes.registry import users_of
from minikafka.cli.stopping import call_when_asked_to_stop
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import at_least
from minikafka.client.rest import RestAddress
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError
from minikafka.kernel.extras import require

if TYPE_CHECKING:
    from minikafka.page.dashboard.access.doors import Doors
    from minikafka.page.dashboard.serving import PageSubject

DEFAULT_PORT = 8080
ROLE_NAMES = ("look", "produce", "operate", "administer")
HOST = "127.0.0.1"
REQUEST_TIMEOUT_MS = 5_000
CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shown = parser.add_mutually_exclusive_group(required=True)
    shown.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help="brokers of the cluster to show; any Kafka, and more of a minikafka",
    )
    shown.add_argument(
        "--cluster",
        metavar="NAME=FILE",
        action="append",
        help="a cluster to show, by its client's .properties file with bootstrap.servers; may be "
        "repeated: the page shows several",
    )
    shown.add_argument(
        "--recording", metavar="FILE", help="show a recording instead, without a cluster"
    )
    shown.add_argument(
        "--user-entry",
        metavar="NAME",
        help="print the line of a user for --user-file, with --role and a password, and end",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="client settings such as security.protocol, a .properties file",
    )
    parser.add_argument(
        "--port",
        type=at_least(0),
        help=f"port of the page ({DEFAULT_PORT}, or the next free one; 0: the system chooses)",
    )
    parser.add_argument(
        "--host", default=HOST, metavar="ADDRESS", help=f"address to listen on ({HOST})"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="refuse everything that changes the cluster"
    )
    parser.add_argument(
        "--record", metavar="FILE", help="write everything that the page is sent into a recording"
    )
    _add_access(parser)
    parser.add_argument(
        "--registry",
        metavar="URL",
        help="a schema registry, whose schemas decode records; any with Confluent's API",
    )
    parser.add_argument(
        "--registry-users",
        metavar="FILE",
        help="a line NAME:PASSWORD; the registry is asked with the first one",
    )
    parser.add_argument(
        "--connect",
        metavar="URL",
        help="a worker of Kafka Connect, whose connectors are shown and restarted",
    )
    parser.add_argument(
        "--connect-users",
        metavar="FILE",
        help="a line NAME:PASSWORD; Kafka Connect is asked with the first one",
    )
    parser.add_argument(
        "--history",
        metavar="FILE",
        help="keep rates, lag and sizes of the last day in this file, also while nobody looks",
    )
    parser.add_argument("--supervisor-fd", type=at_least(0), help=argparse.SUPPRESS)


def _add_access(parser: argparse.ArgumentParser) -> None:
    access = parser.add_argument_group("who may use the page; default: whoever has its token")
    of_many: dict[str, Any] = {"action": "append", "default": []}
    access.add_argument(
        "--token-file", metavar="FILE", help="fixed tokens: lines TOKEN or NAME:ROLE:TOKEN"
    )
    access.add_argument(
        "--user-file", metavar="FILE", help="users: lines NAME:ROLE:VERIFIER of --user-entry"
    )
    access.add_argument(
        "--user-header",
        metavar="HEADER",
        help="header in which a proxy names the user that it has authenticated, such as "
        "X-Forwarded-User",
    )
    access.add_argument(
        "--trusted-proxy",
        metavar="ADDRESS",
        **of_many,
        help="address or network from which --user-header counts; may be repeated",
    )
    access.add_argument(
        "--proxy-role",
        choices=ROLE_NAMES,
        help="role of the proxy's users that are not in --user-file; default: they may not come in",
    )
    access.add_argument(
        "--public-name",
        metavar="HOST[:PORT]",
        **of_many,
        help="name by which browsers reach the page through a proxy; may be repeated",
    )
    access.add_argument(
        "--audit-log", metavar="FILE", help="append a JSON line for each act, and for its result"
    )
    access.add_argument(
        "--role", choices=ROLE_NAMES, help="with --user-entry: each may what those before it may"
    )
    source = access.add_mutually_exclusive_group()
    source.add_argument(
        "--password-file",
        metavar="FILE",
        help="with --user-entry: file whose first line is the password, - for standard input",
    )
    source.add_argument(
        "--password-env", metavar="NAME", help="with --user-entry: environment variable"
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page until SIGTERM or SIGINT."""
    check(args)
    if args.user_entry is not None:
        return print_entry(args)
    require("ui", "the page")
    if args.recording is not None and args.record is not None:
        raise WrongUsage("--record: not with --recording, which is one already")
    if args.recording is not None and args.history is not None:
        raise WrongUsage("--history: not with --recording, which has no cluster")
    if args.recording is not None and not Path(args.recording).is_file():
        raise ConfigError(f"--recording {args.recording}: no such file")
    if args.cluster is not None:
        check_several(args)
    check_registry(args)
    check_connect(args)
    shown = several(args) if args.cluster is not None else [alone(args)]
    from minikafka.world.real.loop import run as run_loop

    with events.printed("ERROR"):
        run_loop(serve(args, shown))
    return 0


def check(args: argparse.Namespace) -> None:
    """Raises WrongUsage for options that do not go together."""
    of_entry = ("role", "password_file", "password_env")
    if args.user_entry is None and any(getattr(args, name) is not None for name in of_entry):
        raise WrongUsage("--role, --password-file and --password-env go with --user-entry")
    if args.user_entry is not None and args.role is None:
        raise WrongUsage(f"--user-entry needs a --role: {', '.join(ROLE_NAMES)}")
    if args.user_header is not None and not args.trusted_proxy:
        raise WrongUsage("--user-header needs --trusted-proxy: anybody else could send the header")
    if args.user_header is None and (args.trusted_proxy or args.proxy_role):
        raise WrongUsage("--trusted-proxy and --proxy-role go with --user-header")
    if args.user_header is not None and args.proxy_role is None and args.user_file is None:
        raise WrongUsage("--user-header needs roles: --user-file, or --proxy-role for everybody")


def print_entry(args: argparse.Namespace) -> int:
    """Print the line of a user for the file of users. Raises ConfigError."""
    from minikafka.page.dashboard.access.accounts import SALT_BYTES, user_entry
    from minikafka.page.dashboard.access.roles import ROLES

    named = argparse.Namespace(**{**vars(args), "user": args.user_entry})
    password = read_password(named, os.environ)
    print(user_entry(args.user_entry, ROLES[args.role], password, os.urandom(SALT_BYTES)))
    return 0


def doors_of(args: argparse.Namespace) -> Doors:
    """Return who may come in. Raises ConfigError, and OSError for a file that cannot be read."""
    from minikafka.page.dashboard.access.accounts import parse_tokens
    from minikafka.page.dashboard.access.doors import Doors, parse_proxies
    from minikafka.page.dashboard.access.roles import ROLES
    from minikafka.page.dashboard.access.user_file import UserFile

    file = args.token_file
    return Doors(
        tokens=parse_tokens(Path(file).read_text(encoding="utf-8"), file) if file else (),
        users=UserFile(args.user_file) if args.user_file else {},
        user_header=args.user_header,
        proxies=parse_proxies(args.trusted_proxy),
        proxy_role=ROLES[args.proxy_role] if args.proxy_role else None,
        names=frozenset(args.public_name),
    )


def check_registry(args: argparse.Namespace) -> None:
    """Raises WrongUsage, ConfigError, and MissingExtraError without what reads schemas."""
    if args.registry is None:
        if args.registry_users is not None:
            raise WrongUsage("--registry-users: only with --registry")
        return
    if args.recording is not None:
        raise WrongUsage("--registry: not with --recording, which has no records")
    require("registry", "decoding by schemas")
    check_address("--registry", args.registry)


def check_connect(args: argparse.Namespace) -> None:
    """Raises WrongUsage, ConfigError."""
    if args.connect is None:
        if args.connect_users is not None:
            raise WrongUsage("--connect-users: only with --connect")
        return
    if args.recording is not None:
        raise WrongUsage("--connect: not with --recording, which has no cluster")
    check_address("--connect", args.connect)


def check_address(option: str, url: str) -> None:
    """Raises ConfigError."""
    try:
        RestAddress.parse(url)
    except ValueError as error:
        raise ConfigError(f"{option} {url}: {error}") from None


def check_several(args: argparse.Namespace) -> None:
    """Raises WrongUsage for options that belong to a single cluster."""
    single = (
        *("command_config", "record", "supervisor_fd"),
        *("registry", "registry_users", "connect", "connect_users"),
    )
    named = ["--" + name.replace("_", "-") for name in single if getattr(args, name) is not None]
    if named:
        raise WrongUsage(f"{', '.join(named)}: not with --cluster, whose file has all settings")


def several(args: argparse.Namespace) -> list[PageSubject]:
    """Return the clusters of --cluster. Raises WrongUsage, ConfigError."""
    found: dict[str, PageSubject] = {}
    for text in args.cluster:
        name, _, file = text.partition("=")
        if not CLUSTER_NAME.fullmatch(name) or not file:
            raise WrongUsage(f"--cluster {text}: NAME=FILE is needed, a name of letters and digits")
        if name in found:
            raise WrongUsage(f"--cluster {name}: twice")
        given = client_file(file, "--cluster")
        if BOOTSTRAP_SERVERS not in given:
            raise WrongUsage(f"--cluster {file}: it has no {BOOTSTRAP_SERVERS}")
        one = argparse.Namespace(
            **{
                **vars(args),
                "bootstrap_server": given[BOOTSTRAP_SERVERS],
                "command_config": file,
                "registry": given.get(REGISTRY_URL),
                "history": None if args.history is None else f"{args.history}.{name}",
            }
        )
        try:
            check_registry(one)
            subject, login = alone(one), registry_login(given)
        except ConfigError as error:
            raise WrongUsage(f"--cluster {file}: {error}") from None
        options = replace(subject.options, registry_login=login)
        found[name] = subject._replace(name=name, options=options)
    return list(found.values())


def registry_login(given: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the login for a registry in the settings of Confluent's serializers, None if it is in
    the address, or missing. Raises WrongUsage."""
    source = given.get(REGISTRY_LOGIN_FROM, "URL")
    if source not in ("URL", "USER_INFO"):
        raise WrongUsage(f"{REGISTRY_LOGIN_FROM}: URL or USER_INFO is needed")
    if source == "URL" and REGISTRY_LOGIN not in given:
        return None
    name, _, password = given.get(REGISTRY_LOGIN, "").partition(":")
    if not (name and password):
        raise WrongUsage(f"{REGISTRY_LOGIN}: NAME:PASSWORD is needed")
    return name, password


def alone(args: argparse.Namespace) -> PageSubject:
    """Return the only cluster that is shown, or the recording. Raises WrongUsage, ConfigError."""
    from minikafka.page.dashboard.context import PageOptions
    from minikafka.page.dashboard.serving import PageSubject

    options = PageOptions(
        bootstrap=args.bootstrap_server or "",
        command_config=args.command_config,
        read_only=args.read_only or args.recording is not None,
        supervisor_fd=args.supervisor_fd,
        recording=args.recording,
        record=args.record,
        doors=doors_of(args),
        audit_log=args.audit_log,
        registry=args.registry,
        registry_login=first_user(args.registry_users),
        connect=args.connect,
        connect_login=first_user(args.connect_users),
        history=args.history,
    )
    if args.recording is not None:
        return PageSubject(options, None)
    client = client_config(args, client_id="minikafka-ui", request_timeout_ms=REQUEST_TIMEOUT_MS)
    return PageSubject(options, client)


def first_user(file: str | None) -> tuple[str, str] | None:
    """Return name and password of the first line. Raises ConfigError, OSError."""
    return None if file is None else next(iter(users_of(Path(file)).items()), None)


async def serve(args: argparse.Namespace, shown: list[PageSubject]) -> None:
    from minikafka.page.dashboard.serving import serve_page
    from minikafka.world.real.asgi_server import bind
    from minikafka.world.real.world import real_world

    stopped = asyncio.Event()
    call_when_asked_to_stop(lambda why: stopped.set(), with_stdin=False)
    port = DEFAULT_PORT if args.port is None else args.port
    listening = bind(args.host, port, exact=args.port is not None)
    await serve_page(
        real_world(),
        shown,
        listening,
        stopped,
        lambda address: print(f"page={address}", flush=True),
    )
