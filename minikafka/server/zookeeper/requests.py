"""Requests on one ZooKeeper session: pipelined, repeated after lost connections, and fenced.

Three facts about ZooKeeper shape this module.

- When the connection is lost, a client does not know whether its last request was carried out. So a
  write is repeated, and if the repetition fails, the znodes are read: if they have the
  state that the write produces, the first attempt has succeeded (``Requests.multi``).
- A multi of 500 operations is about ten times faster than 500 writes, but fails as a whole. So
  groups of operations are packed into few multis; if one fails, the groups that cannot succeed are
  found by reading, and the others are written again (``Requests.fenced``).
- A controller that was replaced may not know it. So each of its multis checks the version of
  ``/controller_epoch`` first, and fails with ``ControllerMoved``.

The errors here are those of Kafka's use of ZooKeeper; ZooKeeper's own are in ``kernel.ports``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    ConnectionLost,
    CoordinationError,
    CoordinationOp,
    CoordinationSession,
    CreateOp,
    DeleteOp,
    InvalidAcl,
    NoAuth,
    NodeExists,
    NoNode,
    OpResult,
    RolledBack,
    SessionExpired,
    SessionState,
    SetOp,
    TooLarge,
    Watcher,
    ZnodeStat,
)
from minikafka.kernel.slices import Slices
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.measured_requests import MeasuredRequests


class ControllerMoved(Exception):
    """This broker is not, or no longer, the controller: ``/controller_epoch`` has moved on, or
    another broker won the election. Kafka's ``ControllerMovedException``."""


class MalformedZnode(ValueError):
    """The data of a znode does not have the format that belongs to its path."""

    def __init__(self, path: str, data: bytes, reason: str) -> None:
        super().__init__(f"{path}: {reason}: {data[:200]!r}")
        self.path = path
        self.data = data
        self.reason = reason


K = TypeVar("K")
T = TypeVar("T")

MAX_OPS_PER_MULTI = 500  # without the check of the epoch
MAX_MULTI_BYTES = 512 * 1024  # a server refuses packets over 1 MB (jute.maxbuffer)
# Larger multis are not sent at all: 4 MB is the jute.maxbuffer that Kafka sets for its own client.
NEVER_TAKEN_BYTES = 4 * 1024 * 1024
SMALLEST_LIMIT_BYTES = 1_000_000  # a little below ZooKeeper's default of jute.maxbuffer
LARGE_ATTEMPTS = 5  # of a multi between the two limits above
MULTIS_IN_FLIGHT = 4
MAX_READS_PER_REQUEST = 500  # znodes of some hundred bytes; the size of a response has no limit
MAX_IN_FLIGHT = 256  # requests of one call that are sent at the same time
ANY_VERSION = -1
PAUSE_S = 0.01  # before a lost request is repeated while the session seems connected

Group = Sequence[CoordinationOp]  # operations that are done together or not at all


@dataclass(frozen=True, slots=True)
class MultiOutcome:
    """The results of a multi. ``repeated``: the response to an earlier attempt was lost, so an
    error may be the effect of that attempt."""

    results: list[OpResult]
    repeated: bool

    @property
    def error(self) -> CoordinationError | None:
        """The error of the operation that made the multi fail; None if it succeeded."""
        return first_error(self.results)


def first_error(results: Iterable[OpResult]) -> CoordinationError | None:
    """Return the error of the operation that made a multi fail; None if the multi succeeded."""
    errors = [r for r in results if isinstance(r, CoordinationError)]
    return next((e for e in errors if not isinstance(e, RolledBack)), errors[0] if errors else None)


def raise_error(results: Iterable[OpResult]) -> None:
    error = first_error(results)
    if error is not None:
        raise error


