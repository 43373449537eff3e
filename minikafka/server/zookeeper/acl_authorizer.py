"""The built-in authorizer: ACLs in ZooKeeper, cached in every broker (Kafka's ``AclAuthorizer``).

Any broker changes ACLs: it writes the znode of the resource on the condition that nobody else has
written it meanwhile, changes its own cache, and leaves a notification that makes the other brokers
read the znode. Until they have, some milliseconds later, they decide by the old ACLs.

Changes and notifications are worked off one after the other, so that the cache never goes back to
an older state of a resource. Decisions are made from the cache alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from minikafka.core.security.acl_cache import AclCache, AclRules, Decision
from minikafka.core.security.acls import (
    NO_ACLS,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    ResourcePattern,
    VersionedAcls,
)
from minikafka.core.security.authorizer import AclAction, DeletedAcls, Requester
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import (
    LEVELS,
    MAX_CLIENT_FACT,
    EventLog,
    event_log,
    logger_levels,
)
from minikafka.kernel.ports import BadVersion, Clock, CoordinationError, Entropy, Watcher
from minikafka.kernel.slices import in_slices
from minikafka.server.zookeeper.notice_follower import NoticeFollower
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.store_acls import AclNotice
from minikafka.server.zookeeper.znodes.acls import name_is_storable

LOGGER: Final = "authorizer"
ATTEMPTS: Final = 11  # at writing the ACLs of one resource
BACKOFF_MS: Final = 100
BACKOFF_JITTER_MS: Final = 50
_DEBUG = LEVELS["DEBUG"]
_TRACE = LEVELS["TRACE"]


class AclAuthorizer:
    """Implements ``Authorizer``. ``start`` returns when all ACLs are known."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        clock: Clock,
        entropy: Entropy,
        broker_id: int,
        rules: AclRules,
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._cache = AclCache(rules)
        self._log = log or event_log(LOGGER, broker=broker_id)
        self._audit = AuditLog(self._log)
        self._turns = _Turns()
        self._changes = _AclChanges(self, store, clock, self._log)

    # ------------------------------------------------------------------------------------ lifetime

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Create the znodes, read all ACLs and follow their changes. Raises ConfigError if an ACL
        cannot be read, and CoordinationError."""
        await self._store().create_acl_paths()
        await self._changes.catch_up()
        self._changes.start(tasks)

    async def stop(self) -> None:
        await self._changes.stop()

    async def on_new_session(self, session: object) -> None:
        await self._changes.on_new_session(session)

    async def read_again(self) -> None:
        """Read all ACLs although no change was announced."""
        await self._changes.read_again()

    # ----------------------------------------------------------------------------------- decisions

    def authorize(self, requester: Requester, actions: Sequence[AclAction]) -> list[bool]:
        level = LEVELS[logger_levels().of(LOGGER)]
        principal, host = str(requester.principal), requester.host
        cache = self._cache
        if cache.is_super_user(principal):
            if level <= _DEBUG:
                for action in actions:
                    self._audit.super_user(principal)
                    self._audit.allowed(requester, action, level)
            return [True] * len(actions)
        results = []
        for action in actions:
            operation, resource = action.operation, action.resource
            decision = cache.decide(
                principal, host, operation, resource.resource_type, resource.name
            )
            results.append(decision.allowed)
            if level <= _DEBUG:
                self._audit.decided(requester, action, decision)
            if not decision.allowed:
                self._audit.denied(requester, action, level)
            elif level <= _DEBUG:
                self._audit.allowed(requester, action, level)
        return results

    def authorize_by_type(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        level = LEVELS[logger_levels().of(LOGGER)]
        principal = str(requester.principal)
        if self._cache.is_super_user(principal):
            if level <= _DEBUG:
                self._audit.super_user(principal)
            return True
        allowed = self._cache.decide_any(principal, requester.host, operation, resource_type)
        anything = ResourcePattern(resource_type, "NONE", PatternType.UNKNOWN)
        action = AclAction(operation, anything, 0)
        if not allowed:
            self._audit.denied(requester, action, level)
        elif level <= _DEBUG:
            self._audit.allowed(requester, action, level)
        return allowed

    # --------------------------------------------------------------------------------- description

    def acl_patterns(self) -> list[ResourcePattern]:
        return self._cache.patterns()

    def acls(self, selected: AclFilter, pattern: ResourcePattern) -> list[AclBinding]:
        return self._cache.bindings(selected, pattern)

    # ------------------------------------------------------------------------------------- changes

    async def create_acls(
        self, requester: Requester, bindings: Sequence[AclBinding]
    ) -> list[KafkaError | None]:
        results: list[KafkaError | None] = [_refusal(binding) for binding in bindings]
        by_pattern: dict[ResourcePattern, list[int]] = {}
        for place, binding in enumerate(bindings):
            if results[place] is None:
                by_pattern.setdefault(binding.pattern, []).append(place)
        for pattern, places in by_pattern.items():
            new = frozenset(bindings[place].entry for place in places)
            error = await self._change(pattern, new.union)
            for place in places:
                results[place] = error
        return results

    async def delete_acls(
        self, requester: Requester, filters: Sequence[AclFilter]
    ) -> list[DeletedAcls]:
        patterns = dict.fromkeys(self._cache.patterns())
        patterns |= dict.fromkeys(named for f in filters for named in f.pattern.named())
        deleted: list[dict[AclBinding, KafkaError | None]] = [{} for _ in filters]
        async for pattern in in_slices(patterns):
            matching = [
                (place, f.entry) for place, f in enumerate(filters) if f.pattern.matches(pattern)
            ]
            if not matching or not name_is_storable(pattern.name):
                continue
            removed: dict[AclEntry, int] = {}

            def without(
                before: frozenset[AclEntry],
                matching: list[tuple[int, Any]] = matching,
                removed: dict[AclEntry, int] = removed,
            ) -> frozenset[AclEntry]:
                removed.clear()
                for entry in sorted(before):
                    places = (place for place, selected in matching if selected.matches(entry))
                    place = next(places, None)
                    if place is not None:
                        removed[entry] = place
                return before - removed.keys()

            error = await self._change(pattern, without)
            for entry, place in removed.items():
                deleted[place][AclBinding(pattern, entry)] = error
        return [DeletedAcls(bindings) for bindings in deleted]

    async def _change(
        self,
        pattern: ResourcePattern,
        change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]],
    ) -> KafkaError | None:
        """Write what ``change`` returns for the entries of a pattern. Returns the error."""
        try:
            await self._turns.take(lambda: self._write(pattern, change))
        except (CoordinationError, ValueError) as error:
            self._log.warning("acls_not_changed", resource=str(pattern), error=repr(error))
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    async def _write(
        self,
        pattern: ResourcePattern,
        change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]],
    ) -> None:
        """Raises CoordinationError, and ValueError after ``ATTEMPTS`` conflicts with others."""
        before = self._cache.stored(pattern) or await self._read_one(pattern)
        for attempt in range(ATTEMPTS):
            if attempt:
                pause_ms = BACKOFF_MS + self._entropy.randrange(BACKOFF_JITTER_MS)
                await self._clock.sleep(pause_ms)
                before = await self._read_one(pattern)
            after = change(before.entries)
            is_change = after != before.entries
            if not is_change and not after:
                self._cache.put(pattern, before)
                return
            try:
                wanted = VersionedAcls(after, before.version)
                written = await self._store().change_acls(pattern, wanted, is_change)
            except BadVersion:
                continue
            self._cache.put(pattern, written)
            if is_change:
                self._log.info("acls_changed", resource=str(pattern), version=written.version)
            return
        raise ValueError(f"{pattern} was written by others {ATTEMPTS} times")

    async def _read_one(self, pattern: ResourcePattern) -> VersionedAcls:
        """Raises CoordinationError, and ValueError for a znode that cannot be decoded."""
        (found,) = await self._store().acls([pattern])
        if found is None:
            raise ValueError(f"the znode of {pattern} cannot be read")
        return found

    # -------------------------------------------------------------------------------- other brokers

    async def refresh(self, patterns: Iterable[ResourcePattern]) -> None:
        """Read the ACLs of patterns that others have changed. Those that cannot be decoded stay as
        they are. Raises CoordinationError."""
        wanted = list(dict.fromkeys(patterns))
        await self._turns.take(lambda: self._refresh(wanted))

    async def _refresh(self, patterns: Sequence[ResourcePattern]) -> None:
        stored = await self._store().acls(patterns)
        async for pattern, found in in_slices(zip(patterns, stored, strict=True)):
            if found is not None:
                self._cache.put(pattern, found)

    async def refresh_all(self, is_start: bool) -> None:
        """Read all ACLs. Raises CoordinationError, and at the start ConfigError if one of them
        cannot be decoded."""
        await self._turns.take(lambda: self._refresh_all(is_start))

    async def _refresh_all(self, is_start: bool) -> None:
        store = self._store()
        patterns = await store.acl_patterns()
        cache = AclCache(self._cache.rules)
        stored = await store.acls(patterns)
        async for pattern, found in in_slices(zip(patterns, stored, strict=True)):
            if found is None and is_start:
                raise ConfigError(f"the ACLs of {pattern} in ZooKeeper cannot be read")
            known = self._cache.stored(pattern) if found is None else found
            cache.put(pattern, known or NO_ACLS)
        self._cache = cache
        self._log.info("acls_read", resources=len(patterns))


def _refusal(binding: AclBinding) -> KafkaError | None:
    """Return the error of a binding that cannot be stored."""
    if not name_is_storable(binding.pattern.name):
        return KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
    if ":" not in binding.entry.principal:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None


class _AclChanges(NoticeFollower[AclNotice]):
    """Follows both kinds of change notifications."""

    def __init__(
        self,
        authorizer: AclAuthorizer,
        store: Callable[[], ZkStore],
        clock: Clock,
        log: EventLog,
    ) -> None:
        super().__init__(clock, log, "acl-changes")
        self._authorizer = authorizer
        self._store = store
        self._is_start = True

    async def _names(self, watcher: Watcher) -> list[str]:
        return await self._store().acl_changes(watcher)

    async def _read(self, names: Sequence[str]) -> list[AclNotice]:
        return await self._store().acl_change_notices(names)

    async def _delete(self, names: Sequence[str]) -> None:
        await self._store().delete_acl_changes(names)

    async def _take(self, notices: Sequence[AclNotice], read_all: bool) -> None:
        if read_all:
            is_start, self._is_start = self._is_start, False
            await self._authorizer.refresh_all(is_start)
            return
        patterns = [notice.pattern for notice in notices if notice.pattern is not None]
        self._log.info("acl_changes_received", resources=[str(pattern) for pattern in patterns])
        await self._authorizer.refresh(patterns)


class _Turns:
    """Runs one piece of work after the other, in the order of ``take``. As many wait as there are
    requests that change ACLs, each from another connection."""

    def __init__(self) -> None:
        self._last: asyncio.Future[None] | None = None

    async def take(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` when all earlier work has ended. Raises its error."""
        before = self._last
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last = mine
        try:
            if before is not None and not before.done():
                await asyncio.wait([before])
            await work()
        finally:
            mine.set_result(None)
            if self._last is mine:
                self._last = None


