"""The verb `learn`: a page with a simulated cluster to play, stop, step, rewind and break."""

from __future__ import annotations

import argparse
import asyncio
import webbrowser
from pathlib import Path
from typing import Any

from minikafka.cli.stopping import call_when_asked_to_stop
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import at_least
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError
from minikafka.kernel.extras import require

DEFAULT_PORT = 8090
HOST = "127.0.0.1"
LANGUAGES = ("en", "zh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chapter", metavar="NAME", help="open this chapter")
    parser.add_argument(
        "--recipe",
        metavar="FILE",
        help="open a recipe, such as that of a failing simulation; - reads standard input",
    )
    parser.add_argument("--language", choices=LANGUAGES, help="of the texts")
    parser.add_argument(
        "--port",
        type=at_least(0),
        help=f"port of the page ({DEFAULT_PORT}, or the next free one; 0: the system chooses)",
    )
    parser.add_argument(
        "--host", default=HOST, metavar="ADDRESS", help=f"address to listen on ({HOST})"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument(
        "--site", metavar="DIR", help="write a static site that needs no server, and end"
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page until SIGTERM or SIGINT, or write the static site."""
    if args.site is not None:
        return write_site(args)
    require("ui", "the page")
    mode = opened(args)
    from minikafka.world.real.loop import run as run_loop

    with events.printed("ERROR"):
        run_loop(serve(args, mode))
    return 0


def write_site(args: argparse.Namespace) -> int:
    """Write the static site."""
    from minikafka.page.learn.site import SiteError
    from minikafka.page.learn.site import write_site as write

    try:
        size = write(Path(args.site))
    except SiteError as error:
        raise ConfigError(f"--site {args.site}: {error}") from None
    sizes = f"{size.size_bytes / 1e6:.1f} MB, {size.gzip_bytes / 1e6:.1f} MB with gzip"
    print(f"wrote {size.files} files to {args.site}: {sizes}")
    return 0


def opened(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the page opens at its start. Raises ConfigError."""
    if args.chapter is not None and args.recipe is not None:
        raise WrongUsage("--chapter: not with --recipe, which names its own")
    found: dict[str, Any] = {}
    if args.language is not None:
        found["language"] = args.language
    if args.chapter is not None:
        from minikafka.page.learn.chapters.table import TABLE

        if args.chapter not in TABLE.values():
            raise WrongUsage(f"--chapter: one of {', '.join(TABLE.values())}")
        found["chapter"] = args.chapter
    if args.recipe is not None:
        found |= opened_recipe(args.recipe)
    return found


def opened_recipe(file: str) -> dict[str, Any]:
    """Return the link of the recipe in a file, and the time that it wants to be shown at. Raises
    ConfigError."""
    from minikafka.page.learn.recipe import RecipeError, read_report

    try:
        text = _text_of(file)
        report = read_report(text)
        found: dict[str, Any] = {"fragment": report.recipe.to_fragment()}
    except (OSError, UnicodeError, RecipeError) as error:
        raise ConfigError(f"--recipe {file}: {error}") from None
    if report.t_us is not None:
        found["t_us"] = report.t_us
    return found


def _text_of(file: str) -> str:
    if file == "-":
        import sys

        return sys.stdin.read()
    return Path(file).read_text()


async def serve(args: argparse.Namespace, mode: dict[str, Any]) -> None:
    from minikafka.page.dashboard.guards import Guard
    from minikafka.page.learn.serving.server import serve_learn
    from minikafka.world.real.asgi_server import bind
    from minikafka.world.real.world import real_world

    stopped = asyncio.Event()
    call_when_asked_to_stop(lambda why: stopped.set(), with_stdin=False)
    port = DEFAULT_PORT if args.port is None else args.port
    listening = bind(args.host, port, exact=args.port is not None)

    def ready(guard: Guard) -> None:
        print(f"page={guard.address}", flush=True)
        if args.open:
            webbrowser.open(guard.address)

    await serve_learn(real_world(), mode, listening, stopped, ready)