class Requests:
    """The requests of the stores on one session. All methods raise ``SessionExpired`` when the
    session has expired. After a lost connection they wait for the next one, as in Kafka's client.
    """

    def __init__(
        self, session: CoordinationSession, measured: MeasuredRequests | None = None
    ) -> None:
        self.session = session
        self._measured = measured or MeasuredRequests(lambda: 0, lambda: 0)
        self._state_changed = asyncio.Event()
        self._listening = False

    # ------------------------------------------------------------------------ lost connections

    async def until_response(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat ``call`` after lost connections until there is a response, be it an error."""
        while True:
            started_ns = self._measured.now_ns()
            try:
                response = await call()
            except ConnectionLost:
                await self._reconnected()
                continue
            except CoordinationError:
                self._measured.responded(started_ns)
                raise
            self._measured.responded(started_ns)
            return response

    async def _reconnected(self) -> None:
        if not self._listening:
            self._listening = True
            self.session.add_state_listener(lambda _: self._state_changed.set())
        if self.session.state is SessionState.CONNECTED:
            await asyncio.sleep(PAUSE_S)
        while self.session.state is SessionState.SUSPENDED:
            self._state_changed.clear()
            await self._state_changed.wait()
        if self.session.state is SessionState.EXPIRED:
            raise SessionExpired

    # ----------------------------------------------------------------------------------- reads

    async def get(
        self, path: str, watcher: Watcher | None = None
    ) -> tuple[bytes, ZnodeStat] | None:
        """Return a znode; None if it does not exist, and then no watch is armed."""
        try:
            return await self.until_response(lambda: self.session.get(path, watcher))
        except NoNode:
            return None

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        return await self.until_response(lambda: self.session.exists(path, watcher))

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """Return the children's names, sorted; empty if the znode does not exist, and then no watch
        is armed."""
        try:
            return await self.until_response(lambda: self.session.children(path, watcher))
        except NoNode:
            return []

    async def get_all(
        self, znodes: Sequence[str], watcher: Watcher | None = None
    ) -> list[tuple[bytes, ZnodeStat] | None]:
        """Return the znodes at these paths in order, None for those that do not exist."""
        return [node async for _, node in self.each(znodes, str, watcher)]

    async def each(
        self, keys: Sequence[K], path: Callable[[K], str], watcher: Watcher | None = None
    ) -> AsyncIterator[tuple[K, tuple[bytes, ZnodeStat] | None]]:
        """Yield each key with the znode at its path, None if it does not exist. With a watcher the
        reads are pipelined; without, one request reads hundreds. Between the znodes other tasks
        run, since the caller decodes them."""
        slices = Slices()
        size = MAX_READS_PER_REQUEST if watcher is None else MAX_IN_FLIGHT
        for start in range(0, len(keys), size):
            some = keys[start : start + size]
            znodes = [path(key) for key in some]
            if watcher is None:
                found = await self._get_many(znodes)
            else:
                found = await in_chunks([partial(self.get, each, watcher) for each in znodes])
            async for key_and_node in slices.over(zip(some, found, strict=True)):
                yield key_and_node

    async def _get_many(self, some: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        return await self.until_response(lambda: self.session.get_many(some))

    async def children_all(self, znodes: Sequence[str]) -> list[list[str]]:
        """Return the children of the znodes at these paths in order, by pipelined reads."""
        return await in_chunks([partial(self.children, path) for path in znodes])

    # ---------------------------------------------------------------------------------- writes

    async def multi(self, ops: Group, *, may_be_done: bool = False) -> MultiOutcome:
        """Carry out all operations or none. If the response to an earlier attempt was lost (or if
        ``may_be_done``) and this one fails because the earlier one succeeded, return the results of
        a success. Raises TooLarge for more than ``NEVER_TAKEN_BYTES``, and for more than
        ``SMALLEST_LIMIT_BYTES`` after the server has closed the connection ``LARGE_ATTEMPTS``
        times. Raises NoAuth and InvalidAcl.
        """
        lost = may_be_done
        losses = 0
        size = sum(map(_size, ops))
        if size > NEVER_TAKEN_BYTES:
            raise TooLarge(max(ops, key=_size).path)

        async def attempt() -> list[OpResult]:
            nonlocal lost, losses
            try:
                return await self.session.multi(ops)
            except ConnectionLost:
                lost = True
                losses += 1
                if size > SMALLEST_LIMIT_BYTES and losses >= LARGE_ATTEMPTS:
                    raise TooLarge(max(ops, key=_size).path) from None
                raise

        started_ns = self._measured.now_ns()
        results = await self.until_response(attempt)
        denied = first_error(results)
        self._measured.multi(ops, started_ns, denied)
        if isinstance(denied, NoAuth | InvalidAcl):
            raise denied  # no other attempt can succeed
        if lost and first_error(results) is not None:
            results = await self._results_if_done(ops) or results
        return MultiOutcome(results, lost)

    async def _results_if_done(self, ops: Group) -> list[OpResult] | None:
        """Return the results of ``ops`` if the stored znodes show that they were carried out."""
        found = await self.get_all([op.path for op in ops])
        results: list[OpResult] = []
        for op, node in zip(ops, found, strict=True):
            if not self._has_effect_of(op, node):
                return None
            results.append(
                op.path
                if isinstance(op, CreateOp)
                else node[1]
                if isinstance(op, SetOp) and node
                else None
            )
        return results

    def _has_effect_of(self, op: CoordinationOp, node: tuple[bytes, ZnodeStat] | None) -> bool:
        """Whether ``node``, read at the path of ``op``, has the state that ``op`` writes."""
        if isinstance(op, CheckOp):
            return True
        if isinstance(op, DeleteOp):
            return node is None
        if node is None or node[0] != op.data:
            return False
        stat = node[1]
        if isinstance(op, SetOp):
            return op.version in (ANY_VERSION, stat.version - 1)
        owner = self.session.session_id if op.ephemeral else 0
        return not op.sequential and stat.ephemeral_owner == owner

    async def multi_or_raise(self, ops: Group) -> list[OpResult]:
        """Return the results. Raises the error of the operation that made the multi fail."""
        outcome = await self.multi(ops)
        raise_error(outcome.results)
        return outcome.results

    async def create(self, op: CreateOp) -> bool:
        """Create a znode. Return False if it exists already; raise any other error."""
        outcome = await self.multi([op])
        if isinstance(outcome.error, NodeExists):
            return False
        raise_error(outcome.results)
        return True

    async def delete_existing(self, znodes: Sequence[str]) -> None:
        """Delete the znodes at these paths, of which some may be gone already."""
        groups = [[DeleteOp(path)] for path in znodes]
        for results in await self.fenced(groups, None):
            if not isinstance(results[0], NoNode):
                raise_error(results)

    async def create_if_missing(self, path: str) -> None:
        """Create a znode and its parents without data, as far as they are missing."""
        if await self.exists(path) is not None:
            return
        for step in [*paths.parents(path), path]:
            await self.create(CreateOp(step, b""))

    async def fenced(
        self, groups: Sequence[Group], epoch_zk_version: int | None, *, in_turn: bool = False
    ) -> list[list[OpResult]]:
        """Write many groups in few multis and return the results of each group. Each multi checks
        that ``/controller_epoch`` has the version ``epoch_zk_version`` (None: no check) and raises
        ``ControllerMoved`` if not. Some multis are in flight together, or one at a time if
        ``in_turn``.

        If a multi fails, reads show which of its groups cannot succeed, and one more multi writes
        the others. If that one fails, too, each group is written in a multi of one group.
        """
        writes = [partial(self._fenced, batch, epoch_zk_version) for batch in batches(groups)]
        written = await in_chunks(writes, 1 if in_turn else MULTIS_IN_FLIGHT)
        return [results for batch in written for results in batch]

    async def _fenced(
        self, batch: Sequence[Group], epoch_zk_version: int | None
    ) -> list[list[OpResult]]:
        outcome = await self._checked([op for group in batch for op in group], epoch_zk_version)
        if outcome.error is None or len(batch) == 1:
            return split_like(batch, outcome.results)
        if outcome.repeated or not isinstance(outcome.error, BadVersion | NodeExists | NoNode):
            return await self._one_by_one(batch, epoch_zk_version, outcome.repeated)
        failures = await self._predicted_errors(batch)
        rest = [group for group, failure in zip(batch, failures, strict=True) if failure is None]
        written = iter(await self._rest(rest, epoch_zk_version))
        return [next(written) if failure is None else failure for failure in failures]

    async def _rest(
        self, batch: Sequence[Group], epoch_zk_version: int | None
    ) -> list[list[OpResult]]:
        if not batch:
            return []
        outcome = await self._checked([op for group in batch for op in group], epoch_zk_version)
        if outcome.error is None or len(batch) == 1:
            return split_like(batch, outcome.results)
        return await self._one_by_one(batch, epoch_zk_version, outcome.repeated)

    async def _one_by_one(
        self, batch: Sequence[Group], epoch_zk_version: int | None, may_be_done: bool
    ) -> list[list[OpResult]]:
        writes = [
            partial(self._checked, group, epoch_zk_version, may_be_done=may_be_done)
            for group in batch
        ]
        return [outcome.results for outcome in await in_chunks(writes)]

    async def _predicted_errors(self, batch: Sequence[Group]) -> list[list[OpResult] | None]:
        """Return the results of those groups that fail with the znodes as they are now, and None
        for the others. All are None if two operations have the same path: one may depend on the
        other."""
        ops = [op for group in batch for op in group]
        if len({op.path for op in ops}) < len(ops):
            return [None] * len(batch)
        found = await self.get_all([op.path for op in ops])
        errors: list[OpResult] = [
            _predicted_error(op, node) for op, node in zip(ops, found, strict=True)
        ]
        return [
            _rolled_back(group, of_group) if any(of_group) else None
            for group, of_group in zip(batch, split_like(batch, errors), strict=True)
        ]

    async def _checked(
        self, ops: Group, epoch_zk_version: int | None, *, may_be_done: bool = False
    ) -> MultiOutcome:
        if epoch_zk_version is None:
            return await self.multi(ops, may_be_done=may_be_done)
        check = CheckOp(paths.CONTROLLER_EPOCH, epoch_zk_version)
        outcome = await self.multi([check, *ops], may_be_done=may_be_done)
        if outcome.error is not None and outcome.error is outcome.results[0]:
            raise ControllerMoved(f"{paths.CONTROLLER_EPOCH} is not at version {epoch_zk_version}")
        return MultiOutcome(outcome.results[1:], outcome.repeated)


async def in_chunks(
    calls: Sequence[Callable[[], Awaitable[T]]], at_once: int = MAX_IN_FLIGHT
) -> list[T]:
    """Run calls concurrently, ``at_once`` at a time; return the results in order. The first error
    of a chunk is raised when all calls of the chunk have ended."""
    results: list[T] = []
    for start in range(0, len(calls), at_once):
        chunk = calls[start : start + at_once]
        ended = await asyncio.gather(*(call() for call in chunk), return_exceptions=True)
        for result in ended:
            if isinstance(result, BaseException):
                raise result
            results.append(result)
    return results


def batches(groups: Sequence[Group]) -> list[list[Group]]:
    """Pack groups in order into multis within both limits; a group is never split."""
    packed: list[list[Group]] = []
    ops = size = 0
    for group in groups:
        group_size = sum(_size(op) for op in group)
        full = ops + len(group) > MAX_OPS_PER_MULTI or size + group_size > MAX_MULTI_BYTES
        if not packed or full:
            packed.append([])
            ops = size = 0
        packed[-1].append(group)
        ops += len(group)
        size += group_size
    return packed


def _predicted_error(
    op: CoordinationOp, node: tuple[bytes, ZnodeStat] | None
) -> CoordinationError | None:
    """Return the error of ``op`` on a znode in the state ``node``; None if it may succeed."""
    if isinstance(op, CreateOp):
        return None if node is None or op.sequential else NodeExists(op.path)
    if node is None:
        return NoNode(op.path)
    return None if op.version in (ANY_VERSION, node[1].version) else BadVersion(op.path)


def _rolled_back(group: Group, errors: Sequence[OpResult]) -> list[OpResult]:
    """Return the results of a group in which at least one operation fails."""
    culprit = first_error(errors)
    return [e if e is culprit else RolledBack(op.path) for op, e in zip(group, errors, strict=True)]


def _size(op: CoordinationOp) -> int:
    data = op.data if isinstance(op, CreateOp | SetOp) else b""
    return len(op.path) + len(data) + 64


def split_like(groups: Sequence[Group], results: list[OpResult]) -> list[list[OpResult]]:
    """Split the results of merged groups into one list per group."""
    parts, start = [], 0
    for group in groups:
        parts.append(results[start : start + len(group)])
        start += len(group)
    return parts
