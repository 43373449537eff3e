"""The handle of a fault that a test has added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from minikafka.core.faults.rules import CutConnection, Hold, Moment, Rule, ThrottleClient
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.faults.injected import InjectedFaults

# Runs a coroutine on the event loop of the cluster or the proxy, from any other thread.
Call: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


class FaultHandle:
    """A fault of requests. All methods may be called from any thread but that of the event loop.
    As a context it removes the fault at its end."""

    def __init__(self, call: Call, faults: InjectedFaults, rule: Rule) -> None:
        self._call = call
        self._faults = faults
        self._rule = rule

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    @property
    def hits(self) -> int:
        """How many requests the fault has struck."""
        return self._rule.hits

    def wait(self, n: int = 1, timeout: float = 10.0) -> None:
        """Return when the fault has struck ``n`` requests. Raises AssertionError with their number
        after ``timeout`` seconds."""
        self._call(self._wait(n, timeout))

    def release(self) -> None:
        """Let go on what ``hold`` keeps, and hold nothing more. Raises TypeError for another
        fault."""
        if not isinstance(self._rule.effect, Hold):
            raise TypeError(f"only a hold can be released, not: {self.describe()}")
        self._call(self._release())

    def remove(self) -> None:
        """End the fault. What it holds goes on. A fault that has ended stays so."""
        self._call(self._remove())

    def describe(self) -> str:
        """Return the fault in the words with which it was added, for messages:
        ``answer LEADER_NOT_AVAILABLE before (api=Produce, partition=0)``."""
        effect, selector = self._rule.effect, self._rule.selector
        name = _METHODS.get(type(effect), type(effect).__name__.lower())
        words = [
            name,
            *(_shown(field.name, getattr(effect, field.name)) for field in fields(effect)),
        ]
        chosen = [
            f"{field.name.removesuffix('_key')}={_shown(field.name, value)}"
            for field in fields(selector)
            if (value := getattr(selector, field.name)) is not None and value is not False
        ]
        return f"{' '.join(words)} ({', '.join(chosen) or 'any request'})"

    def __repr__(self) -> str:
        return f"<{self.describe()}, {self.hits} hits>"

    async def _wait(self, n: int, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._faults.until(lambda: self._rule.hits >= n)
        except TimeoutError:
            raise AssertionError(
                f"{self._rule.hits} of {n} hits after {timeout_s} s: {self.describe()}"
            ) from None

    async def _release(self) -> None:
        self._faults.release(self._rule)

    async def _remove(self) -> None:
        self._faults.remove(self._rule)


# Effects whose classes have other names than the methods that add them.
_METHODS: Final[Mapping[type, str]] = {CutConnection: "disconnect", ThrottleClient: "throttle"}


def _shown(field: str, value: object) -> str:
    if isinstance(value, ApiKey):
        return value.api_name
    if isinstance(value, Moment):
        return value.value
    if field.endswith("_ms"):
        return f"{value} ms"
    return str(getattr(value, "name", getattr(value, "__name__", value)))
