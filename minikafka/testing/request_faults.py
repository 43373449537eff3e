"""The faults of the requests of a cluster or a proxy, as another thread adds and removes them.

``core/faults/kinds`` describes each kind of fault; a test, the proxy and HTTP have the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeAlias

from minikafka.core.faults.kinds import KEYWORDS, RequestFaultKinds, Select, api_key
from minikafka.core.faults.rules import Effect, Hold, Rule, Selector
from minikafka.kernel.spelling import did_you_mean
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.faults.injected import InjectedFaults, SeenRequest
from minikafka.testing.fault_handle import WAIT_S, FaultInTest

# Runs a coroutine on the event loop of the cluster or the proxy, from any other thread.
Call: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


class RequestFault(FaultInTest):
    """A fault of requests."""

    def __init__(self, call: Call, faults: InjectedFaults, rule: Rule) -> None:
        self._call = call
        self._faults = faults
        self._rule = rule

    @property
    def hits(self) -> int:
        return self._rule.hits

    def wait(self, n: int = 1, timeout: float = WAIT_S) -> None:
        self._call(self._wait(n, timeout))

    def release(self) -> None:
        if not isinstance(self._rule.effect, Hold):
            super().release()
        self._call(self._release())

    def remove(self) -> None:
        self._call(self._remove())

    def describe(self) -> str:
        return self._rule.describe()

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


class RequestFaults(RequestFaultKinds[RequestFault]):
    """The faults of a cluster or a proxy. All methods may be called from any thread but that of its
    event loop."""

    def __init__(self, call: Call, faults: InjectedFaults) -> None:
        self._call = call
        self._faults = faults

    def add_rule(self, effect: Effect, select: Select) -> RequestFault:
        rule = rule_of(effect, select)
        self._call(self._added(rule))
        return RequestFault(self._call, self._faults, rule)

    def requests(
        self,
        api: str | ApiKey | None = None,
        client_id: str | None = None,
        broker: int | None = None,
    ) -> list[SeenRequest]:
        """Return the last requests that brokers have received, from the oldest; of 10,000."""
        name = None if api is None else api_key(api).api_name
        return [
            each
            for each in self._call(self._seen())
            if name in (None, each.api)
            and client_id in (None, each.client_id)
            and broker in (None, each.broker)
        ]

    async def _seen(self) -> list[SeenRequest]:
        return list(self._faults.seen)

    async def _added(self, rule: Rule) -> None:
        self._faults.add(rule)


def rule_of(effect: Effect, select: Select) -> Rule:
    """Return the rule of a fault. Raises ValueError, and TypeError for an unknown keyword."""
    given: dict[str, Any] = dict(select)
    unknown = next((key for key in given if key not in KEYWORDS), None)
    if unknown is not None:
        raise TypeError(f"no keyword {unknown!r}{did_you_mean(unknown, KEYWORDS)}")
    arguments: dict[str, Any] = {
        key: given.pop(key) for key in ("times", "on_call", "probability") if key in given
    }
    seed = given.pop("seed", None)
    if seed is not None:
        arguments["chance"] = Random(seed).random
    if "api" in given:
        given["api_key"] = api_key(given.pop("api"))
    return Rule(effect, Selector(**given), **arguments)
