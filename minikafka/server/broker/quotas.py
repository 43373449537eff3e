"""Client quotas of a broker: what requests use, and for how long their connections are muted.

``ClientQuotas`` has the limits and accounts of the four kinds. A request of a client with a limit
has a ``RequestThrottle``, which measures it and decides, when the response is there, for how long
the client is throttled (KIP-219): the response leaves at once with ``throttle_time_ms``, and the
connection is not read for that long. Other requests have none, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from itertools import islice
from typing import Any, Final, TypeAlias

from minikafka.core.client_quota import (
    Account,
    ClientQuota,
    Metered,
    MutationQuota,
    RateConfig,
    SampledRate,
    TokenBucket,
    take_permissively,
    take_strictly,
)
from minikafka.core.security.client_quotas import CLIENT_KEYS, sanitized
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock

NS_PER_MS: Final = 1_000_000
# Percent of the event loop's time, for each nanosecond in a second.
PERCENT_PER_NS: Final = 100 / 1_000_000_000
MAX_METRICS: Final = 1_000  # accounts of one kind whose metrics are shown: the last ones used


class Quota(Enum):
    """What requests of an API use, besides the time of the event loop."""

    REQUESTS = auto()  # nothing else
    PRODUCE = auto()
    FETCH = auto()
    MUTATIONS = auto()  # of the controller: partitions that are created or deleted
    EXEMPT = auto()  # requests of brokers, which only count if their authorization is refused


class ClientQuotas:
    """Kafka's ``QuotaManagers``, without those of replication. ``enabled`` is False while no client
    has a limit; then no other method need be called."""

    def __init__(
        self,
        clock: Clock,
        config: RateConfig | None = None,
        controller_config: RateConfig | None = None,
        metrics: Metrics | None = None,
        log: EventLog | None = None,
    ) -> None:
        config = config or RateConfig()
        self.clock = clock
        self.enabled = False
        self.produce = ClientQuota(config)
        self.fetch = ClientQuota(config)
        self.request = ClientQuota(config, max_throttle_ms=config.window_ms)
        self.mutations = MutationQuota(controller_config or RateConfig())
        self.by_key: Mapping[str, ClientQuota | MutationQuota] = {
            "producer_byte_rate": self.produce,
            "consumer_byte_rate": self.fetch,
            "request_percentage": self.request,
            "controller_mutation_rate": self.mutations,
        }
        self.rates: Mapping[str, ClientQuota] = {
            key: quota for key, quota in self.by_key.items() if isinstance(quota, ClientQuota)
        }
        assert self.by_key.keys() == CLIENT_KEYS.keys()
        self._log = log or event_log("client-quotas")
        if metrics is not None:
            metrics.family(self._metrics)

    def set(self, user: str | None, client_id: str | None, config: Mapping[str, str]) -> None:
        """Set the limits of an entity to those of its configuration, and remove the others. A value
        that is no number, which another tool may have written, is logged and counts as missing.
        See ``QuotaLimits`` for the names."""
        for key, quota in self.by_key.items():
            text = config.get(key)
            limit = None
            if text is not None:
                try:
                    limit = float(text)
                except ValueError:
                    self._log.error("quota_ignored", key=key, user=user, client_id=client_id)
            quota.limits.set(user, client_id, limit)
        self.enabled = any(quota.limits for quota in self.by_key.values())

    def clear(self) -> None:
        """Remove all limits."""
        for quota in self.by_key.values():
            quota.limits.clear()
        self.enabled = False

    def throttle_of(
        self, quota: Quota, user: str, client_id: str, size: int
    ) -> RequestThrottle | None:
        """Return what measures a request of ``size`` bytes from now on, and throttles its client;
        None if the client has no limit."""
        now_ns = self.clock.monotonic_ns()
        now_ms = now_ns // NS_PER_MS
        request = self.request.find(user, client_id, now_ms)
        produce: Metered[SampledRate] | None = None
        fetch: Metered[SampledRate] | None = None
        mutations: Metered[TokenBucket] | None = None
        if quota is Quota.PRODUCE:
            produce = self.produce.find(user, client_id, now_ms)
        elif quota is Quota.FETCH:
            fetch = self.fetch.find(user, client_id, now_ms)
        elif quota is Quota.MUTATIONS:
            mutations = self.mutations.find(user, client_id, now_ms)
        if not (request or produce or fetch or mutations):
            return None
        return RequestThrottle(self, quota, size, now_ns, request, produce, fetch, mutations)

    def _metrics(self) -> Iterator[tuple[str, float]]:
        """Yield the metrics of the accounts that were used last."""
        now_ms = self.clock.monotonic_ms()
        for group, quota, name in (
            ("Produce", self.produce, "byte-rate"),
            ("Fetch", self.fetch, "byte-rate"),
            ("Request", self.request, "request-time"),
        ):
            for account, metered in islice(quota.accounts.recent(), MAX_METRICS):
                yield _metric(group, name, account), metered.use.per_second(now_ms)
                yield (
                    _metric(group, "throttle-time", account),
                    metered.throttle_times.average(now_ms),
                )
        group = "ControllerMutation"
        for account, bucket in islice(self.mutations.accounts.recent(), MAX_METRICS):
            limit = self.mutations.limits.limit_of(account)
            if limit is not None:
                yield _metric(group, "tokens", account), bucket.use.tokens(limit, now_ms)
            yield _metric(group, "throttle-time", account), bucket.throttle_times.average(now_ms)


def _metric(group: str, name: str, account: Account) -> str:
    user, client_id = sanitized(account.user), sanitized(account.client_id)
    return f"kafka.server:type={group},user={user},client-id={client_id}:{name}"


class MutationPermits:
    """The partitions that one request creates or deletes.

    A ``strict`` request is refused while the bucket is below zero. Another one comes from a client
    that does not know the error: it is carried out, and throttled afterwards."""

    __slots__ = ("_clock", "_metered", "_strict", "_throttle_ms", "_throttled_ms")

    def __init__(self, clock: Clock, metered: Metered[TokenBucket], strict: bool) -> None:
        self._clock = clock
        self._metered = metered
        self._strict = strict
        self._throttle_ms = 0
        self._throttled_ms = 0  # when the throttle time was set

    def take(self, partitions: int) -> None:
        """Take a token for each partition. Raises KafkaError THROTTLING_QUOTA_EXCEEDED."""
        now_ms = self._clock.monotonic_ms()
        take = take_strictly if self._strict else take_permissively
        throttle_ms = take(self._metered, partitions, now_ms)
        if throttle_ms:
            self._throttle_ms, self._throttled_ms = throttle_ms, now_ms
            if self._strict:
                raise KafkaError(
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
                )

    def throttle_ms(self) -> int:
        """Return for how long to throttle the client. The time for which the request has waited
        since the last ``take`` is deducted."""
        waited_ms = self._clock.monotonic_ms() - self._throttled_ms
        return max(0, self._throttle_ms - waited_ms)


TakePermits: TypeAlias = Callable[[int], None]


def take_freely(_: int) -> None:
    """Take permits of a client without a limit."""


class RequestThrottle:
    """Measures one request of a client with a limit, and decides for how long to throttle it.

    The time of the loop counts between ``resume`` and ``pause``; it runs from the start, which is
    at ``now_ns``. ``exempt`` requests are not throttled; a handler may set it."""

    __slots__ = (
        "_busy_ns",
        "_controller_ms",
        "_fetch",
        "_finished_ns",
        "_mutations",
        "_now_ns",
        "_permits",
        "_produce",
        "_quota",
        "_quotas",
        "_request",
        "_running_since_ns",
        "_throttle_ms",
        "exempt",
        "size",
    )

    def __init__(
        self,
        quotas: ClientQuotas,
        quota: Quota,
        size: int,
        now_ns: int,
        request: Metered[SampledRate] | None,
        produce: Metered[SampledRate] | None,
        fetch: Metered[SampledRate] | None,
        mutations: Metered[TokenBucket] | None,
    ) -> None:
        self._quotas = quotas
        self._now_ns = quotas.clock.monotonic_ns
        self._quota = quota
        self.size = size
        self._request = request
        self._produce = produce
        self._fetch = fetch
        self._mutations = mutations
        self._permits: MutationPermits | None = None
        self._controller_ms = 0  # for how long the controller throttles the client
        self.exempt = False
        self._throttle_ms: int | None = None  # once it is known
        self._busy_ns = 0
        self._running_since_ns: int | None = now_ns
        self._finished_ns = 0

    # -- the time of the loop

    def resume(self) -> None:
        self._running_since_ns = self._now_ns()

    def pause(self) -> None:
        self._busy_ns = self._busy(self._now_ns())
        self._running_since_ns = None

    def _busy(self, now_ns: int) -> int:
        if self._running_since_ns is None:
            return self._busy_ns
        return self._busy_ns + now_ns - self._running_since_ns

    # -- handlers call these

    @property
    def most_fetched(self) -> float:
        """How many bytes a Fetch response may have without being throttled in any case."""
        return float("inf") if self._fetch is None else self._quotas.fetch.most_at_once(self._fetch)

    def fetched(self, size: int) -> bool:
        """Record a Fetch response of ``size`` bytes. Return whether the client is throttled; then
        the response must be empty, and the bytes do not count."""
        now_ns = self._now_ns()
        now_ms = now_ns // NS_PER_MS
        request_ms, fetch_ms = self._request_ms(now_ns, now_ms), 0
        if self._fetch is not None:
            fetch_ms = self._quotas.fetch.record(self._fetch, size, now_ms)
            if fetch_ms or request_ms:
                self._fetch.use.record(-size, now_ms)
        self._settle(request_ms, self._fetch, fetch_ms, now_ms)
        return bool(request_ms or fetch_ms)

    def mutations(self, strict: bool) -> TakePermits:
        """Return the function that takes a permit for each partition that the request creates or
        deletes. It raises KafkaError THROTTLING_QUOTA_EXCEEDED if the request is ``strict``."""
        if self._mutations is None:
            return take_freely
        self._permits = MutationPermits(self._quotas.clock, self._mutations, strict)
        return self._permits.take

    def auto_creation(self) -> TakePermits:
        """Return the function that takes permits for topics that the request creates as a side
        effect. As in Kafka, they do not throttle the request itself."""
        if self._mutations is None:
            return take_freely
        return MutationPermits(self._quotas.clock, self._mutations, strict=False).take

    def throttled_by_controller(self, throttle_ms: int) -> None:
        """Throttle the client for at least as long as the controller does, to which the request was
        forwarded. The controller counts the mutations of forwarded requests."""
        self._controller_ms = throttle_ms

    # -- the response

    def finish(self, response: Any) -> int:
        """Record the request, whose response is ready; None stands for no response. Return for how
        long to mute the connection, and note it in the response."""
        counts = False
        if self._throttle_ms is None:
            counts = response is not None and not self._is_exempt(response)
        throttle_ms = self._throttled_ms(counts)
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        return throttle_ms

    def _throttled_ms(self, counts: bool) -> int:
        """Record the request. The time of the loop ``counts`` if a client gets a response."""
        now_ns = self._now_ns()
        if self._throttle_ms is None:
            now_ms = now_ns // NS_PER_MS
            request_ms = self._request_ms(now_ns, now_ms) if counts else 0
            other: Metered[Any] | None = None
            other_ms = 0
            if self._produce is not None:
                other = self._produce
                other_ms = self._quotas.produce.record(self._produce, self.size, now_ms)
            elif self._permits is not None:
                other, other_ms = self._mutations, self._permits.throttle_ms()
            elif self._controller_ms:
                other = self._request if self._mutations is None else self._mutations
                other_ms = self._controller_ms
            self._settle(request_ms, other, other_ms, now_ms)
        self._finished_ns = now_ns
        return self._throttle_ms or 0

    def sent(self) -> None:
        """Record the time that the response took to encode and to send. It throttles the next
        request."""
        if self._request is not None and not self.exempt:
            now_ns = self._now_ns()
            percent = (now_ns - self._finished_ns) * PERCENT_PER_NS
            self._request.use.record(percent, now_ns // NS_PER_MS)

    def _is_exempt(self, response: Any) -> bool:
        if self._quota is Quota.EXEMPT:
            code = getattr(response, "error_code", ErrorCode.NONE)
            self.exempt = code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return self.exempt

    def _request_ms(self, now_ns: int, now_ms: int) -> int:
        if self._request is None:
            return 0
        percent = self._busy(now_ns) * PERCENT_PER_NS
        return self._quotas.request.record(self._request, percent, now_ms)

    def _settle(
        self, request_ms: int, other: Metered[Any] | None, other_ms: int, now_ms: int
    ) -> None:
        """Throttle for the longer of two times, and note it for the metrics of its kind."""
        self._throttle_ms = throttle_ms = max(request_ms, other_ms)
        if throttle_ms:
            longer = other if other_ms > request_ms else self._request
            assert longer is not None
            longer.throttle_times.record(throttle_ms, now_ms)
