"""What a nemesis needs of the place where a cluster runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO, Final, NamedTuple, Protocol, TypeAlias

from minikafka.core.client.cluster_view import Node
from minikafka.testing.verify.nemesis.plan import ZOOKEEPER, FaultKind, PlannedFault

# Of a fault of RESTART_ALL, by its ``choice``.
ENDINGS: Final = (FaultKind.KILL9, FaultKind.TERM)


class NemesisPlace(Protocol):
    """Causes and ends faults. ``check`` is called first, then ``refusal`` and ``victims``."""

    async def check(self, nodes: Mapping[int, Node]) -> None:
        """Raise ConfigError if this place has not exactly these brokers. Change nothing."""
        ...

    def refusal(self, kind: FaultKind) -> str:
        """Return why no fault of a kind can be caused here, in words; "" if it can."""
        ...

    def victims(self, kind: FaultKind) -> Sequence[int]:
        """Return the brokers that a fault of a kind may meet."""
        ...

    async def begin(self, fault: PlannedFault) -> None:
        """Cause a fault. Raises OSError if it cannot be caused after all."""
        ...

    async def end(self, fault: PlannedFault) -> None:
        """End a fault, also one of which ``begin`` has failed or was cancelled half-way. Raises
        OSError."""
        ...

    async def close(self) -> None:
        """Undo what outlasts faults."""
        ...


Act: TypeAlias = Callable[[int], Awaitable[None]]  # on a broker, or ZOOKEEPER


class BrokerActs(NamedTuple):
    """How one victim meets a fault, and how that ends. ``end`` may be called without ``begin``."""

    begin: Act
    end: Act


class BrokerPlace:
    """A place that causes a fault by an act on each victim. RESTART_ALL is KILL9 or TERM of all.

    A subclass sets what it finds in ``check``: ``acts`` by kind, the ``brokers``, fewer of them for
    some kinds, and the reasons why kinds are missing.
    """

    def __init__(self, missing: Mapping[FaultKind, str]) -> None:
        self.acts: dict[FaultKind, BrokerActs] = {}
        self.brokers: Sequence[int] = ()
        self.only: dict[FaultKind, Sequence[int]] = {}
        self.missing: dict[FaultKind, str] = dict(missing)

    def refusal(self, kind: FaultKind) -> str:
        if kind is FaultKind.RESTART_ALL and kind not in self.acts:
            return next(filter(None, map(self.refusal, ENDINGS)), "")
        return "" if kind in self.acts else self.missing.get(kind, "not here")

    def victims(self, kind: FaultKind) -> Sequence[int]:
        if kind is FaultKind.ZOOKEEPER:
            return (ZOOKEEPER,)
        return self.only.get(kind, self.brokers)

    async def begin(self, fault: PlannedFault) -> None:
        await self._act_on_all(fault, self._acts(fault).begin)

    async def end(self, fault: PlannedFault) -> None:
        await self._act_on_all(fault, self._acts(fault).end)

    async def close(self) -> None:
        """Each fault of such a place ends with ``end``."""

    def _acts(self, fault: PlannedFault) -> BrokerActs:
        kind = fault.kind
        if kind is FaultKind.RESTART_ALL and kind not in self.acts:
            kind = ENDINGS[fault.choice % len(ENDINGS)]
        return self.acts[kind]

    async def _act_on_all(self, fault: PlannedFault, act: Act) -> None:
        """Act on all victims at once. All acts end before the first error is raised."""
        done = await asyncio.gather(*map(act, fault.victims), return_exceptions=True)
        for outcome in done:
            if outcome is not None:
                raise outcome


async def run_command(*words: str, limit_s: float = 60) -> str:
    """Run a command and return its standard output. Raises ChildProcessError with its standard
    error, TimeoutError, or OSError if there is no such command."""
    # Files and not pipes: what the command leaves running may keep them.
    with TemporaryFile() as out, TemporaryFile() as err:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            async with asyncio.timeout(limit_s):
                status = await process.wait()
        except TimeoutError:
            raise TimeoutError(f"{' '.join(words)} takes more than {limit_s:g} s") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
        said, complaint = (_content(file) for file in (out, err))
    if status != 0:
        raise ChildProcessError(
            f"{' '.join(words)}: {complaint.strip() or f'exit status {status}'}"
        )
    return said


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
