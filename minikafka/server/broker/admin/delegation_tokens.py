"""The delegation tokens of the cluster: kept in ZooKeeper, cached by every broker (KIP-48).

Any broker creates, renews, expires and describes tokens. It writes the znode on the condition that
nobody else has written it meanwhile, changes its own cache, and leaves a notification that makes
the other brokers read the znode. Until they have, some milliseconds later, they do not know a new
token.

The controller's broker removes expired tokens. Until then an expired token still logs in, as with
Kafka, and its connection is closed at the first request.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Final

from minikafka.core.security.delegation_tokens import (
    ID_BYTES,
    DelegationToken,
    TokenRemoval,
    TokenSettings,
    changed_expiry,
    created,
    lookup_key,
    new_token_id,
    renewed,
    token_credential,
    token_hmac,
)
from minikafka.core.security.scram_credentials import Mechanism, ScramCredential, TokenCredential
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import BadVersion, Clock, CoordinationError, Entropy, Watcher
from minikafka.kernel.principals import Principal
from minikafka.kernel.slices import in_slices
from minikafka.server.zookeeper.notice_follower import NoticeFollower
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.store_tokens import NO_ZNODE, StoredToken, TokenNotice

SALT_BYTES: Final = 16
ATTEMPTS: Final = 11  # at writing one token that others write, too


@dataclass(slots=True)
class _CachedToken:
    """A token, and the credentials of those mechanisms with which it has logged in here."""

    token: DelegationToken
    version: int
    lookup_key: bytes = field(repr=False)
    credentials: dict[str, ScramCredential] = field(default_factory=dict, repr=False)


class DelegationTokens:
    """Kafka's ``DelegationTokenManagerZk`` and ``DelegationTokenCache``.

    ``start`` returns when all tokens are known. Kafka derives the SCRAM credentials of a token when
    it reads the token, which takes 7 ms for each. Here they are derived at the first login with the
    token, so that a broker with thousands of tokens starts without delay."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        clock: Clock,
        entropy: Entropy,
        settings: TokenSettings,
        is_controller: Callable[[], bool],
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._settings = settings
        self._is_controller = is_controller
        self._log = log or event_log("delegation-tokens")
        self._tokens: dict[str, _CachedToken] = {}
        self._by_hmac: dict[bytes, str] = {}  # ids by the ``lookup_key`` of the HMAC
        self._changes = _TokenChanges(self, store, clock, self._log)
        self._clean_now = asyncio.Event()
        self._cleaner: asyncio.Task[None] | None = None

    @property
    def enabled(self) -> bool:
        return self._settings.enabled

    # ------------------------------------------------------------------------------------ lifetime

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Create the znodes, read all tokens, and follow their changes. Raises
        CoordinationError."""
        if not self.enabled:
            return
        await self._store().create_token_paths()
        await self._changes.catch_up()
        self._changes.start(tasks)
        self._cleaner = tasks.create_task(self._clean(), name="delegation-token-cleaner")

    async def stop(self) -> None:
        if self._cleaner is not None:
            self._cleaner.cancel()
            await asyncio.wait([self._cleaner])
        await self._changes.stop()

    async def on_new_session(self, session: object) -> None:
        if self.enabled:
            await self._changes.on_new_session(session)

    def on_controller_elected(self) -> None:
        """Remove expired tokens now: this broker has become the controller."""
        self._clean_now.set()

    # --------------------------------------------------------------------------------------- reads

    def credential(self, mechanism: Mechanism, token_id: str) -> TokenCredential | None:
        """Return the credential of a token for a mechanism; None if there is no such token."""
        cached = self._tokens.get(token_id)
        if cached is None:
            return None
        found = cached.credentials.get(mechanism.kafka_name)
        if found is None:
            salt = self._entropy.random_bytes(SALT_BYTES)
            found = token_credential(mechanism, self._settings.secret_key, token_id, salt)
            cached.credentials[mechanism.kafka_name] = found
        return TokenCredential(cached.token.owner.name, found, cached.token.expiry_ms)

    def tokens(self) -> list[DelegationToken]:
        """Return all tokens in the order of their ids."""
        return [self._tokens[token_id].token for token_id in sorted(self._tokens)]

    def hmac_of(self, token: DelegationToken) -> bytes:
        return token_hmac(self._settings.secret_key, token.token_id)

    # ------------------------------------------------------------------------------------- changes

    async def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: Sequence[Principal],
        lifetime_ms: int,
    ) -> DelegationToken:
        """Create a token. Raises CoordinationError."""
        token_id = new_token_id(self._entropy.random_bytes(ID_BYTES))
        now_ms = self._clock.wall_ms()
        token = created(self._settings, token_id, owner, requester, renewers, lifetime_ms, now_ms)
        try:
            self._put(await self._store().write_delegation_token(token, NO_ZNODE))
        except BadVersion:  # the response to a first attempt was lost
            await self.refresh([token_id])
        self._log.info("token_created", token=token_id, owner=str(owner))
        return token

    async def renew(self, requester: Principal, secret: bytes, period_ms: int) -> int:
        """Extend the life of a token, named by its HMAC. Return when it expires. Raises KafkaError,
        CoordinationError."""
        token_id = self._token_id(secret)
        for _ in range(ATTEMPTS):
            stored = await self._read(token_id)
            now_ms = self._clock.wall_ms()
            wanted = renewed(self._settings, stored.token, requester, period_ms, now_ms)
            if isinstance(wanted, ErrorCode):
                raise KafkaError(wanted)
            if await self._written(wanted, stored.version):
                self._log.info("token_renewed", token=token_id, expires_ms=wanted.expiry_ms)
                return wanted.expiry_ms
        raise BadVersion(token_id)

    async def expire(self, requester: Principal, secret: bytes, period_ms: int) -> int:
        """Change when a token expires, or remove it now. Return the time. Raises KafkaError,
        CoordinationError."""
        token_id = self._token_id(secret)
        for _ in range(ATTEMPTS):
            stored = await self._read(token_id)
            wanted = changed_expiry(stored.token, requester, period_ms, self._clock.wall_ms())
            if isinstance(wanted, ErrorCode):
                raise KafkaError(wanted)
            if isinstance(wanted, TokenRemoval):
                if await self._removed(stored):
                    self._log.info("token_removed", token=token_id)
                    return wanted.at_ms
            elif await self._written(wanted, stored.version):
                self._log.info("token_expiry_changed", token=token_id, expires_ms=wanted.expiry_ms)
                return wanted.expiry_ms
        raise BadVersion(token_id)

    def _token_id(self, secret: bytes) -> str:
        """Return the id of the token with this HMAC. Raises KafkaError."""
        token_id = self._by_hmac.get(lookup_key(secret))
        if token_id is not None:
            right = token_hmac(self._settings.secret_key, token_id)
            if hmac.compare_digest(right, secret):
                return token_id
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    async def _read(self, token_id: str) -> StoredToken:
        """Read a token, which others may have changed. Raises KafkaError, CoordinationError."""
        (stored,) = await self._store().delegation_tokens([token_id])
        if stored is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return stored

    async def _written(self, token: DelegationToken, version: int) -> bool:
        """Write a token. Return False if another broker has written it meanwhile."""
        try:
            self._put(await self._store().write_delegation_token(token, version))
        except BadVersion:
            return False
        return True

    async def _removed(self, stored: StoredToken) -> bool:
        """Remove a token. Return False if another broker has written it meanwhile."""
        try:
            await self._store().delete_delegation_token(stored.token.token_id, stored.version)
        except BadVersion:
            return False
        self._drop(stored.token.token_id)
        return True

    # ------------------------------------------------------------------------------ expired tokens

    async def _clean(self) -> None:
        while True:
            timer = self._clock.call_later(
                self._settings.expiry_check_interval_ms, self._clean_now.set
            )
            await self._clean_now.wait()
            timer.cancel()
            self._clean_now.clear()
            if self._is_controller():
                try:
                    await self.remove_expired()
                except CoordinationError as error:  # tried again after the interval
                    self._log.warning("expired_tokens_not_removed", error=repr(error))

    async def remove_expired(self) -> None:
        """Remove the tokens that have expired. Raises CoordinationError."""
        now_ms = self._clock.wall_ms()
        expired = [token.token_id for token in self.tokens() if token.is_expired(now_ms)]
        for stored in await self._store().delegation_tokens(expired):
            if stored is None or not stored.token.is_expired(now_ms):
                continue
            if await self._removed(stored):
                self._log.info("expired_token_removed", token=stored.token.token_id)

    # --------------------------------------------------------------------------------------- cache

    async def refresh(self, token_ids: Iterable[str]) -> None:
        """Read tokens that others have changed. Raises CoordinationError."""
        wanted = list(dict.fromkeys(token_ids))
        found = await self._store().delegation_tokens(wanted)
        async for token_id, stored in in_slices(zip(wanted, found, strict=True)):
            if stored is None:
                self._drop(token_id)
            else:
                self._put(stored)

    async def refresh_all(self) -> None:
        """Read all tokens, and forget those that are gone. Raises CoordinationError."""
        there = await self._store().delegation_token_ids()
        await self.refresh([*there, *(self._tokens.keys() - set(there))])
        self._log.info("tokens_read", tokens=len(self._tokens))

    def _put(self, stored: StoredToken) -> None:
        """Cache a token, unless a newer version of it is cached."""
        token_id = stored.token.token_id
        cached = self._tokens.get(token_id)
        if cached is None:
            key = lookup_key(token_hmac(self._settings.secret_key, token_id))
            self._tokens[token_id] = _CachedToken(stored.token, stored.version, key)
            self._by_hmac[key] = token_id
        elif cached.version <= stored.version:
            cached.token, cached.version = stored.token, stored.version

    def _drop(self, token_id: str) -> None:
        cached = self._tokens.pop(token_id, None)
        if cached is not None:
            del self._by_hmac[cached.lookup_key]


class _TokenChanges(NoticeFollower[TokenNotice]):
    """Follows the change notifications of tokens."""

    def __init__(
        self,
        tokens: DelegationTokens,
        store: Callable[[], ZkStore],
        clock: Clock,
        log: EventLog,
    ) -> None:
        super().__init__(clock, log, "delegation-token-changes")
        self._tokens = tokens
        self._store = store

    async def _names(self, watcher: Watcher) -> list[str]:
        return await self._store().token_changes(watcher)

    async def _read(self, names: Sequence[str]) -> list[TokenNotice]:
        return await self._store().token_change_notices(names)

    async def _delete(self, names: Sequence[str]) -> None:
        await self._store().delete_token_changes(names)

    async def _take(self, notices: Sequence[TokenNotice], read_all: bool) -> None:
        if read_all:
            await self._tokens.refresh_all()
            return
        await self._tokens.refresh(
            notice.token_id for notice in notices if notice.token_id is not None
        )
