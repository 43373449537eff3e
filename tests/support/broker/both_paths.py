"""Plays the same steps to a broker with the paths of common requests and to one without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from hypothesis import strategies as st

from tests.support.broker.two_paths import Side

NOW = 1_700_000_000_000
Damage = tuple[float, int]  # a share of a frame, and a bit of the byte there, which is inverted
Step = TypeVar("Step")
Request = TypeVar("Request", bound=Any)  # with a field ``damage``


@dataclass(frozen=True)
class Change:
    """Something else than a request: a time in ms, a configuration, an election, a broken disk, a
    page that watches; or what a player knows besides."""

    kind: str
    value: int = 0


def damaged(frame: bytes, damage: Damage | None) -> bytes:
    """Return the frame with an inverted bit behind its size."""
    if damage is None:
        return frame
    share, bit = damage
    found = bytearray(frame)
    found[4 + int(share * (len(found) - 4))] ^= 1 << bit
    return bytes(found)


def varied(
    common: st.SearchStrategy[Request], differences: Sequence[Mapping[str, Any]]
) -> st.SearchStrategy[Request]:
    """Return mostly common requests, some with one of the ``differences``, and some damaged."""
    odd = st.tuples(common, st.sampled_from(differences)).map(
        lambda pair: replace(pair[0], **pair[1])
    )
    broken = st.tuples(common, st.floats(0, 0.999), st.integers(0, 7)).map(
        lambda three: replace(three[0], damage=three[1:])
    )
    return st.one_of(common, common, common, odd, broken)


class Player(ABC, Generic[Step]):
    """Plays steps to one side. Correlation ids are numbers of requests."""

    configs: Sequence[Mapping[str, Any]]

    def __init__(self, side: Side) -> None:
        self.side = side
        self._requests = 0

    async def play(self, *steps: Step | Change) -> None:
        for step in steps:
            if isinstance(step, Change):
                await self.change(step)
            else:
                self.send(step)
            await self.side.settle()

    @abstractmethod
    def send(self, step: Step) -> None:
        """Let the requests of a step arrive."""

    async def change(self, change: Change) -> None:
        side, kind, value = self.side, change.kind, change.value
        if kind == "time":
            await side.cluster.clock.advance(value)
        elif kind == "config":
            side.configure(**self.configs[value])
        elif kind == "leader":
            await side.elect(value)
        elif kind == "disk":
            side.break_disk()
        else:
            assert kind == "watch"
            side.watch()

    def next_id(self) -> int:
        self._requests += 1
        return self._requests


async def compared(
    player: Callable[[Side], Player[Any]], steps: Sequence[Any], **options: Any
) -> Side:
    """Play the steps on both sides and compare after each. Return the side with the common paths.
    ``options`` are those of ``Side``."""
    async with Side(False, **options) as without, Side(True, **options) as with_common:
        players = player(without), player(with_common)
        for number, step in enumerate(steps):
            for each in players:
                await each.play(step)
            general, common = without.state(), with_common.state()
            for key, value in general.items():
                assert common[key] == value, f"{key} after step {number}, {step}"
    return with_common
