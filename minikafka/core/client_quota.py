"""One kind of client quota: its limits at eight levels of users and client ids, the use of each
account as a rate over a sliding window, and the throttle time that brings a rate to its limit.

``ClientQuota`` measures bytes or time (``producer_byte_rate``, ``consumer_byte_rate``,
``request_percentage``), ``MutationQuota`` counts partitions (``controller_mutation_rate``). Use is
recorded of clients that have a limit, and of no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from minikafka.kernel.lazy_dataclass import dataclass

DEFAULT: Final = None  # the name of the default user or client id
ANY: Final = ""  # the entity has no name of this type; no real name is empty
# So many clients are remembered with their limits, if their names are no longer.
MAX_CLIENTS: Final = 2_000
LONGEST_KEPT_NAME: Final = 249


class Account(NamedTuple):
    """Whose use is counted together: one user, one client id, or one client id of a user. ``ANY``
    stands for the part that makes no difference."""

    user: str
    client_id: str


class ClientLimit(NamedTuple):
    """The account of a client, and its limit."""

    account: Account
    limit: float


class QuotaLimits:
    """The limits of one kind of quota (Kafka's ``DefaultQuotaCallback``).

    A limit belongs to a user, a client id, or both; each may be the default. The first of these
    levels that has a limit decides:

    1. user and client id     2. user, default client id     3. user
    4. default user, client id     5. default user, default client id     6. default user
    7. client id     8. default client id

    Levels 1, 2, 4 and 5 limit each client id of each user by itself, 3 and 6 all clients of a user
    together, 7 and 8 all clients of that id together. As in Kafka, a client without client id has
    none of levels 7 and 8, and of a user the limit of level 3 or 6 where levels 2 or 5 decide.
    """

    def __init__(self) -> None:
        self._limits: dict[tuple[str | None, str | None], float] = {}
        self._clients: dict[tuple[str, str], ClientLimit | None] = {}  # until a limit is set

    def __bool__(self) -> bool:
        return bool(self._limits)

    def set(self, user: str | None, client_id: str | None, limit: float | None) -> None:
        """Set the limit of an entity, or remove it if ``limit`` is None. ``DEFAULT`` and ``ANY``
        are names, too."""
        self._clients.clear()
        if limit is None:
            self._limits.pop((user, client_id), None)
        else:
            self._limits[user, client_id] = limit

    def all(self) -> Iterator[tuple[str | None, str | None, float]]:
        """Yield user, client id and limit of each entity. No limit may be set meanwhile."""
        return ((user, client_id, limit) for (user, client_id), limit in self._limits.items())

    def clear(self) -> None:
        self._clients.clear()
        self._limits.clear()

    def of_client(self, user: str, client_id: str) -> ClientLimit | None:
        """Return the limit of a client; None if it has none."""
        if not self._limits:
            return None
        client = user, client_id
        try:
            return self._clients[client]
        except KeyError:
            return self._found(client)

    def _found(self, client: tuple[str, str]) -> ClientLimit | None:
        account = self.account_of(*client)
        limit = self.limit_of(account)
        found = None if limit is None else ClientLimit(account, limit)
        if max(map(len, client)) <= LONGEST_KEPT_NAME:
            if len(self._clients) >= MAX_CLIENTS:
                self._clients.clear()
            self._clients[client] = found
        return found

    def account_of(self, user: str, client_id: str) -> Account:
        """Return the account that the use of this client is counted in."""
        limits = self._limits
        if (user, client_id) in limits or (user, DEFAULT) in limits:
            return Account(user, client_id)
        if (user, ANY) in limits:
            return Account(user, ANY)
        if (DEFAULT, client_id) in limits or (DEFAULT, DEFAULT) in limits:
            return Account(user, client_id)
        if (DEFAULT, ANY) in limits:
            return Account(user, ANY)
        return Account(ANY, client_id)

    def limit_of(self, account: Account) -> float | None:
        """Return the limit of an account; None if it has none."""
        user, client_id = account
        levels: Sequence[tuple[str | None, str | None]]
        if user and client_id:
            levels = (
                (user, client_id),
                (user, DEFAULT),
                (DEFAULT, client_id),
                (DEFAULT, DEFAULT),
            )
        elif user:
            levels = ((user, ANY), (DEFAULT, ANY))
        elif client_id:
            levels = ((ANY, client_id), (ANY, DEFAULT))
        else:
            return None
        limits = self._limits
        for level in levels:
            limit = limits.get(level)
            if limit is not None:
                return limit
        return None


# The longest throttle time: a response has 31 bits for it.
MAX_THROTTLE_MS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RateConfig:
    """Kafka's ``quota.window.num`` and ``quota.window.size.seconds``, or those of
    ``controller.quota``."""

    window_num: int = 11
    window_size_seconds: int = 1

    @property
    def window_ms(self) -> int:
        return self.window_size_seconds * 1000

    @property
    def span_ms(self) -> int:
        """The time that all samples together cover."""
        return self.window_num * self.window_ms


class _Sample:
    __slots__ = ("count", "last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0
        self.count = 0


class SampledRate:
    """Kafka's ``Rate`` over a ``WindowedSum``: a value per second over the last windows.

    A value is added to the current sample. A sample is complete one window after its start; then
    the next place of a ring is used. A sample counts until its last value is as old as the whole
    span; it starts again, empty, when it is looked at then. The elapsed time since the oldest start
    is taken as if at least ``window_num - 1`` windows were complete.

    The sum and the oldest start change only with a value, with a new sample, or when a sample no
    longer counts. They are kept, so that the samples are looked at about once in a window.

    Times must not go back; an earlier time counts as the last one.
    """

    __slots__ = (
        "_current",
        "_full_ms",
        "_kept_until_ms",
        "_least_window_ms",
        "_oldest_ms",
        "_places",
        "_samples",
        "_span_ms",
        "_total",
        "_whole_windows",
        "_window_ms",
    )

    def __init__(self, config: RateConfig) -> None:
        self._window_ms = config.window_ms
        self._span_ms = config.span_ms
        self._whole_windows = config.window_num - 1
        self._least_window_ms = self._whole_windows * config.window_ms
        self._places = config.window_num + 1
        self._samples: list[_Sample] = []
        self._current = 0
        self._full_ms = 0  # the current sample takes values until then
        # Until ``_kept_until_ms`` no sample stops to count, and these two are those of all samples.
        self._kept_until_ms = 0
        self._total = 0.0
        self._oldest_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value. A negative one takes back what was added."""
        if now_ms >= self._full_ms:
            self._begin_sample(now_ms)
        sample = self._samples[self._current]
        sample.value += value
        sample.count += 1
        if now_ms > sample.last_ms:
            sample.last_ms = now_ms
        self._total += value

    def per_second(self, now_ms: int) -> float:
        total, window_ms = self._measure(now_ms)
        return total * 1000 / window_ms

    def throttle_ms(self, limit: float, now_ms: int, more: float = 0) -> int:
        """Return for how long to record nothing until the rate is at the limit; 0 if it is not
        above the limit. With ``more``, it is as if that had been recorded, too.

        Kafka's ``QuotaUtils.throttleTime``: a rate O over W ms comes to the limit T after
        ``(O - T) / T * W`` ms, since then O * W = T * (W + X)."""
        if now_ms >= self._kept_until_ms:
            self._look(now_ms)
        total = self._total + more
        if total * 1000 <= limit * self._least_window_ms:
            return 0  # whatever the time that the samples cover
        window_ms = self._covered_ms(now_ms)
        return throttle_ms(total * 1000 / window_ms, limit, window_ms)

    def average(self, now_ms: int) -> float:
        """Return the average of the values of all samples that count; 0 if there is none."""
        self._measure(now_ms)
        count = sum(sample.count for sample in self._samples)
        return sum(sample.value for sample in self._samples) / count if count else 0.0

    def _begin_sample(self, now_ms: int) -> None:
        samples = self._samples
        if samples:
            self._current = (self._current + 1) % self._places
        if self._current == len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        self._full_ms = now_ms + self._window_ms
        self._kept_until_ms = 0

    def _measure(self, now_ms: int) -> tuple[float, int]:
        """Return the sum of all samples that count, and the time that they cover."""
        if now_ms >= self._kept_until_ms:
            self._look(now_ms)
        return self._total, self._covered_ms(now_ms)

    def _look(self, now_ms: int) -> None:
        """Look at every sample, and empty those that no longer count."""
        if not self._samples:
            self._begin_sample(now_ms)
        total, oldest_ms, last_ms = 0.0, now_ms, now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._span_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.start_ms)
            last_ms = min(last_ms, sample.last_ms)
        self._full_ms = self._samples[self._current].start_ms + self._window_ms
        self._total, self._oldest_ms = total, oldest_ms
        self._kept_until_ms = last_ms + self._span_ms

    def _covered_ms(self, now_ms: int) -> int:
        elapsed_ms = max(0, now_ms - self._oldest_ms)
        missing = self._whole_windows - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        return max(elapsed_ms, 1)


