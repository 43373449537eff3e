"""The public keys for signed tokens: loaded from a JWKS endpoint, and again when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from minikafka.core.security.jwt_validator import (
    KeyRefresh,
    KeySet,
    SecuredValidator,
    parse_key_set,
    retry_wait_ms,
)
from minikafka.core.security.sasl.oauthbearer import BearerToken, TokenRefusal
from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock

# Returns the JWK set. Raises OSError.
ReadKeys: TypeAlias = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class TokenKeysConfig:
    """Times in milliseconds. ``refresh_ms`` is None for keys that are read once, from a file."""

    refresh_ms: int | None
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class TokenKeys:
    """The keys of one endpoint, and the validator of its tokens (Kafka's ``RefreshingHttpsJwks``).

    ``load`` is called before the listener opens. From ``start`` on the keys are loaded every
    ``refresh_ms``, and soon after a token named a key id that is not among them: that login fails,
    a later one succeeds. When the endpoint does not respond, the old keys stay in use.
    """

    def __init__(
        self,
        config: TokenKeysConfig,
        validator: SecuredValidator,
        read: ReadKeys,
        clock: Clock,
        log: EventLog,
    ) -> None:
        self._config = config
        self._validator = validator
        self._read = read
        self._clock = clock
        self._log = log
        self._keys = KeySet((), ())
        self._refresh = KeyRefresh()
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Load the keys. Raises OSError, or ValueError for a response that is no JWK set."""
        keys = parse_key_set(await self._read(), self._validator.library)
        self._refresh.loaded(keys.key_ids)
        if keys.left_out and keys.left_out != self._keys.left_out:
            self._log.warning("token_keys_left_out", reasons=list(keys.left_out))
        self._keys = keys

    def start(self, tasks: asyncio.TaskGroup) -> None:
        if self._config.refresh_ms is not None:
            self._task = tasks.create_task(self._follow(self._config.refresh_ms), name="token-keys")

    def close(self) -> None:
        """Stop loading keys: the listener was removed."""
        if self._task is not None:
            self._task.cancel()

    def validate(self, token: str, wall_ms: int) -> BearerToken | TokenRefusal:
        """Check a token (a ``TokenValidator``)."""
        outcome = self._validator.validate(token, self._keys, wall_ms)
        key_id = outcome.unknown_key_id if isinstance(outcome, TokenRefusal) else None
        if key_id is not None and self._refresh.is_due(key_id, self._clock.monotonic_ms()):
            self._due.set()
        return outcome

    async def _follow(self, refresh_ms: int) -> None:
        while True:
            timer = self._clock.call_later(refresh_ms, self._due.set)
            await self._due.wait()
            timer.cancel()
            self._due.clear()
            await self._load_again()

    async def _load_again(self) -> None:
        config, began_ms = self._config, self._clock.monotonic_ms()
        attempt = 0
        while True:
            attempt += 1
            try:
                await self.load()
                return
            except (OSError, ValueError) as error:
                wait_ms = retry_wait_ms(
                    attempt,
                    self._clock.monotonic_ms() - began_ms,
                    config.retry_backoff_ms,
                    config.retry_backoff_max_ms,
                )
                if wait_ms is None:
                    reason = str(error) or type(error).__name__
                    self._log.warning("token_keys_not_loaded", attempts=attempt, reason=reason)
                    return
            await self._clock.sleep(wait_ms)
