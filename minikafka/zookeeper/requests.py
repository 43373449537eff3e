"""Requests on one ZooKeeper session: pipelined, repeated over lost connections, fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    ConnectionLost,
    CoordinationError,
    CoordinationOp,
    CoordinationSession,
    CreateOp,
    DeleteOp,
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
from minikafka.zookeeper import paths
from minikafka.zookeeper.errors import ControllerMoved

T = TypeVar("T")

MAX_OPS_PER_MULTI = 500  # beside the check; ten times faster than as many single writes
MAX_MULTI_BYTES = 512 * 1024  # a server refuses packets over 1 MB (jute.maxbuffer)
# By no server: not by ours, nor by the limit (jute.maxbuffer) that Kafka sets for its own client.
NEVER_TAKEN_BYTES = 4 * 1024 * 1024
SMALLEST_LIMIT_BYTES = 1_000_000  # a little below ZooKeeper's default of jute.maxbuffer
LARGE_ATTEMPTS = 5
MULTIS_IN_FLIGHT = 4
MAX_READS_PER_REQUEST = 500  # of nodes of some hundred bytes: the answer's size is not limited
MAX_IN_FLIGHT = 256  # requests of one call that are on the wire at the same time
ANY_VERSION = -1
PAUSE_S = 0.01  # before a lost request is repeated while the session seems connected

Group = Sequence[CoordinationOp]  # what belongs together: all of it is done or nothing


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a multi. ``repeated``: an earlier try had no answer, so this may be its echo."""

    results: list[OpResult]
    repeated: bool

    @property
    def error(self) -> CoordinationError | None:
        """The culprit's own error."""
        return first_error(self.results)


def first_error(results: Iterable[OpResult]) -> CoordinationError | None:
    """The culprit's error in the results of a multi, or None when it was done."""
    errors = [r for r in results if isinstance(r, CoordinationError)]
    return next((e for e in errors if not isinstance(e, RolledBack)), errors[0] if errors else None)


def raise_error(results: Iterable[OpResult]) -> None:
    error = first_error(results)
    if error is not None:
        raise error


