"""The route of the history: the last minutes or hours of one thing."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.page.dashboard.context import HttpError, PageContext
from minikafka.page.dashboard.history.ring import COARSE_MS, COARSE_STEPS, PageHistory

KINDS: Final = ("cluster", "broker", "topic", "group")
MAX_MINUTES: Final = COARSE_MS * COARSE_STEPS // 60_000
MAX_LINES: Final = 100  # of one response
BAD_REQUEST: Final = 400


def routes(context: PageContext) -> list[BaseRoute]:
    cluster = context.cluster
    if cluster is None:  # a recording is shown
        return []

    async def history(request: Request) -> Response:
        kind, minutes = request.query_params.get("of", ""), _minutes(request)
        if kind not in KINDS:
            raise HttpError(BAD_REQUEST, f"of must be one of {', '.join(KINDS)}.")
        name, now_ms = request.query_params.get("name"), context.world.clock.wall_ms()
        return JSONResponse(lines(cluster.sampler.history, kind, name, now_ms, minutes))

    return [Route("/api/history", history)]


def lines(
    history: PageHistory, kind: str, name: str | None, now_ms: int, minutes: int
) -> dict[str, Any]:
    """Return the lines of a thing, or of all things of a kind up to a bound."""
    wanted = history.fine.of(kind, name) + history.coarse.of(kind, name)
    found = history.lines(sorted(set(wanted))[:MAX_LINES], now_ms, minutes * 60_000)
    return {
        "step_ms": found.step_ms,
        "at": list(found.at_ms),
        "lines": [
            {"name": series.name, "what": series.what, "values": list(values)}
            for series, values in found.values.items()
        ],
    }


def _minutes(request: Request) -> int:
    """Raises HttpError."""
    text = request.query_params.get("minutes", "60")
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) > 0):
        raise HttpError(BAD_REQUEST, f"minutes must be a number up to {MAX_MINUTES}.")
    return min(int(text), MAX_MINUTES)
