"""Where the time of requests goes: Kafka's ``RequestMetrics``, for each API.

Kafka divides a request's time into phases. What they are here:

- ``RequestQueueTimeMs``: the request was received, and waits for earlier ones to be served;
- ``LocalTimeMs``: the handler runs, until it responds, parks the request or awaits something;
- ``RemoteTimeMs``: from then to the response;
- ``ResponseQueueTimeMs``: the response waits for those of earlier requests of its connection;
- ``ResponseSendTimeMs``: the last response of a write waits for its client to take it;
- ``ThrottleTimeMs``: how long a quota mutes the connection;
- ``TotalTimeMs``: from the arrival to the response.

Most requests are served at once: they have a local time and nothing else. Every request costs one
``append``; what it means for the eight histograms is reckoned many requests at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from minikafka.kernel.metrics import Counter, Histogram, Metrics, tag_value
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader
from minikafka.server.listeners.connected_clients import UNKNOWN, ClientSoftware
from minikafka.server.listeners.reply_queue import ReplyTimes

if TYPE_CHECKING:
    from minikafka.protocol.messages.fetch import FetchRequest

GROUP = "kafka.network:type=RequestMetrics"
# A shorter wait of a received request counts as none: the frames of one read are served in turn.
_NO_QUEUE_US = 100
_TOTAL = "TotalTimeMs"
_QUEUE = "RequestQueueTimeMs"
_LOCAL = "LocalTimeMs"
_REMOTE = "RemoteTimeMs"
_RESPONSE_QUEUE = "ResponseQueueTimeMs"
_SEND = "ResponseSendTimeMs"
_THROTTLE = "ThrottleTimeMs"
_PHASES = (_TOTAL, _QUEUE, _LOCAL, _REMOTE, _RESPONSE_QUEUE, _SEND, _THROTTLE)
# The names of the phases for a page.
_SHOWN_PHASES = {
    "total": _TOTAL,
    "queue": _QUEUE,
    "local": _LOCAL,
    "remote": _REMOTE,
    "response_queue": _RESPONSE_QUEUE,
    "send": _SEND,
    "throttle": _THROTTLE,
}
_SIZE = "RequestBytes"
_FOLD_AT = 512
MAX_SOFTWARE = 100  # names and versions of clients of one API, which any client can make up
OTHERS = "others"
# The facts of an API are computed again after so long if it had requests meanwhile, and after the
# longer time in any case: reading seven histograms takes a tenth of a millisecond.
FACTS_MS = 1_000
QUIET_FACTS_MS = 10_000


class WatchedTimes(ReplyTimes, Protocol):
    """One request that a page sees, with its phases. Its API counts the response, too."""

    def served(self, queue_us: int, local_us: int, remote_us: int) -> None:
        """Called once, when it is handled and has its response."""
        ...


class RequestWatch(Protocol):
    """Looks at every request, for a page."""

    def request(
        self, times: RequestTimes, header: RequestHeader, client_host: str, size_bytes: int
    ) -> WatchedTimes:
        """Called with each request."""
        ...


class RequestTimes:
    """The times of the requests of one name, such as ``Produce`` or ``FetchConsumer``, in
    microseconds. Those of a ``part`` count in the ``whole``, too, as in Kafka."""

    __slots__ = (
        "_at_once",
        "_deprecated",
        "_errors",
        "_later",
        "_metrics",
        "_phases",
        "_sizes",
        "_versions",
        "_whole",
        "name",
    )

    def __init__(self, metrics: Metrics, name: str, whole: RequestTimes | None = None) -> None:
        self._metrics = metrics
        self.name = name
        self._whole = whole
        self._at_once: list[tuple[int, int]] = []  # local times and sizes
        # Times in queue, local and remote times, and sizes of the other requests.
        self._later: list[tuple[int, int, int, int]] = []
        self._phases: dict[str, Histogram] = {}
        self._versions: dict[int, Counter] = {}
        self._errors: dict[str, Counter] = {}
        self._deprecated: dict[tuple[int, str, str], Counter] = {}  # by version and client

    def arrived(self, version: int) -> None:
        """Count a request of a version."""
        counter = self._versions.get(version)
        if counter is None:
            self._register()
            counter = self._versions[version] = self._metrics.counter(
                f"{GROUP},name=RequestsPerSec,request={self.name},version={version}"
            )
        counter.value += 1
        if self._whole is not None:
            self._whole.arrived(version)

    def deprecated(self, version: int, software: ClientSoftware) -> None:
        """Count a request of a version that Kafka 4 no longer serves."""
        clients = self._deprecated
        client = (version, software.name or UNKNOWN, software.version or UNKNOWN)
        if client not in clients and len(clients) >= MAX_SOFTWARE:
            client = (version, OTHERS, OTHERS)
        counter = clients.get(client)
        if counter is None:
            name, its_version = map(tag_value, client[1:])
            counter = clients[client] = self._metrics.counter(
                f"{GROUP},name=DeprecatedRequestsPerSec,request={self.name},version={version}"
                f",clientSoftwareName={name},clientSoftwareVersion={its_version}"
            )
        counter.mark()
        if self._whole is not None:
            self._whole.deprecated(version, software)

    def _register(self) -> None:
        """Register the phases with the first request: most APIs are never used."""
        if not self._phases:
            self._phases = {
                phase: self._metrics.histogram(
                    f"{GROUP},name={phase},request={self.name}", 1000, self._fold
                )
                for phase in _PHASES
            }
            self._sizes = self._metrics.histogram(
                f"{GROUP},name={_SIZE},request={self.name}", pull=self._fold
            )

    def served(self, queue_us: int, local_us: int, size: int) -> None:
        """Record a request of so many bytes whose handler responded before it returned."""
        if queue_us >= _NO_QUEUE_US:
            self.responded(queue_us, local_us, 0, size)
            return
        self._at_once.append((local_us, size))
        if len(self._at_once) >= _FOLD_AT:
            self._fold()

    def responded(self, queue_us: int, local_us: int, remote_us: int, size: int) -> None:
        """Record a request that waited in the queue, or whose response came after the handler."""
        self._later.append((queue_us, local_us, remote_us, size))
        if len(self._later) >= _FOLD_AT:
            self._fold()
        if self._whole is not None:
            self._whole.responded(queue_us, local_us, remote_us, size)

    def response_waited(self, waited_us: int) -> None:
        self._record(_RESPONSE_QUEUE, waited_us)

    def response_sent(self, took_us: int) -> None:
        self._record(_SEND, took_us)

    def throttled(self, muted_ms: int) -> None:
        self._record(_THROTTLE, muted_ms * 1000)

    def failed(self, error: str) -> None:
        """Count a response, or a partition of one, that has the error of this name."""
        counter = self._errors.get(error)
        if counter is None:
            counter = self._errors[error] = self._metrics.counter(
                f"{GROUP},name=ErrorsPerSec,request={self.name},error={error}"
            )
        counter.mark()
        if self._whole is not None:
            self._whole.failed(error)

    @property
    def count(self) -> int:
        """How many requests have arrived."""
        return sum(counter.value for counter in self._versions.values())

    def facts(self) -> Mapping[str, Any]:
        """Return counts by version and error, and of each phase quantiles and maximum of the last
        30 to 60 s and the mean of all time."""
        return {
            "count": self.count,
            "versions": {str(version): each.value for version, each in self._versions.items()},
            "errors": {error: counter.value for error, counter in self._errors.items()},
            "phases": {
                shown: _phase_facts(self._phases[phase]) for shown, phase in _SHOWN_PHASES.items()
            },
        }

    def _record(self, phase: str, value: int) -> None:
        self._phases[phase].record(value)
        if self._whole is not None:
            self._whole._record(phase, value)

    def _fold(self) -> None:
        """Record the requests since the last call. Each phase that a request did not have is 0: as
        many zeros are added as make its count that of the requests."""
        at_once, self._at_once = self._at_once, []
        later, self._later = self._later, []
        if self._whole is not None:
            for local_us, size in at_once:
                self._whole.served(0, local_us, size)
        phases = self._phases
        total = phases[_TOTAL]
        if at_once:
            times, sizes = map(list, zip(*at_once, strict=True))
            total.record_all(times)
            phases[_LOCAL].record_all(times)
            self._sizes.record_all(sizes)
        if later:
            queued, handled, waited, sizes = map(list, zip(*later, strict=True))
            total.record_all(list(map(sum, zip(queued, handled, waited, strict=True))))
            phases[_QUEUE].record_all(queued)
            phases[_LOCAL].record_all(handled)
            phases[_REMOTE].record_all(waited)
            self._sizes.record_all(sizes)
        for phase in (_QUEUE, _REMOTE, _RESPONSE_QUEUE, _SEND, _THROTTLE):
            histogram = self._phases[phase]
            histogram.record_zeros(max(0, total.recorded - histogram.recorded))


class AllRequestTimes:
    """The ``RequestTimes`` of every API; they are created with the first request."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._of: dict[str, RequestTimes] = {}
        self._facts: dict[str, tuple[int, Mapping[str, Any]]] = {}  # and when they were computed

    def of(self, name: str, whole: RequestTimes | None = None) -> RequestTimes:
        found = self._of.get(name)
        if found is None:
            found = self._of[name] = RequestTimes(self._metrics, name, whole)
        return found

    def facts(self, now_ms: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the facts of each API that had requests. They may be a second old."""
        for name, times in list(self._of.items()):
            count = times.count
            if not count:
                continue
            computed_ms, facts = self._facts.get(name, (0, {}))
            age_ms = now_ms - computed_ms
            had_more = facts and facts["count"] != count
            if not facts or age_ms >= (FACTS_MS if had_more else QUIET_FACTS_MS):
                facts = times.facts()
                self._facts[name] = (now_ms, facts)
            yield name, facts

    def of_api(self, api_key: ApiKey) -> RequestTimes:
        return self.of(api_key.api_name)

    def of_fetch(self, request: FetchRequest) -> RequestTimes:
        """Return the times of Fetch requests of followers or of consumers."""
        state = request.replica_state
        replica_id = request.replica_id if state is None else state.replica_id
        name = "FetchConsumer" if replica_id < 0 else "FetchFollower"
        return self._of.get(name) or self.of(name, self.of_api(ApiKey.FETCH))


def _phase_facts(histogram: Histogram) -> Mapping[str, int]:
    """Return the figures of a phase in microseconds."""
    mean, longest = round(histogram.mean * 1000), round(histogram.max * 1000)
    half, most = histogram.quantiles((0.5, 0.99)) if longest else (0, 0)
    return {
        "p50_us": round(half * 1000),
        "p99_us": round(most * 1000),
        "max_us": longest,
        "mean_us": mean,
    }
