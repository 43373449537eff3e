"""The kinds of faults of requests. Each is one method, and its signature is the only list of its
fields: keyword arguments, JSON (``testing/fault_control``) and messages follow from it.

    with cluster.request_faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", times=3) as fault:
        application.run()
    assert fault.hits == 3

The first fault that fits a request decides, in the order in which they were added; ``observe``,
``delay`` and ``hold`` let later ones have their effect, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from minikafka.core.faults.rules import (
    Answer,
    Corrupt,
    Delay,
    DisconnectClient,
    Effect,
    Hold,
    Moment,
    Observe,
    RequestFacts,
    Swallow,
    ThrottleClient,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.spelling import did_you_mean
from minikafka.protocol.api_keys import ApiKey

At: TypeAlias = Literal["before", "after"]  # the handler
H = TypeVar("H")


class Select(TypedDict, total=False):
    """The requests that a fault concerns: those that everything set here fits.

    ``api`` is a name in any spelling ("produce", "JoinGroup", "join_group"); ``topic``,
    ``partition``, ``group`` and ``transactional_id`` must fit the same row of the request, and only
    such rows are struck. ``when`` is called with the request, on the event loop's thread. Requests
    between brokers are concerned only with ``of_broker``, and then only they.

    Of these the fault strikes ``times`` requests (1; None: until it is removed), from the one
    numbered ``on_call`` (1), each with ``probability``, which needs a ``seed``.

    ``must_hit``, for the faults of a test alone: whether the test fails at its end if the fault has
    struck nothing (True).
    """

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
    must_hit: bool


KEYWORDS: Final = tuple(name for name in Select.__annotations__ if name != "must_hit")


class RequestFaultKinds(ABC, Generic[H]):
    """The methods that add faults of requests. They return a handle, and raise ValueError for a
    name or number that makes no sense, and TypeError for an unknown keyword."""

    @abstractmethod
    def add_rule(self, effect: Effect, select: Select) -> H:
        """Add a fault with this effect, and return its handle."""

    def answer(self, error: str | ErrorCode, at: At = "before", **select: Unpack[Select]) -> H:
        """Respond with an error, such as "NOT_LEADER_OR_FOLLOWER". Of a request with several
        partitions, topics or groups those are refused that are selected, and the others are served.
        Nothing is done for what is refused, except by Produce with REQUEST_TIMED_OUT and
        NOT_ENOUGH_REPLICAS_AFTER_APPEND, or with ``at="after"``."""
        return self.add_rule(Answer(error_code(error), Moment(at)), select)

    def delay(self, seconds: float, at: At = "before", **select: Unpack[Select]) -> H:
        """Serve the request, or send its response, so much later."""
        return self.add_rule(Delay(round(seconds * 1000), Moment(at)), select)

    def hold(self, at: At = "before", **select: Unpack[Select]) -> H:
        """Keep the request, or its response, until ``release`` or ``remove`` of the handle."""
        return self.add_rule(Hold(Moment(at)), select)

    def disconnect(self, at: At = "before", **select: Unpack[Select]) -> H:
        """Close the client's connection: before the request is served, or after it in place of the
        response."""
        return self.add_rule(DisconnectClient(Moment(at)), select)

    def swallow(self, **select: Unpack[Select]) -> H:
        """Neither serve the request nor respond, now or to anything later on its connection, which
        stays open."""
        return self.add_rule(Swallow(), select)

    def throttle(self, seconds: float, **select: Unpack[Select]) -> H:
        """Serve the request, and throttle its client as a quota does."""
        return self.add_rule(ThrottleClient(round(seconds * 1000)), select)

    def corrupt(self, **select: Unpack[Select]) -> H:
        """Damage the records of a Fetch response, so that their CRC is wrong. The log is sound."""
        select.setdefault("api", ApiKey.FETCH)
        if api_key(select["api"]) is not ApiKey.FETCH:
            raise ValueError("only the records of Fetch responses can be corrupted")
        return self.add_rule(Corrupt(), select)

    def observe(self, **select: Unpack[Select]) -> H:
        """Count requests, without an effect on them."""
        select.setdefault("times", None)
        return self.add_rule(Observe(), select)


def api_key(name: str | ApiKey) -> ApiKey:
    """Return the API of a name in any spelling: ``produce``, ``JoinGroup``, ``join_group``. Raises
    ValueError."""
    if isinstance(name, ApiKey):
        return name
    found = {key.api_name.lower(): key for key in ApiKey}
    plain = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    if plain not in found:
        raise ValueError(f"no API {name!r}{did_you_mean(plain, found)}")
    return found[plain]


def error_code(name: str | ErrorCode) -> ErrorCode:
    """Return the error of Kafka's name. Raises ValueError."""
    if isinstance(name, ErrorCode):
        return name
    plain = name.upper()
    if plain not in ErrorCode.__members__:
        raise ValueError(f"no error {name!r}{did_you_mean(plain, ErrorCode.__members__)}")
    return ErrorCode[plain]
