"""One kind of client quota: its limits, and the use of each account.

``ClientQuota`` measures bytes or time (``producer_byte_rate``, ``consumer_byte_rate``,
``request_percentage``), ``MutationQuota`` counts partitions (``controller_mutation_rate``). Use is
recorded of clients that have a limit, and of no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

from minikafka.core.quota.limits import Account, QuotaLimits
from minikafka.core.quota.rates import RateConfig, SampledRate, TokenBucket

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