def throttle_ms(rate: float, limit: float, window_ms: int) -> int:
    """Return for how long to stop so that ``rate``, over ``window_ms``, comes to ``limit``.

    A limit of 0 stops for ``MAX_THROTTLE_MS``; a negative one, or one that is not a number, never
    stops. (In Kafka a limit of 0 stops nothing either, since the result overflows.)"""
    if not rate > limit >= 0:
        return 0
    if limit == 0:
        return MAX_THROTTLE_MS
    return math.floor(min((rate - limit) / limit * window_ms, MAX_THROTTLE_MS) + 0.5)


class TokenBucket:
    """Kafka's ``TokenBucket``: ``limit`` tokens a second flow into a bucket that holds those of the
    whole span. It starts full, and tokens may be taken until it is below zero."""

    __slots__ = ("_span_seconds", "_tokens", "_updated_ms")

    def __init__(self, config: RateConfig) -> None:
        self._span_seconds = config.span_ms / 1000
        self._tokens = math.inf
        self._updated_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        """Return the tokens in the bucket, which flow in at ``limit`` a second."""
        flowed = limit * max(0, now_ms - self._updated_ms) / 1000
        self._tokens = min(self._span_seconds * limit, self._tokens + flowed)
        self._updated_ms = max(now_ms, self._updated_ms)
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        self._tokens = self.tokens(limit, now_ms) - count

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return after how many ms the bucket is no longer below zero."""
        tokens = self.tokens(limit, now_ms)
        if not tokens < 0 <= limit:
            return 0
        if limit == 0:
            return MAX_THROTTLE_MS
        return math.floor(min(-tokens / limit * 1000, MAX_THROTTLE_MS) + 0.5)


IDLE_MS: Final = 60 * 60 * 1000  # accounts without use for so long are forgotten, as in Kafka
MAX_ACCOUNTS: Final = 10_000  # of one kind; the one that is unused for longest is forgotten
_METRICS_SAMPLES: Final = RateConfig(2, 30)  # Kafka's metrics.num.samples, .sample.window.ms

Key = TypeVar("Key", bound=Hashable)
Use = TypeVar("Use")


class Metered(Generic[Use]):
    """An account's use, its limit a second, and the throttle times that its clients were given."""

    __slots__ = ("limit", "throttle_times", "use", "used_ms")

    def __init__(self, use: Use, now_ms: int) -> None:
        self.use = use
        self.limit = math.inf
        self.used_ms = now_ms
        self.throttle_times = SampledRate(_METRICS_SAMPLES)