class AuditLog:
    """Kafka's ``kafka.authorizer.logger``: one line for each decision. Denials of what a client has
    requested are INFO, and bounded for each client like all events of clients; what is allowed is
    DEBUG; what only filters a list is TRACE."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def denied(self, requester: Requester, action: AclAction, level: int) -> None:
        if action.log_if_denied:
            line = _AuditLine(requester, action, False)
            self._log.info("operation_denied", client=requester.host, audit=line)
        elif level <= _TRACE:
            self._log.debug("operation_denied", audit=_AuditLine(requester, action, False))

    def allowed(self, requester: Requester, action: AclAction, level: int) -> None:
        """Call this only if ``level``, that of the logger, is DEBUG or lower."""
        if action.log_if_allowed or level <= _TRACE:
            self._log.debug("operation_allowed", audit=_AuditLine(requester, action, True))

    def super_user(self, principal: str) -> None:
        self._log.debug(
            "super_user_allowed",
            audit=f"principal = {principal} is a super user, allowing operation without checking"
            " acls.",
        )

    def decided(self, requester: Requester, action: AclAction, decision: Decision) -> None:
        resource, entry = action.resource, decision.entry
        if entry is not None:
            self._log.debug(
                "acl_matched",
                audit=f"operation = {action.operation.name} on resource = {resource} from host ="
                f" {requester.host} is {entry.permission.name} based on acl = {entry}",
            )
        elif not decision.found:
            self._log.debug(
                "acl_not_found",
                audit=f"No acl found for resource {resource}, authorized = "
                f"{str(decision.allowed).lower()}",
            )


class _AuditLine:
    """The text of a decision, made when it is written: most lines are suppressed."""

    __slots__ = ("_action", "_allowed", "_requester")

    def __init__(self, requester: Requester, action: AclAction, allowed: bool) -> None:
        self._requester = requester
        self._action = action
        self._allowed = allowed

    def __str__(self) -> str:
        requester, action = self._requester, self._action
        outcome = "Allowed" if self._allowed else "Denied"
        resource = action.resource
        line = (
            f"Principal = {requester.principal} is {outcome} Operation = "
            f"{action.operation.pascal_name} from host = {requester.host} on resource = "
            f"{resource} for request = {requester.request_name} with resourceRefCount = "
            f"{action.references}"
        )
        if len(line) > MAX_CLIENT_FACT:
            return f"{line[:MAX_CLIENT_FACT]}... ({len(line)} characters)"
        return line

    def __repr__(self) -> str:
        return repr(str(self))

    def __structlog__(self) -> str:
        """The form in a log of JSON lines."""
        return str(self)
