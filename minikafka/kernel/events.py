"""The event log: an event name with key=value pairs in each line, without payload bytes.

A token bucket for each client and cause bounds how often a client may cause an event to be logged.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TextIO, TypeAlias

from minikafka.kernel.disk_errors import name_errnos
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.lazy_module import LazyModule

BURST = 100  # events of one client and cause that are logged without a pause
PERIOD_MS = 1000  # then one in so long
MAX_BUCKETS = 4096

_Key: TypeAlias = tuple[str, Hashable]


@dataclass(slots=True)
class _Bucket:
    """``tokens`` at ``at_ms``; ``suppressed`` counts the events since the last logged one."""

    tokens: float
    at_ms: int
    suppressed: int = 0


class EventRates:
    """The token buckets of all clients and causes. A bucket holds ``burst`` tokens and gets one
    every ``period_ms``; an event that finds none is suppressed.

    At ``max_buckets`` the full ones are dropped, since a new bucket would be as full. While none
    is full, new clients share one bucket for each cause; ``cause`` must therefore be the broker's
    own words, of which there are few.
    """

    def __init__(
        self, burst: int = BURST, period_ms: int = PERIOD_MS, max_buckets: int = MAX_BUCKETS
    ) -> None:
        self._burst = burst
        self._period_ms = period_ms
        self._max_buckets = max_buckets
        self._buckets: dict[_Key, _Bucket] = {}
        self._sweep_at_ms = 0  # no bucket can be dropped earlier

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, client: str, cause: Hashable, now_ms: int) -> int | None:
        """Take a token. Return the number of events of this client and cause that were suppressed
        since the last one that was logged, or None if this one is suppressed, too."""
        bucket = self._bucket((client, cause), now_ms)
        self._fill(bucket, now_ms)
        if bucket.tokens < 1:
            bucket.suppressed += 1
            return None
        bucket.tokens -= 1
        suppressed, bucket.suppressed = bucket.suppressed, 0
        return suppressed

    def _bucket(self, key: _Key, now_ms: int) -> _Bucket:
        found = self._buckets.get(key)
        if found is not None:
            return found
        if len(self._buckets) >= self._max_buckets and not self._sweep(now_ms):
            key = ("", key[1])
        return self._buckets.setdefault(key, _Bucket(self._burst, now_ms))

    def _sweep(self, now_ms: int) -> bool:
        """Drop the full buckets; return whether there is room. The buckets are looked at once a
        period: no attacker with many addresses makes each event cost a sweep."""
        if now_ms < self._sweep_at_ms:
            return False
        self._sweep_at_ms = now_ms + self._period_ms
        for bucket in self._buckets.values():
            self._fill(bucket, now_ms)
        kept = {k: b for k, b in self._buckets.items() if b.tokens < self._burst}
        self._buckets = kept
        return len(kept) < self._max_buckets

    def _fill(self, bucket: _Bucket, now_ms: int) -> None:
        gained = max(0, now_ms - bucket.at_ms) / self._period_ms
        bucket.tokens = min(self._burst, bucket.tokens + gained)
        bucket.at_ms = now_ms


if TYPE_CHECKING:
    import structlog
else:
    structlog = LazyModule("structlog")


class EventLog(Protocol):
    """The log of a component. Event names are short and stable; facts are key-value pairs."""

    def debug(self, event: str, **facts: Any) -> None: ...

    def info(self, event: str, **facts: Any) -> None: ...

    def warning(self, event: str, **facts: Any) -> None: ...

    def error(self, event: str, **facts: Any) -> None: ...

    def bind(self, **facts: Any) -> EventLog: ...


LEVELS = {
    "TRACE": 0, "DEBUG": 10, "INFO": 20, "WARN": 30, "WARNING": 30, "ERROR": 40, "FATAL": 50,
}  # fmt: skip

ROOT_LOGGER = "root"  # its level counts for every logger without one
# The components that log. Each is a logger whose level may be set separately.
LOGGERS = (
    "apis", "authorizer", "auto-topic-creation", "broker-watch", "channel", "client-quotas",
    "client-telemetry", "config-admin", "config-changes", "consumer", "controller",
    "controller-channels", "delegation-tokens", "dynamic-config", "features", "group-configs",
    "group-coordinator", "http", "internal-topics", "isr", "kafka-shutdown-hook", "log_cleaner",
    "log_manager", "loop", "metadata", "network", "node", "node-to-controller", "orphaned-logs",
    "partition-growth", "peer-metadata", "producer-ids", "record-deletion", "replica-fetcher",
    "replica-manager", "scram-credentials", "share-coordinator", "share-partitions",
    "state-change", "topic-admin", "topic-config", "transaction-coordinator",
    "transaction-verification", "zookeeper",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoggerLevels:
    """The levels of the process's loggers, names of ``LEVELS``; ``own`` has those that differ.

    It is stored among structlog's processors, but changes no event: a logger reads its level when
    it is bound, so that an event below the level costs no look-up."""

    root: str
    own: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, _: Any, __: str, facts: MutableMapping[str, Any]) -> Any:
        return facts

    def of(self, logger: str) -> str:
        return self.own.get(logger, self.root)


def logger_levels() -> LoggerLevels:
    """Return the levels in effect. Before ``configure`` all events are logged."""
    for processor in structlog.get_config()["processors"]:
        if isinstance(processor, LoggerLevels):
            return processor
    return LoggerLevels("TRACE")


def set_logger_levels(levels: LoggerLevels) -> None:
    """Use these levels from the next event on."""
    others = [p for p in structlog.get_config()["processors"] if not isinstance(p, LoggerLevels)]
    structlog.configure(processors=[levels, *others])


Sink = Callable[[str, str, dict[str, Any]], None]  # level, event, facts


class _Kept(NamedTuple):
    """Where the logs of one cluster go, whatever the program around it does with structlog."""

    sink: Sink
    level: int


_KEPT: ContextVar[_Kept | None] = ContextVar("kept", default=None)


@contextmanager
def kept(sink: Sink, level: str = "INFO") -> Iterator[None]:
    """Pass the events of logs that are created within the block, and in its tasks, to ``sink``
    only. Structlog is not used, and not configured."""
    token = _KEPT.set(_Kept(sink, LEVELS[_spelt(level)]))
    try:
        yield
    finally:
        _KEPT.reset(token)


@contextmanager
def printed(level: str) -> Iterator[None]:
    """Print the events of logs that are created within the block, and in its tasks, from ``level``
    on. Structlog is imported and configured (``configure``) when there is one."""
    configured = False

    def print_event(method: str, event: str, facts: dict[str, Any]) -> None:
        nonlocal configured
        if not configured:
            configure(level)
            configured = True
        getattr(_Log(facts), method)(event)

    with kept(print_event, level):
        yield


def event_log(component: str, **facts: Any) -> EventLog:
    """Return the log of a component, such as ``event_log("controller", broker=1)``."""
    facts = {"component": component, **facts}
    kept, tap = _KEPT.get(), _TAP.get()
    log: EventLog = _Log(facts) if kept is None else _KeptLog(facts, kept)
    return log if tap is None else _TappedLog(facts, log, tap)


_TAP: ContextVar[Sink | None] = ContextVar("tap", default=None)


@contextmanager
def tapped(sink: Sink) -> Iterator[None]:
    """Pass the events from INFO on, of logs that are created within the block and in its tasks, to
    ``sink``, too."""
    token = _TAP.set(sink)
    try:
        yield
    finally:
        _TAP.reset(token)


class _TappedLog:
    """A log whose events go to a sink, too."""

    __slots__ = ("_facts", "_log", "_sink")

    def __init__(self, facts: dict[str, Any], log: EventLog, sink: Sink) -> None:
        self._facts = facts
        self._log = log
        self._sink = sink

    def debug(self, event: str, **facts: Any) -> None:
        self._log.debug(event, **facts)

    def info(self, event: str, **facts: Any) -> None:
        self._sink("info", event, name_errnos({**self._facts, **facts}))
        self._log.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._sink("warning", event, name_errnos({**self._facts, **facts}))
        self._log.warning(event, **facts)

    def error(self, event: str, **facts: Any) -> None:
        self._sink("error", event, name_errnos({**self._facts, **facts}))
        self._log.error(event, **facts)

    def bind(self, **facts: Any) -> EventLog:
        return _TappedLog({**self._facts, **facts}, self._log.bind(**facts), self._sink)


class _KeptLog:
    """A log whose events go to a sink."""

    __slots__ = ("_facts", "_kept")

    def __init__(self, facts: dict[str, Any], kept: _Kept) -> None:
        self._facts = facts
        self._kept = kept

    def _keep(self, level: str, event: str, facts: dict[str, Any]) -> None:
        if LEVELS[level.upper()] >= self._kept.level:
            self._kept.sink(level, event, name_errnos({**self._facts, **facts}))

    def debug(self, event: str, **facts: Any) -> None:
        self._keep("debug", event, facts)

    def info(self, event: str, **facts: Any) -> None:
        self._keep("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._keep("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        self._keep("error", event, facts)

    def bind(self, **facts: Any) -> EventLog:
        return _KeptLog({**self._facts, **facts}, self._kept)


class _Log:
    """A log that reuses its structlog logger until structlog is configured again.

    structlog would create a logger for every line, which costs more than writing the line.
    """

    __slots__ = ("_facts", "_logger", "_processors")

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._logger: Any = None
        self._processors: object = None

    def _configured(self) -> Any:
        processors = structlog.get_config()["processors"]
        if processors is not self._processors:
            level = LEVELS[logger_levels().of(self._facts["component"])]
            wrapper = structlog.make_filtering_bound_logger(level)
            self._logger = structlog.wrap_logger(None, wrapper_class=wrapper, **self._facts).bind()
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


def _spelt(level: str) -> str:
    """Return the name of a level as Kafka spells it."""
    level = level.upper()
    return "WARN" if level == "WARNING" else level


# The host of the client whose request the current task or callback serves.
_SERVED_CLIENT: ContextVar[str] = ContextVar("served_client")
MAX_CLIENT_FACT = 1000  # characters of one fact of an event that a client has caused


@contextmanager
def serving_client(host: str) -> Iterator[None]:
    """Within the block, and in tasks that are created there, events carry ``client=host``. They are
    bounded by ``ClientEvents``."""
    token = _SERVED_CLIENT.set(host)
    try:
        yield
    finally:
        _SERVED_CLIENT.reset(token)


class ClientEvents:
    """The processor that bounds what clients can write to the log.

    It adds the client's host to the events of its requests, and applies ``EventRates`` to every
    event that has one. The event that ends a pause says how many were ``suppressed``. Long facts
    are cut: a client may choose a name of 32 KB.
    """

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._rates = EventRates()

    def __call__(self, _: Any, __: str, facts: MutableMapping[str, Any]) -> Any:
        client = facts.get("client") or _SERVED_CLIENT.get("")
        if not client:
            return facts
        facts["client"] = client
        cause = (facts.get("component"), facts["event"], facts.get("reason"))
        suppressed = self._rates.admit(str(client), cause, self._monotonic_ms())
        if suppressed is None:
            raise structlog.DropEvent
        if suppressed:
            facts["suppressed"] = suppressed
        for key, value in facts.items():
            if isinstance(value, str) and len(value) > MAX_CLIENT_FACT:
                facts[key] = f"{value[:MAX_CLIENT_FACT]}... ({len(value)} characters)"
        return facts


def _name_errnos(_: Any, __: str, facts: MutableMapping[str, Any]) -> Any:
    return name_errnos(facts)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def configure(
    level: str = "INFO",
    json: bool = False,
    stream: TextIO | None = None,
    monotonic_ms: Callable[[], int] = _monotonic_ms,
) -> None:
    """Set up the process's event log. Called once, by an entry point, never by a library.

    No line can be forged or can control a terminal: every character of a value that is not
    printable is escaped."""
    renderers: list[Any] = [plain_line]
    if json:
        renderers = [structlog.processors.JSONRenderer()]
    elif (stream or sys.stderr).isatty():
        renderers = [escape_facts, structlog.dev.ConsoleRenderer(colors=True)]
    structlog.configure(
        processors=[
            LoggerLevels(_spelt(level)),
            ClientEvents(monotonic_ms),
            _name_errnos,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )


def plain_line(_: Any, __: str, facts: MutableMapping[str, Any]) -> str:
    """Format a line as structlog's console renderer does without colours, in a tenth of the time.

    The time matters: a leader change of 10,000 partitions logs 20,000 lines.
    """
    stamp, level, event = facts.pop("timestamp"), facts.pop("level"), facts.pop("event")
    trace = facts.pop("exception", None)
    pairs = " ".join([f"{key}={_shown(facts[key])}" for key in sorted(facts)])
    line = f"{stamp} [{level:<9}] {_escaped(str(event)):<30} {pairs}".rstrip()
    return line if trace is None else f"{line}\n{_trace(trace)}"


def escape_facts(_: Any, __: str, facts: MutableMapping[str, Any]) -> Any:
    """Escape what structlog's console renderer would print as it is."""
    for key, value in facts.items():
        if key == "exception":
            facts[key] = _trace(value)
        elif not (text := value if isinstance(value, str) else repr(value)).isprintable():
            facts[key] = _escaped(text)
    return facts


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value if _PLAIN(value) and value.isprintable() else repr(value)
    return _escaped(repr(value))  # repr escapes strings, but classes may define their own


def _escaped(text: str) -> str:
    """Return the text with an escape for each character that is not printable: control characters,
    line separators, bidirectional controls, lone surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _trace(trace: str) -> str:
    """Return a traceback with indented lines: a newline in an error's message, which may be a
    client's text, cannot begin a line that looks like an event."""
    return "\n".join("  " + _escaped(line) for line in trace.split("\n"))


_PLAIN = re.compile(r"""[^ =\"']*""").fullmatch


@contextmanager
def diverted(sink: Sink, level: str = "INFO") -> Iterator[None]:
    """Within the block, pass events to ``sink(level, event, facts)`` only."""
    before = structlog.get_config()

    def hand_over(_: Any, method: str, facts: MutableMapping[str, Any]) -> NoReturn:
        rest = dict(facts)
        sink(method, rest.pop("event"), name_errnos(rest))
        raise structlog.DropEvent

    structlog.configure(
        processors=[LoggerLevels(_spelt(level)), hand_over],
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