class Accounts(Generic[Key, Use]):
    """What accounts have used, the one unused for longest first. At most ``MAX_ACCOUNTS``."""

    def __init__(self, new: Callable[[], Use]) -> None:
        self._new = new
        self._known: dict[Key, Metered[Use]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, account: Key, now_ms: int) -> Metered[Use]:
        """Return the account's use, and forget accounts that are idle or too many."""
        known = self._known
        found = known.pop(account, None)
        if found is None:
            self._forget(now_ms)
            found = Metered(self._new(), now_ms)
        known[account] = found
        found.used_ms = now_ms
        return found

    def recent(self) -> Iterator[tuple[Key, Metered[Use]]]:
        """Yield the accounts, the most recently used one first."""
        return reversed(self._known.items())

    def clear(self) -> None:
        self._known.clear()

    def _forget(self, now_ms: int) -> None:
        """Make room for one account."""
        known = self._known
        idle: list[Key] = []
        for account, metered in known.items():
            if now_ms - metered.used_ms < IDLE_MS and len(known) - len(idle) < MAX_ACCOUNTS:
                break
            idle.append(account)
        for account in idle:
            del known[account]


class _Quota(Generic[Use]):
    """The limits and accounts of one kind of quota (Kafka's ``ClientQuotaManager``)."""

    def __init__(self, config: RateConfig, new: Callable[[], Use]) -> None:
        self.config = config
        self.limits = QuotaLimits()
        self.accounts: Accounts[Account, Use] = Accounts(new)

    def find(self, user: str, client_id: str, now_ms: int) -> Metered[Use] | None:
        """Return the account of a client with its limit; None if it has no limit."""
        found = self.limits.of_client(user, client_id)
        if found is None:
            return None
        account, limit = found
        metered = self.accounts.of(account, now_ms)
        metered.limit = limit
        return metered


