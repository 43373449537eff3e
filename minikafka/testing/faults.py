"""Faults that a test puts into a cluster: into requests, disks and links.

``minikafka.faults`` is ``Faults[FaultInTest]`` and ``minikafka.aio.faults`` ``Faults[AsyncFault]``:
the same methods, whose handles wait in the way of their side. No method waits: a fault is there
when it returns. What is left of faults is removed at the test's end. A fault that never struck
fails the test then, unless it has ``must_hit=False``: a test that passes without its fault shows
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from minikafka.core.faults.kinds import RequestFaultKinds, Select
from minikafka.core.faults.rules import Effect
from minikafka.testing.clients import in_thread
from minikafka.testing.fault_handle import WAIT_S, FaultInTest

if TYPE_CHECKING:
    from minikafka.testing.inside.environment_faults import EnvironmentFaults
    from minikafka.testing.request_faults import RequestFaults

H = TypeVar("H")


class AsyncFault:
    """``FaultInTest`` for tests that run in a loop: ``async with``, and its methods are
    coroutines."""

    def __init__(self, fault: FaultInTest) -> None:
        self._fault = fault

    @property
    def hits(self) -> int:
        return self._fault.hits

    async def wait(self, n: int = 1, timeout: float = WAIT_S) -> None:
        await in_thread(self._fault.wait, n, timeout)

    async def remove(self) -> None:
        await in_thread(self._fault.remove)

    async def release(self) -> None:
        await in_thread(self._fault.release)

    def describe(self) -> str:
        return self._fault.describe()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.remove()


class AddedFaults:
    """The faults of one test."""

    def __init__(self) -> None:
        self._faults: list[tuple[FaultInTest, bool]] = []

    def add(self, fault: FaultInTest, must_hit: bool) -> FaultInTest:
        """Note a fault, and return it."""
        self._faults.append((fault, must_hit))
        return fault

    def remove_all(self) -> None:
        for fault, _ in self._faults:
            fault.remove()

    def complaint(self) -> str:
        """Return a sentence that names the faults that had to strike and did not; "" if there are
        none."""
        idle = [
            fault.describe() for fault, must_hit in self._faults if must_hit and fault.hits == 0
        ]
        if not idle:
            return ""
        return f"never struck: {'; '.join(idle)} (must_hit=False allows a fault to be unused)"

    def check(self) -> None:
        """Raises AssertionError with the faults that had to strike and did not."""
        complaint = self.complaint()
        if complaint:
            raise AssertionError(complaint)


class HasFaults(Protocol):
    """A cluster with faults. Raises NotInThisPlace if it cannot have any."""

    @property
    def request_faults(self) -> RequestFaults: ...

    @property
    def environment_faults(self) -> EnvironmentFaults: ...


class Faults(RequestFaultKinds[H]):
    """The faults of a cluster. Each method adds one, and returns its handle, which ``handle`` makes
    from the fault and ``must_hit``.

    Raises NotInThisPlace, and ValueError or TypeError for a name of an API, an error or a keyword
    that does not exist. Faults of requests apply in the order in which they were added; of those
    that do not let a request pass the first one counts.
    """

    def __init__(self, cluster: HasFaults, handle: Callable[[FaultInTest, bool], H]) -> None:
        self._cluster = cluster
        self._handle = handle

    def add_rule(self, effect: Effect, select: Select) -> H:
        must_hit = select.pop("must_hit", True)
        return self._handle(self._cluster.request_faults.add_rule(effect, select), must_hit)

    # ------------------------------------------------------------------------------ disks and links

    def full_disk(self, broker: int, free_bytes: int = 0, *, must_hit: bool = True) -> H:
        """Leave only ``free_bytes`` on a broker's disk."""
        disks = self._cluster.environment_faults
        return self._handle(disks.full_disk(broker, free_bytes), must_hit)

    def broken_disk(self, broker: int, *, must_hit: bool = True) -> H:
        """Let reads and writes of a broker's disk fail."""
        return self._handle(self._cluster.environment_faults.broken_disk(broker), must_hit)

    def slow_disk(self, broker: int, seconds: float, *, must_hit: bool = True) -> H:
        """Let operations on a broker's disk take longer."""
        return self._handle(self._cluster.environment_faults.slow_disk(broker, seconds), must_hit)

    def slow_link(
        self, broker: int, other: int | None, seconds: float, *, must_hit: bool = True
    ) -> H:
        """Let data between two brokers take longer; with ``other`` None also data between a broker
        and its clients."""
        links = self._cluster.environment_faults
        return self._handle(links.slow_link(broker, other, seconds), must_hit)

    def cut_link(self, broker: int, other: int | None = None, *, must_hit: bool = True) -> H:
        """Let no data pass between two brokers; without ``other`` none between a broker and all
        others and its clients."""
        return self._handle(self._cluster.environment_faults.cut_link(broker, other), must_hit)