class Requests:
    """What every store speaks through. Raises ``SessionExpired`` when the session is over; a lost
    connection is waited out, as Kafka's client does."""

    def __init__(self, session: CoordinationSession) -> None:
        self.session = session
        self._state_changed = asyncio.Event()
        self._listening = False

    # ------------------------------------------------------------------------ lost connections

    async def until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat ``call`` until it is answered, well or badly."""
        while True:
            try:
                return await call()
            except ConnectionLost:
                await self._reconnected()

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
        """None when there is no such node (then there is no watch either)."""
        try:
            return await self.until_answered(lambda: self.session.get(path, watcher))
        except NoNode:
            return None

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        return await self.until_answered(lambda: self.session.exists(path, watcher))

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """Sorted; empty when there is no such node (then there is no watch either)."""
        try:
            return await self.until_answered(lambda: self.session.children(path, watcher))
        except NoNode:
            return []

    async def get_all(
        self, wanted: Sequence[str], watcher: Watcher | None = None
    ) -> list[tuple[bytes, ZnodeStat] | None]:
        """Many nodes in the order asked; without a watcher hundreds by one request, else
        pipelined."""
        if watcher is not None:
            return await in_chunks([partial(self.get, path, watcher) for path in wanted])
        found: list[tuple[bytes, ZnodeStat] | None] = []
        for start in range(0, len(wanted), MAX_READS_PER_REQUEST):
            found += await self._get_many(wanted[start : start + MAX_READS_PER_REQUEST])
        return found

    async def _get_many(self, some: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        return await self.until_answered(lambda: self.session.get_many(some))

    async def children_all(self, wanted: Sequence[str]) -> list[list[str]]:
        """The children of many nodes, pipelined, in the order asked."""
        return await in_chunks([partial(self.children, path) for path in wanted])

    # ---------------------------------------------------------------------------------- writes

    async def multi(self, ops: Group, *, may_be_done: bool = False) -> Outcome:
        """All or nothing. Where the answer to a first try was lost (or ``may_be_done``) and this
        try fails only because the first was done, the outcome is that of a success. Raises
        TooLarge: sent, it would cost the session, as no server answers so many bytes; or the
        server, which may take 1 MB only, has hung up on it ``LARGE_ATTEMPTS`` times."""
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

        results = await self.until_answered(attempt)
        if lost and first_error(results) is not None:
            results = await self._echo(ops) or results
        return Outcome(results, lost)

    async def _echo(self, ops: Group) -> list[OpResult] | None:
        """The results that ``ops`` had, if what is stored now shows that they took place."""
        found = await self.get_all([op.path for op in ops])
        results: list[OpResult] = []
        for op, node in zip(ops, found, strict=True):
            if not self._shows(op, node):
                return None
            results.append(
                op.path
                if isinstance(op, CreateOp)
                else node[1]
                if isinstance(op, SetOp) and node
                else None
            )
        return results

    def _shows(self, op: CoordinationOp, node: tuple[bytes, ZnodeStat] | None) -> bool:
        """Whether ``node``, found at the path of ``op``, is what ``op`` leaves behind."""
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
        """Raises the culprit's error."""
        outcome = await self.multi(ops)
        raise_error(outcome.results)
        return outcome.results

    async def create(self, op: CreateOp) -> bool:
        """Whether it was made; False when it is there already. Raises any other error."""
        outcome = await self.multi([op])
        if isinstance(outcome.error, NodeExists):
            return False
        raise_error(outcome.results)
        return True

    async def create_if_missing(self, path: str) -> None:
        """With its parents, all empty."""
        if await self.exists(path) is not None:
            return
        for step in [*paths.parents(path), path]:
            await self.create(CreateOp(step, b""))

    async def fenced(
        self, groups: Sequence[Group], epoch_zk_version: int | None, *, in_turn: bool = False
    ) -> list[list[OpResult]]:
        """Write many groups in as few multis as possible, each of which checks that
        ``/controller_epoch`` still has the version given (None: no check). Several are on their way
        at a time, or only one if all of it has to be done ``in_turn``.

        Of a multi that fails, a reading shows which groups cannot be done, and the others are
        written by another; if that fails, too, one by one, each with its own check. Returns each
        group's results; raises ``ControllerMoved``.
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
        failures = await self._foreseen(batch)
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

    async def _foreseen(self, batch: Sequence[Group]) -> list[list[OpResult] | None]:
        """What would come of those groups that fail by what is there now; None for the others, and
        for all where one operation may count on another."""
        ops = [op for group in batch for op in group]
        if len({op.path for op in ops}) < len(ops):
            return [None] * len(batch)
        found = await self.get_all([op.path for op in ops])
        errors: list[OpResult] = [_foreseen(op, node) for op, node in zip(ops, found, strict=True)]
        return [
            _rolled_back(group, of_group) if any(of_group) else None
            for group, of_group in zip(batch, split_like(batch, errors), strict=True)
        ]

    async def _checked(
        self, ops: Group, epoch_zk_version: int | None, *, may_be_done: bool = False
    ) -> Outcome:
        if epoch_zk_version is None:
            return await self.multi(ops, may_be_done=may_be_done)
        check = CheckOp(paths.CONTROLLER_EPOCH, epoch_zk_version)
        outcome = await self.multi([check, *ops], may_be_done=may_be_done)
        if outcome.error is not None and outcome.error is outcome.results[0]:
            raise ControllerMoved(f"{paths.CONTROLLER_EPOCH} is not at version {epoch_zk_version}")
        return Outcome(outcome.results[1:], outcome.repeated)


async def in_chunks(
    calls: Sequence[Callable[[], Awaitable[T]]], at_once: int = MAX_IN_FLIGHT
) -> list[T]:
    """Run calls concurrently, ``at_once`` at a time; results in their order. The first error is
    raised when all calls of its chunk have ended."""
    results: list[T] = []
    for start in range(0, len(calls), at_once):
        chunk = calls[start : start + at_once]
        answers = await asyncio.gather(*(call() for call in chunk), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            results.append(answer)
    return results


def batches(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups packed in order into multis that keep both bounds (a group is never torn)."""
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


def _foreseen(op: CoordinationOp, node: tuple[bytes, ZnodeStat] | None) -> CoordinationError | None:
    """Why ``op`` would fail where ``node`` is; None if nothing shows that."""
    if isinstance(op, CreateOp):
        return None if node is None or op.sequential else NodeExists(op.path)
    if node is None:
        return NoNode(op.path)
    return None if op.version in (ANY_VERSION, node[1].version) else BadVersion(op.path)


def _rolled_back(group: Group, errors: Sequence[OpResult]) -> list[OpResult]:
    """The results of a group of which one operation fails, or more would."""
    culprit = first_error(errors)
    return [e if e is culprit else RolledBack(op.path) for op, e in zip(group, errors, strict=True)]


def _size(op: CoordinationOp) -> int:
    data = op.data if isinstance(op, CreateOp | SetOp) else b""
    return len(op.path) + len(data) + 64


def split_like(groups: Sequence[Group], results: list[OpResult]) -> list[list[OpResult]]:
    """Cut the results of merged groups back into one list per group."""
    parts, start = [], 0
    for group in groups:
        parts.append(results[start : start + len(group)])
        start += len(group)
    return parts
