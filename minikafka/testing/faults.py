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
from minikafka.testing.cluster import WAIT_S, FaultControl

if TYPE_CHECKING:
    from minikafka.server.faults.request_faults import RequestFaults
    from minikafka.testing.inside.environment_faults import EnvironmentFaults

H = TypeVar("H")


class AddedFault:
    """A fault that a test has added."""

    def __init__(self, control: FaultControl, must_hit: bool) -> None:
        self._control = control
        self.must_hit = must_hit

    @property
    def hits(self) -> int:
        """How many requests, or operations on a disk or link, have been struck."""
        return self._control.hits

    def describe(self) -> str:
        """Return the fault in words."""
        return self._control.describe()


class FaultInTest(AddedFault):
    """A fault. As a context it is removed at the end of the block. The methods block."""

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class AsyncFault(AddedFault):
    """``FaultInTest`` for tests that run in a loop: ``async with``, and its methods are
    coroutines."""

    async def wait(self, n: int = 1, timeout: float = WAIT_S) -> None:
        await in_thread(self._control.wait, n, timeout)

    async def remove(self) -> None:
        await in_thread(self._control.remove)

    async def release(self) -> None:
        await in_thread(release, self._control)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
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

    def noting(
        self, handle: Callable[[FaultControl, bool], H]
    ) -> Callable[[FaultControl, bool], H]:
        """Return what makes a handle as ``handle`` does, and notes its fault here."""

        def noted(control: FaultControl, must_hit: bool) -> H:
            self.add(control, must_hit)
            return handle(control, must_hit)

        return noted

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

    def __init__(self, cluster: HasFaults, handle: Callable[[FaultControl, bool], H]) -> None:
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
