"""The lives of the members of a group: they come, leave or die, and others take their seats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from minikafka.client.session import Client
from minikafka.kernel.errors import KafkaError
from minikafka.testing.verify.workload import Scene

LOOK_MS: Final = 200
LIFE_MS: Final = 40_000
ABSENCE_MS: Final = 1_000


class Living(Protocol):
    """One life of a member."""

    async def consume(self, leaves: asyncio.Event) -> None:
        """Work until ``leaves`` is set. Raises KafkaError, perhaps in an ExceptionGroup."""
        ...

    async def die(self, task: asyncio.Task[None]) -> None:
        """End ``task``, which runs ``consume``, as if the process was killed."""
        ...


M = TypeVar("M", bound=Living)


class Seats(Generic[M]):
    """Keeps a member in each seat of a group. A member lives for a random time, then leaves or
    dies; those that have a seat when the load ends stay until ``leave`` is set.

    ``make`` makes the member of a seat, with a name; ``absence_ms`` says how long a seat is empty.
    """

    def __init__(
        self, scene: Scene, make: Callable[[int, str], M], absence_ms: Callable[[], int]
    ) -> None:
        self.members: dict[int, M] = {}  # by seat
        self.leave = asyncio.Event()
        self._scene = scene
        self._make = make
        self._absence_ms = absence_ms

    async def sit(self, seat: int) -> None:
        """Let members live one after the other in this seat."""
        life = 0
        while not self.leave.is_set():
            life += 1
            member = self.members[seat] = self._make(seat, f"member {seat}.{life}")
            await self._live(member)
            if not self.leave.is_set():
                await self._scene.sleep(self._absence_ms())

    async def _live(self, member: M) -> None:
        """Let a member live until it leaves, dies, or meets an error."""
        scene, leaves = self._scene, asyncio.Event()
        choose = scene.world.entropy.randrange
        end_ms, dies = scene.now_ms() + choose(LIFE_MS), choose(2)
        living = asyncio.ensure_future(member.consume(leaves))
        try:
            while not (living.done() or leaves.is_set()):
                await asyncio.wait([living], timeout=LOOK_MS / 1_000)
                if scene.stop.is_set():
                    if self.leave.is_set():
                        leaves.set()
                elif scene.now_ms() >= end_ms:
                    if dies:
                        await member.die(living)
                    leaves.set()
            await asyncio.wait([living])
            if not living.cancelled():
                living.result()
        except* KafkaError:
            await scene.sleep(ABSENCE_MS)
        finally:
            if not living.done():
                await member.die(living)


async def kill(scene: Scene, client: Client, task: asyncio.Task[None]) -> None:
    """End a task with a client, whose connections are closed first: it says goodbye to nobody."""
    client.session.connections.close()
    while not task.done():
        task.cancel()
        await scene.sleep(1)
