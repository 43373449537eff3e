"""One body, three worlds: runs a contract against the real ports, those inside a process, and the
simulated ones."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from minikafka.kernel.ports import World
from minikafka.world.inside import inside_process
from minikafka.world.memory.coordination import MemoryZookeeper
from minikafka.world.memory.file_tree import FileTree
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world
from minikafka.world.sim.world import SimWorld

# The ports, and a directory of its own on their file system.
Body: TypeAlias = Callable[[World, str], Coroutine[Any, Any, None]]
Play: TypeAlias = Callable[[Body], None]

HANG_S = 30.0


@pytest.fixture
def play_real(tmp_path: Path) -> Play:
    numbers = itertools.count()

    def play(body: Body) -> None:
        directory = tmp_path / str(next(numbers))
        directory.mkdir()

        async def main() -> None:
            async with asyncio.timeout(HANG_S):
                await body(real_world(), str(directory))

        run(main())

    return play


@pytest.fixture
def play_inside() -> Play:
    def play(body: Body) -> None:
        world = inside_process(MemoryZookeeper(), FileTree()).world
        world.files.make_directories("/data")

        async def main() -> None:
            async with asyncio.timeout(HANG_S):
                await body(world, "/data")

        run(main())

    return play


@pytest.fixture
def play_sim() -> Play:
    seeds = itertools.count(1)

    def play(body: Body) -> None:
        simulation = SimWorld(next(seeds))
        host = simulation.host("here")

        async def main() -> None:
            host.world.files.make_directories("/data")
            await host.spawn(body(host.world, "/data"))

        simulation.run(main())

    return play


@pytest.fixture(params=["real", "inside", "sim"])
def play(request: pytest.FixtureRequest) -> Play:
    chosen: Play = request.getfixturevalue(f"play_{request.param}")
    return chosen
