"""A whole simulated world under one seed: hosts, the links between them, ZooKeeper.

Its Workers run a function at once, and its caller gets the result later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from minikafka.kernel.ports import World
from minikafka.world.sim.clock import SimClock
from minikafka.world.sim.coordination import SimCoordination
from minikafka.world.sim.disk import Disk, SimFiles
from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.links import LinkProfile, Links
from minikafka.world.sim.loop import START_US, SimLoop
from minikafka.world.sim.network import Fabric, SimNetwork
from minikafka.world.sim.process import Process
from minikafka.world.sim.trace import Trace
from minikafka.world.sim.zookeeper import SimZookeeper

T = TypeVar("T")

MAX_WORK_MS = 50


class SimWorkers:
    """See ``kernel.ports.Workers``."""

    def __init__(self, clock: SimClock, entropy: SimEntropy) -> None:
        self._clock = clock
        self._entropy = entropy

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        result = work(*args)
        await self._clock.sleep(self._entropy.randrange(MAX_WORK_MS))
        return result


LIMIT_S = 24 * 3600


class SimHost:
    """One machine. Its files outlive its processes; ``world`` has the ports of the current one."""

    def __init__(self, name: str, simulation: SimWorld) -> None:
        self.name = name
        self.disk = Disk(simulation.entropy.fork(f"disk/{name}"), simulation.tracer)
        self._simulation = simulation
        self._starts = 0
        self._wall_offset_ms = 0
        self._clock: SimClock
        self._process: Process
        self._world: World
        self._boot()

    @property
    def world(self) -> World:
        """The ports of the current process. After its death they raise until ``restart``."""
        return self._world

    @property
    def alive(self) -> bool:
        return self._process.alive

    def spawn(self, coro: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run a task of the current process. It is cancelled with the process, and so is every task
        that it creates.

        If it fails and no caller has awaited it, ``SimWorld.run`` raises its exception at the end.
        """
        task = self._process.spawn(coro, name)
        self._simulation.spawned.append(task)
        return task

    def start(self, coro: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run the main task of the current process. When it ends, by whatever means, the process
        exits: its sockets, files and tasks end as in ``kill``."""
        process = self._process
        task = self.spawn(coro, name)

        def exit_process(ended: asyncio.Task[T]) -> None:
            if process.alive:
                self._simulation.tracer.add("exit", host=self.name)
                process.die()

        task.add_done_callback(exit_process)
        return task

    def set_wall_offset(self, offset_ms: int) -> None:
        """Move the wall clock ahead, or back if negative, now and after restarts."""
        self._wall_offset_ms = self._clock.offset_ms = offset_ms

    async def kill(self) -> None:
        """Kill the process, as with ``kill -9``: the kernel closes its connections, and its tasks
        are cancelled and awaited. Written data stay in the page cache."""
        await self._end("kill")

    async def crash(self) -> None:
        """Switch the power off: connections end without a FIN or RST, and a random part of the data
        that were not flushed is lost. The host is dark until ``restart``."""
        self._simulation.links.set_dark(self.name, True)
        await self._end("crash", dark=True)

    def restart(self) -> World:
        """Start a new process on the same files. Raises ``RuntimeError`` if the old one runs."""
        if self._process.alive:
            raise RuntimeError(f"{self.name} is alive")
        self._simulation.tracer.add("restart", host=self.name)
        self._simulation.links.set_dark(self.name, False)
        self._boot()
        return self._world

    def _boot(self) -> None:
        simulation = self._simulation
        self._starts += 1
        self._process = process = Process(simulation.loop, self.name)
        self._clock = SimClock(process, self._wall_offset_ms)
        self._world = World(
            clock=self._clock,
            network=SimNetwork(process, simulation.fabric),
            files=SimFiles(process, self.disk),
            coordination=SimCoordination(process, simulation.zookeeper),
            entropy=simulation.entropy.fork(f"host/{self.name}/{self._starts}"),
            workers=SimWorkers(
                self._clock, simulation.entropy.fork(f"workers/{self.name}/{self._starts}")
            ),
        )

    async def _end(self, how: str, dark: bool = False) -> None:
        if self._process.alive:
            self._simulation.tracer.add(how, host=self.name)
            self._process.die()
        if dark:
            self.disk.crash()
        await self._process.end()


class SimWorld:
    """A simulation: its loop, hosts, links and ZooKeeper. The seed decides everything that happens.

    Create hosts, and tasks on them, inside ``run``, or run it in slices: ``run_slice``, at last
    ``end``. ``trace`` lists the events; ``digest()`` also covers all bytes sent. Both are equal in
    two runs with the same seed.
    """

    def __init__(self, seed: int, profile: LinkProfile | None = None) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.entropy = SimEntropy(f"minikafka/{seed}")
        self.tracer = Trace(self.loop)
        self.links = Links(
            self.loop, self.entropy.fork("links"), self.tracer, profile or LinkProfile()
        )
        self.fabric = Fabric(self.links)
        self.zookeeper = SimZookeeper(self.links)
        self.spawned: list[asyncio.Task[Any]] = []
        self._hosts: dict[str, SimHost] = {}

    @property
    def trace(self) -> list[str]:
        return self.tracer.events

    def digest(self) -> str:
        return self.tracer.digest()

    def run(self, main: Coroutine[Any, Any, T], limit_s: float = LIMIT_S) -> T:
        """Run ``main`` to its end, then kill all hosts. Call this once.

        Raises the exception of ``main``, ``Deadlock`` when all tasks wait and no timer is set,
        ``TimeLimitExceeded`` after ``limit_s`` simulated seconds, or ``Livelock``. If there is none
        of these, raises a BaseExceptionGroup of the exceptions in callbacks and in tasks of hosts
        that no caller has awaited.
        """
        self.loop.limit_us = START_US + round(limit_s * 1_000_000)
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                result = runner.run(main)
            finally:
                self.loop.limit_us = None
                runner.run(self._kill_all())
        self._raise_failures()
        return result

    def run_slice(self, until_us: int) -> bool:
        """Run the tasks and timers until ``until_us`` microseconds after the start, as part of a
        simulation that runs in slices; see ``SimLoop.run_slice``."""
        return self.loop.run_slice(START_US + until_us)

    def end(self) -> None:
        """End a simulation that has run in slices: kill all hosts, cancel the other tasks and close
        the loop. Raises what ``run`` raises for tasks and callbacks."""
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._kill_all())
        self._raise_failures()

    def host(self, name: str) -> SimHost:
        """Return the host with this name; the first call creates it."""
        if name not in self._hosts:
            self.fabric.add_host(name)
            self._hosts[name] = SimHost(name, self)
        return self._hosts[name]

    def known_host(self, name: str) -> SimHost | None:
        """Return the host with this name; None if it was not created yet."""
        return self._hosts.get(name)

    # ---------------------------------------------------------------------------------- faults

    def partition(self, one: str, other: str) -> None:
        """Block both directions between two hosts until ``heal``. ``zookeeper`` is a host, too."""
        self.clog(one, other)
        self.clog(other, one)

    def clog(self, source: str, target: str) -> None:
        """Block the direction from ``source`` to ``target`` until ``unclog`` or ``heal``."""
        self.tracer.add("clog", source=source, target=target)
        self.links.block(source, target)

    def unclog(self, source: str, target: str) -> None:
        self.tracer.add("unclog", source=source, target=target)
        self.links.open(source, target)

    def isolate(self, name: str) -> None:
        """Partition a host from every other one and from ZooKeeper."""
        for other in (*self._hosts, "zookeeper"):
            if other != name:
                self.partition(name, other)

    def slow(self, one: str, other: str, extra_us: int) -> None:
        """Add ``extra_us`` to the delay of both directions between two hosts; 0 ends that."""
        self.tracer.add("slow", one=one, other=other, extra_us=extra_us)
        self.links.slow(one, other, extra_us)
        self.links.slow(other, one, extra_us)

    def heal(self) -> None:
        """Open every direction at its normal delay. Messages that were held arrive."""
        self.tracer.add("heal")
        self.links.normalize_all()
        self.links.open_all()

    def reset(self, one: str, other: str) -> None:
        """Reset the connections between two hosts."""
        self.tracer.add("reset", one=one, other=other)
        self.fabric.reset(one, other)

    def refuse(self, name: str, refuses: bool = True) -> None:
        """Refuse new connections to a host, whose processes live, or accept them again."""
        self.tracer.add("refuse", name=name, refuses=refuses)
        self.fabric.refuse(name, refuses)

    def _raise_failures(self) -> None:
        failures = self._failures()
        if failures:
            raise BaseExceptionGroup("unnoticed in the simulation", failures)

    def _failures(self) -> list[BaseException]:
        raised = [failed["exception"] for failed in self.loop.unhandled if "exception" in failed]
        for task in self.spawned:
            # asyncio itself uses this attribute to see that the exception was never retrieved.
            if task.done() and not task.cancelled() and getattr(task, "_log_traceback", False):
                failure = task.exception()
                if failure is not None:
                    raised.append(failure)
        return list(dict.fromkeys(raised))

    async def _kill_all(self) -> None:
        for host in self._hosts.values():
            await host.kill()
