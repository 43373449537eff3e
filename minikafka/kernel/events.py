"""The event log: structured lines, one event name with key=value pairs, never payload bytes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol, TextIO

import structlog


class EventLog(Protocol):
    """What components log to. Event names are short and stable; facts go into the pairs."""

    def debug(self, event: str, **facts: Any) -> None: ...

    def info(self, event: str, **facts: Any) -> None: ...

    def warning(self, event: str, **facts: Any) -> None: ...

    def error(self, event: str, **facts: Any) -> None: ...

    def bind(self, **facts: Any) -> EventLog: ...


LEVELS = {"DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40}


def event_log(component: str, **facts: Any) -> EventLog:
    """A log for one component, e.g. ``event_log("controller", broker=1)``."""
    return _Log({"component": component, **facts})


class _Log:
    """Keeps the logger that structlog makes for these facts until it is configured anew. Making one
    for every line, as structlog does, costs more than to write the line, and much more than not to
    write it."""

    __slots__ = ("_facts", "_logger", "_processors")

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._logger: Any = None
        self._processors: object = None

    def _configured(self) -> Any:
        processors = structlog.get_config()["processors"]
        if processors is not self._processors:
            self._logger = structlog.get_logger(**self._facts).bind()
            self._processors = processors
        return self._logger

    def debug(self, event: str, **facts: Any) -> None:
        self._configured().debug(event, **facts)

    def info(self, event: str, **facts: Any) -> None:
        self._configured().info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._configured().warning(event, **facts)

    def error(self, event: str, **facts: Any) -> None:
        self._configured().error(event, **facts)

    def bind(self, **facts: Any) -> EventLog:
        return _Log({**self._facts, **facts})


def configure(level: str = "INFO", json: bool = False, stream: TextIO | None = None) -> None:
    """Set up the process's event log. Called once, by an entry point, never by a library."""
    renderer: Any = plain_line
    if json:
        renderer = structlog.processors.JSONRenderer()
    elif (stream or sys.stderr).isatty():
        renderer = structlog.dev.ConsoleRenderer(colors=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )


def plain_line(_: Any, __: str, facts: MutableMapping[str, Any]) -> str:
    """As structlog's console writes a line without colours, in a tenth of the time: ten thousand
    partitions that change hands are twenty thousand lines."""
    stamp, level, event = facts.pop("timestamp"), facts.pop("level"), facts.pop("event")
    trace = facts.pop("exception", None)
    pairs = " ".join([f"{key}={_shown(facts[key])}" for key in sorted(facts)])
    line = f"{stamp} [{level:<9}] {event:<30} {pairs}".rstrip()
    return line if trace is None else f"{line}\n{trace}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value if _PLAIN(value) else repr(value)
    return repr(value)


_PLAIN = re.compile(r"""[^ \t=\r\n"']*""").fullmatch


@contextmanager
def diverted(
    sink: Callable[[str, str, dict[str, Any]], None], level: str = "INFO"
) -> Iterator[None]:
    """Within the block, events go to ``sink(level, event, facts)`` and nowhere else."""
    before = structlog.get_config()

    def hand_over(_: Any, method: str, facts: MutableMapping[str, Any]) -> NoReturn:
        told = dict(facts)
        sink(method, told.pop("event"), told)
        raise structlog.DropEvent

    structlog.configure(
        processors=[hand_over],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level.upper()]),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
