"""Faults that a test puts into a cluster: into requests, disks and links.

``minikafka.faults`` is ``Faults[FaultInTest]`` and ``minikafka.aio.faults`` ``Faults[AsyncFault]``:
the same methods, whose handles wait in the way of their side. No method waits: a fault is there
when it returns. What is left of faults is removed at the test's end. A fault that never struck
fails the test then, unless it has ``must_hit=False``: a test that passes without its fault shows
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
)

from minikafka.testing.clients import in_thread
from minikafka.testing.cluster import WAIT_S, AnyCluster, At, FaultControl

if TYPE_CHECKING:
    from minikafka.core.faults.rules import RequestFacts
    from minikafka.kernel.errors import ErrorCode


class Selection(TypedDict, total=False):
    """The requests that a fault concerns: those that everything set here fits.

    ``api`` is a name in any spelling ("produce", "JoinGroup", "join_group"); ``topic``,
    ``partition``, ``group`` and ``transactional_id`` must fit the same row of the request, and only
    such rows are struck. ``when`` is called with the request. Requests between brokers are
    concerned only with ``of_broker``.

    Of these the fault strikes ``times`` requests (1; None: until it is removed), from the one
    numbered ``on_call`` (1), each with ``probability``, which needs a ``seed``.

    ``must_hit``: whether a test fails at its end if the fault has struck nothing (True).
    """

    api: str
    broker: int
    topic: str
    partition: int
    group: str
    transactional_id: str
    client_id: str
    when: Callable[[RequestFacts], bool]
    of_broker: bool
    times: int | None
    on_call: int
    probability: float
    seed: int
    must_hit: bool


class FaultInTest:
    """A fault. As a context it is removed at the end of the block. The methods block."""

    def __init__(self, control: FaultControl, must_hit: bool) -> None:
        self._control = control
        self.must_hit = must_hit

    @property
    def hits(self) -> int:
        """How many requests, or operations on a disk or link, have been struck."""
        return self._control.hits

    def wait(self, n: int = 1, timeout: float = WAIT_S) -> None:
        """Wait until ``n`` have been struck. Raises AssertionError with their number when they
        have not been within ``timeout`` seconds."""
        self._control.wait(n, timeout)

    def remove(self) -> None:
        """Remove the fault; what it keeps goes on."""
        self._control.remove()

    def release(self) -> None:
        """Let the requests go on that the fault keeps. Raises TypeError for a fault that keeps
        none: only ``hold`` does."""
        release(self._control)

    def describe(self) -> str:
        """Return the fault in words."""
        return self._control.describe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


class AsyncFault:
    """``FaultInTest`` for tests that run in a loop: ``async with``, and its methods are
    coroutines."""

    def __init__(self, control: FaultControl, must_hit: bool) -> None:
        self._control = control
        self.must_hit = must_hit

    @property
    def hits(self) -> int:
        return self._control.hits

    async def wait(self, n: int = 1, timeout: float = WAIT_S) -> None:
        await in_thread(self._control.wait, n, timeout)

    async def remove(self) -> None:
        await in_thread(self._control.remove)

    async def release(self) -> None:
        await in_thread(release, self._control)

    def describe(self) -> str:
        return self._control.describe()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.remove()


def release(control: FaultControl) -> None:
    """Raises TypeError for a fault that keeps no requests."""
    let_go = getattr(control, "release", None)
    if let_go is None:
        raise TypeError(f"{control.describe()} keeps no requests: only hold() does")
    let_go()


class AddedFaults:
    """The faults of one test."""

    def __init__(self) -> None:
        self._faults: list[tuple[FaultControl, bool]] = []

    def add(self, control: FaultControl, must_hit: bool) -> None:
        self._faults.append((control, must_hit))

    def remove_all(self) -> None:
        for control, _ in self._faults:
            control.remove()

    def complaint(self) -> str:
        """Return a sentence that names the faults that had to strike and did not; "" if there are
        none."""
        idle = [
            control.describe()
            for control, must_hit in self._faults
            if must_hit and control.hits == 0
        ]
        if not idle:
            return ""
        return f"never struck: {'; '.join(idle)} (must_hit=False allows a fault to be unused)"

    def check(self) -> None:
        """Raises AssertionError with the faults that had to strike and did not."""
        complaint = self.complaint()
        if complaint:
            raise AssertionError(complaint)


H = TypeVar("H")


class Faults(Generic[H]):
    """The faults of a cluster. Each method adds one, and returns its handle.

    Raises NotInThisPlace, and ValueError or TypeError for a name of an API, an error or a keyword
    that does not exist. Faults of requests apply in the order in which they were added; of those
    that do not let a request pass the first one counts.
    """

    def __init__(
        self, cluster: AnyCluster, added: AddedFaults, handle: Callable[[FaultControl, bool], H]
    ) -> None:
        self._cluster = cluster
        self._added = added
        self._handle = handle

    # ------------------------------------------------------------------------------------- requests

    def answer(self, error: str | ErrorCode, at: At = "before", **select: Unpack[Selection]) -> H:
        """Respond with an error, such as "NOT_LEADER_OR_FOLLOWER", for the rows concerned. The rest
        of the request is served, and with ``after`` all of it."""
        must_hit, others = _split(select)
        return self._add(self._cluster.request_faults.answer(error, at, **others), must_hit)

    def delay(self, seconds: float, at: At = "before", **select: Unpack[Selection]) -> H:
        """Wait before the request is served, or after that and before the response."""
        must_hit, others = _split(select)
        return self._add(self._cluster.request_faults.delay(seconds, at, **others), must_hit)

    def disconnect(self, at: At = "before", **select: Unpack[Selection]) -> H:
        """Close the client's connection. With ``after`` the work is done, and the response lost."""
        must_hit, others = _split(select)
        return self._add(self._cluster.request_faults.disconnect(at, **others), must_hit)

    def swallow(self, **select: Unpack[Selection]) -> H:
        """Neither serve the request nor respond; the connection stays open."""
        must_hit, others = _split(select)
        return self._add(self._cluster.request_faults.swallow(**others), must_hit)

    def throttle(self, seconds: float, **select: Unpack[Selection]) -> H:
        """Serve the request, and throttle the client as a quota does."""
        must_hit, others = _split(select)
        return self._add(self._cluster.request_faults.throttle(seconds, **others), must_hit)

    def corrupt(self, **select: Unpack[Selection]) -> H:
        """Damage the record batches in the response, so that their CRC is wrong."""
        must_hit, others = _split(select)
        return self._add(self._cluster.request_faults.corrupt(**others), must_hit)

    def hold(self, at: At = "before", **select: Unpack[Selection]) -> H:
        """Keep requests, or their responses, until ``release()`` of the handle."""
        must_hit, others = _split(select)
        return self._add(self._cluster.request_faults.hold(at, **others), must_hit)

    def observe(self, **select: Unpack[Selection]) -> H:
        """Count the requests, and do nothing to them."""
        must_hit, others = _split(select)
        return self._add(self._cluster.request_faults.observe(**others), must_hit)

    # ------------------------------------------------------------------------------ disks and links

    def full_disk(self, broker: int, free_bytes: int = 0, *, must_hit: bool = True) -> H:
        """Leave only ``free_bytes`` on a broker's disk."""
        disks = self._cluster.environment_faults
        return self._add(disks.full_disk(broker, free_bytes), must_hit)

    def broken_disk(self, broker: int, *, must_hit: bool = True) -> H:
        """Let reads and writes of a broker's disk fail."""
        return self._add(self._cluster.environment_faults.broken_disk(broker), must_hit)

    def slow_disk(self, broker: int, seconds: float, *, must_hit: bool = True) -> H:
        """Let operations on a broker's disk take longer."""
        return self._add(self._cluster.environment_faults.slow_disk(broker, seconds), must_hit)

    def slow_link(
        self, broker: int, other: int | None, seconds: float, *, must_hit: bool = True
    ) -> H:
        """Let data between two brokers take longer; with ``other`` None also data between a broker
        and its clients."""
        links = self._cluster.environment_faults
        return self._add(links.slow_link(broker, other, seconds), must_hit)

    def cut_link(self, broker: int, other: int | None = None, *, must_hit: bool = True) -> H:
        """Let no data pass between two brokers; without ``other`` none between a broker and all
        others and its clients."""
        return self._add(self._cluster.environment_faults.cut_link(broker, other), must_hit)

    def _add(self, control: FaultControl, must_hit: bool) -> H:
        self._added.add(control, must_hit)
        return self._handle(control, must_hit)


def _split(select: Selection) -> tuple[bool, dict[str, Any]]:
    """Return ``must_hit``, and the rest."""
    others: dict[str, Any] = dict(select)
    return others.pop("must_hit", True), others
