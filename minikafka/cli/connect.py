"""Clients of the verbs that connect to brokers: their configuration, and the world they run in."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from minikafka.cli.client_properties import command_config, with_properties
from minikafka.cli.first_contact import FirstContact
from minikafka.cli.standard_streams import changes_completed
from minikafka.cli.usage import WrongUsage
from minikafka.client.admin.admin import Admin
from minikafka.client.config import ClientConfig, parse_bootstrap_servers
from minikafka.client.session import Client
from minikafka.kernel import events
from minikafka.kernel.ports import World

T = TypeVar("T")
TIMEOUT_MS = 30_000  # for which a verb tries to reach a broker


def client_config(args: argparse.Namespace, **more: Any) -> ClientConfig:
    """Return the configuration of a verb's clients: --bootstrap-server, and the keys of
    --command-config. Raises WrongUsage."""
    (config,) = with_properties(command_config(args), bare_client_config(args, **more))
    return config  # type: ignore[no-any-return]


def bare_client_config(args: argparse.Namespace, **more: Any) -> ClientConfig:
    """Return the configuration of --bootstrap-server alone. Raises WrongUsage."""
    try:
        parse_bootstrap_servers(args.bootstrap_server)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    return ClientConfig(
        bootstrap_servers=args.bootstrap_server, default_api_timeout_ms=TIMEOUT_MS, **more
    )


def run_client(work: Callable[[World], Coroutine[Any, Any, T]], limit_ms: int | None = None) -> T:
    """Run ``work`` in the real world and log errors only.

    A client retries to connect, so the first failure is printed to standard error at once, with the
    time ``limit_ms`` for which the client tries (None: without a limit). ``work`` runs to its end
    even if its output cannot be written (``changes_completed``)."""
    from minikafka.world.real.world import real_world, run

    async def main() -> T:
        world = real_world()
        return await work(replace(world, network=FirstContact(world.network, limit_ms)))

    with events.printed("ERROR"), changes_completed():
        return run(main())


def run_admin(config: ClientConfig, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run ``work`` with an admin client, as ``run_client`` does."""

    async def administer(world: World) -> T:
        async with Admin(world, config) as admin:
            return await work(admin)

    return run_client(administer, config.default_api_timeout_ms)


def check_answered(client: Client) -> None:
    """Raise ConnectionError if the client never received metadata.

    An empty result would then be wrong: no broker has responded.
    """
    if not client.session.metadata.view.nodes:
        servers = client.session.config.bootstrap_servers
        raise ConnectionError(f"no broker answered at {servers}")