class ClientQuota(_Quota[SampledRate]):
    """Limits a value per second, such as bytes (Kafka's ``ClientQuotaManager``).

    ``max_throttle_ms`` bounds the throttle time; None is without bound."""

    def __init__(self, config: RateConfig, max_throttle_ms: int | None = None) -> None:
        super().__init__(config, lambda: SampledRate(config))
        self._max_throttle_ms = max_throttle_ms

    def record(self, metered: Metered[SampledRate], value: float, now_ms: int) -> int:
        """Add a value, and return for how many ms to throttle the client."""
        metered.use.record(value, now_ms)
        throttle_ms = metered.use.throttle_ms(metered.limit, now_ms)
        if self._max_throttle_ms is not None:
            return min(throttle_ms, self._max_throttle_ms)
        return throttle_ms

    def most_at_once(self, metered: Metered[SampledRate]) -> float:
        """Return the largest value that is not throttled if nothing else is recorded."""
        windows = self.config.window_num - 1
        return metered.limit * windows * self.config.window_size_seconds


class MutationQuota(_Quota[TokenBucket]):
    """Limits the partitions created or deleted per second, by a token bucket (Kafka's
    ``ControllerMutationQuotaManager``, KIP-599)."""

    def __init__(self, config: RateConfig) -> None:
        super().__init__(config, lambda: TokenBucket(config))


def take_strictly(metered: Metered[TokenBucket], partitions: int, now_ms: int) -> int:
    """Take a token for each partition, unless the bucket is below zero: then return after how many
    ms it is not. What is taken may be more than what is in the bucket."""
    bucket = metered.use
    throttle_ms = bucket.throttle_ms(metered.limit, now_ms)
    if not throttle_ms:
        bucket.take(partitions, metered.limit, now_ms)
    return throttle_ms


def take_permissively(metered: Metered[TokenBucket], partitions: int, now_ms: int) -> int:
    """Take a token for each partition, and return after how many ms the bucket is not below
    zero."""
    bucket = metered.use
    bucket.take(partitions, metered.limit, now_ms)
    return bucket.throttle_ms(metered.limit, now_ms)
