"""The faults of a cluster's environment, of its disks and links, as a test sets and removes them.

Each is counted when it strikes, so that a test can wait for that and find out what a fault did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from minikafka.testing.fault_handle import WAIT_S, FaultInTest
from minikafka.testing.inside.brokers import BrokerState
from minikafka.testing.inside.disks import DiskFault, DiskFaults
from minikafka.world.memory.links import ClusterLinks, LinkFault


class RunOnLoop(Protocol):
    """Runs a function on the cluster's event loop, and returns when it has returned. Raises
    RuntimeError if the cluster does not run."""

    def __call__(self, work: Callable[[], object], /) -> None: ...


class EnvironmentFault(FaultInTest):
    """A fault of a disk or a link."""

    def __init__(self, description: str, remove: Callable[[], None]) -> None:
        self._description = description
        self._remove: Callable[[], None] | None = remove
        self._hits = 0
        self._struck = threading.Condition()

    @property
    def hits(self) -> int:
        """The number of operations that failed or were slowed by the fault."""
        return self._hits

    @property
    def is_removed(self) -> bool:
        return self._remove is None

    def wait(self, n: int = 1, timeout: float = WAIT_S) -> None:
        with self._struck:
            if not self._struck.wait_for(lambda: self._hits >= n, timeout):
                raise AssertionError(
                    f"{self._description}: {self._hits} of {n} hits within {timeout} s"
                )

    def remove(self) -> None:
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()

    def describe(self) -> str:
        """Return what the fault does, and how often it has struck."""
        state = ", removed" if self.is_removed else ""
        return f"{self._description} ({self._hits} hits{state})"

    def strike(self) -> None:
        """Count a hit. Called on the cluster's event loop."""
        with self._struck:
            self._hits += 1
            self._struck.notify_all()


class EnvironmentFaults:
    """Sets the faults of disks and links. ``run`` runs a function on the cluster's event loop.

    All methods may be called from any thread but the cluster's own."""

    def __init__(
        self, brokers: Mapping[int, BrokerState], run: RunOnLoop, links: ClusterLinks
    ) -> None:
        self._brokers = brokers
        self._links = links
        self._run = run
        self._disks = DiskFaults()
        self._faults: list[EnvironmentFault] = []

    def __iter__(self) -> Iterator[EnvironmentFault]:
        """Iterate over the faults that are set, from the oldest."""
        self._faults = [fault for fault in self._faults if not fault.is_removed]
        return iter(list(self._faults))

    def remove_all(self) -> None:
        for fault in self:
            fault.remove()

    # --------------------------------------------------------------------------------------- disks

    def full_disk(self, broker: int, free_bytes: int = 0) -> EnvironmentFault:
        """Leave ``free_bytes`` on a broker's disk. Writes beyond them fail with ENOSPC: its leaders
        respond with KAFKA_STORAGE_ERROR, its replicas fall behind, and both go on when the fault
        is removed. Raises ValueError for an unknown broker."""
        state = self._broker(broker)
        fault = DiskFault(capacity_bytes=state.tree.used_bytes + free_bytes)
        return self._add_disk(
            f"full disk of broker {broker}, {free_bytes} bytes free", state, fault
        )

    def broken_disk(self, broker: int, log_dir: str = "/") -> EnvironmentFault:
        """Let every operation of a broker on its disk fail with EIO. As in Kafka, the log directory
        goes offline, and a broker without any other one ends: remove the fault and start the
        broker again. ``log_dir`` breaks one directory of several (``log.dirs``). Raises ValueError
        for an unknown broker."""
        state = self._broker(broker)
        return self._add_disk(
            f"broken disk of broker {broker} at {log_dir}", state, DiskFault(broken=log_dir)
        )

    def slow_disk(self, broker: int, seconds: float) -> EnvironmentFault:
        """Let each flush and each read from a broker's disk take ``seconds``. Writes go to memory
        and take no time, as on a real machine; ``flush.messages=1`` lets appends wait for them.
        Raises ValueError for an unknown broker."""
        if seconds < 0:
            raise ValueError(f"a disk cannot be {seconds} s slow")
        state = self._broker(broker)
        return self._add_disk(
            f"slow disk of broker {broker}, {seconds} s", state, DiskFault(latency_s=seconds)
        )

    def _add_disk(
        self, description: str, broker: BrokerState, fault: DiskFault
    ) -> EnvironmentFault:
        return self._add(
            description,
            fault,
            lambda: self._disks.add(broker.tree, fault),
            lambda: self._disks.remove(broker.tree, fault),
        )

    # --------------------------------------------------------------------------------------- links

    def slow_link(self, broker: int, other: int | None, seconds: float) -> EnvironmentFault:
        """Let data take ``seconds`` longer between two brokers, in each direction; with ``other``
        None between a broker and all others, its clients too. A hit is a piece of data. Raises
        ValueError for an unknown broker."""
        if seconds < 0:
            raise ValueError(f"a link cannot be {seconds} s slow")
        described = f"slow link of {self._both(broker, other)}, {seconds} s"
        return self._add_link(described, LinkFault(broker, other, seconds))

    def cut_link(self, broker: int, other: int | None) -> EnvironmentFault:
        """Let nothing pass between two brokers; with ``other`` None between a broker and all others
        and its clients. What is held back is delivered when the fault is removed. Raises
        ValueError for an unknown broker."""
        described = f"cut link of {self._both(broker, other)}"
        return self._add_link(described, LinkFault(broker, other))

    def _both(self, broker: int, other: int | None) -> str:
        self._broker(broker)
        if other is None:
            return f"broker {broker}"
        self._broker(other)
        if broker == other:
            raise ValueError(f"broker {broker} has no link to itself")
        return f"brokers {broker} and {other}"

    def _add_link(self, description: str, fault: LinkFault) -> EnvironmentFault:
        return self._add(
            description, fault, lambda: self._links.add(fault), lambda: self._links.remove(fault)
        )

    # ------------------------------------------------------------------------------------- details

    def _add(
        self,
        description: str,
        fault: DiskFault | LinkFault,
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> EnvironmentFault:
        handle = EnvironmentFault(description, lambda: self._run(end))
        fault.struck = handle.strike
        self._run(begin)
        self._faults.append(handle)
        return handle

    def _broker(self, broker: int) -> BrokerState:
        state = self._brokers.get(broker)
        if state is None:
            raise ValueError(f"there is no broker {broker}; brokers: {sorted(self._brokers)}")
        return state
