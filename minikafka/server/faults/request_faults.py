"""Faults that a test puts into the requests of a cluster or of a proxy.

    with cluster.request_faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", times=3) as fault:
        application.run()
    assert fault.hits == 3

The keywords of all faults select requests, and all that are given must fit: ``api``, ``broker``,
``topic``, ``partition``, ``group``, ``transactional_id``, ``client_id``, ``when`` (a function of
``RequestFacts``, called on the event loop's thread), ``of_broker`` (requests between brokers, which
no other fault concerns). ``times`` is how many requests are struck (1; None: until the fault is
removed), ``on_call`` the number of the first one (1), ``probability`` with ``seed`` a chance.

The first fault that fits decides, in the order in which they were added; ``observe``, ``delay`` and
``hold`` let later ones have their effect, too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from minikafka.core.faults.rules import (
    Answer,
    Corrupt,
    CutConnection,
    Delay,
    Effect,
    Hold,
    Moment,
    Observe,
    RequestFacts,
    Rule,
    Selector,
    Swallow,
    ThrottleClient,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.faults.handles import Call, FaultHandle
from minikafka.server.faults.injected import InjectedFaults, SeenRequest

At: TypeAlias = Literal["before", "after"]


class Select(TypedDict, total=False):
    """The keywords of all faults; see the top of this module."""

    api: str | ApiKey
    broker: int
    topic: str
    partition: int
    group: str
    transactional_id: str
    client_id: str
    when: Callable[[RequestFacts], bool]
    of_broker: bool
    times: int | None
    on_call: int
    probability: float
    seed: int


class RequestFaults:
    """The faults of a cluster or a proxy. All methods may be called from any thread but that of its
    event loop. They raise ValueError for a name or number that makes no sense, and TypeError for a
    keyword."""

    def __init__(self, call: Call, faults: InjectedFaults) -> None:
        self._call = call
        self._faults = faults

    def answer(
        self, error: str | ErrorCode, at: At = "before", **select: Unpack[Select]
    ) -> FaultHandle:
        """Respond with an error. Of a request with several partitions, topics or groups those are
        refused that are selected, and the others are served. Nothing is done for what is refused,
        except by Produce with REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND, or with
        ``at="after"``."""
        return self._add(Answer(error_code(error), Moment(at)), select)

    def delay(self, seconds: float, at: At = "before", **select: Unpack[Select]) -> FaultHandle:
        """Serve the request, or send its response, so much later."""
        return self._add(Delay(round(seconds * 1000), Moment(at)), select)

    def hold(self, at: At = "before", **select: Unpack[Select]) -> FaultHandle:
        """Keep the request, or its response, until ``release`` or ``remove`` of the handle."""
        return self._add(Hold(Moment(at)), select)

    def disconnect(self, at: At = "before", **select: Unpack[Select]) -> FaultHandle:
        """Close the connection: before the request is served, or after it in place of the
        response."""
        return self._add(CutConnection(Moment(at)), select)

    def swallow(self, **select: Unpack[Select]) -> FaultHandle:
        """Neither serve the request nor respond, now or to anything later on its connection, which
        stays open."""
        return self._add(Swallow(), select)

    def throttle(self, seconds: float, **select: Unpack[Select]) -> FaultHandle:
        """Serve the request, and throttle its client as a quota does."""
        return self._add(ThrottleClient(round(seconds * 1000)), select)

    def corrupt(self, **select: Unpack[Select]) -> FaultHandle:
        """Damage the records of a Fetch response, so that their CRC is wrong. The log is sound."""
        select.setdefault("api", ApiKey.FETCH)
        if api_key(select["api"]) is not ApiKey.FETCH:
            raise ValueError("only the records of Fetch responses can be corrupted")
        return self._add(Corrupt(), select)

    def observe(self, **select: Unpack[Select]) -> FaultHandle:
        """Count requests, without an effect on them."""
        select.setdefault("times", None)
        return self._add(Observe(), select)

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

    def _add(self, effect: Effect, select: Select) -> FaultHandle:
        rule = Rule(effect, **_split(select))
        self._call(self._added(rule))
        return FaultHandle(self._call, self._faults, rule)

    async def _added(self, rule: Rule) -> None:
        self._faults.add(rule)


def _split(select: Select) -> dict[str, Any]:
    """Return the arguments of ``Rule``."""
    given: dict[str, Any] = dict(select)
    unknown = next((key for key in given if key not in Select.__annotations__), None)
    if unknown is not None:
        raise TypeError(f"no keyword {unknown!r}{_nearest(unknown, Select.__annotations__)}")
    arguments: dict[str, Any] = {
        key: given.pop(key) for key in ("times", "on_call", "probability") if key in given
    }
    seed = given.pop("seed", None)
    if seed is not None:
        arguments["chance"] = Random(seed).random
    if "api" in given:
        given["api_key"] = api_key(given.pop("api"))
    return {**arguments, "selector": Selector(**given)}


def api_key(name: str | ApiKey) -> ApiKey:
    """Return the API of a name in any spelling: ``produce``, ``JoinGroup``, ``join_group``. Raises
    ValueError."""
    if isinstance(name, ApiKey):
        return name
    found = {key.api_name.lower(): key for key in ApiKey}
    plain = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    if plain not in found:
        raise ValueError(f"no API {name!r}{_nearest(plain, found)}")
    return found[plain]


def error_code(name: str | ErrorCode) -> ErrorCode:
    """Return the error of Kafka's name. Raises ValueError."""
    if isinstance(name, ErrorCode):
        return name
    plain = name.upper()
    if plain not in ErrorCode.__members__:
        raise ValueError(f"no error {name!r}{_nearest(plain, ErrorCode.__members__)}")
    return ErrorCode[plain]


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
