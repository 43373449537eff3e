"""Calls: a request together with the function that reads its response.

A function in a module of this package builds each call; the asyncio client, the Spark connector and
the simulator only carry calls out, so a request is built and its errors are read in one place. The
type of a call says which broker gets it: any, a coordinator, the controller or a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from minikafka.core.client.cluster_view import Node
from minikafka.kernel.cluster import CoordinatorType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.schema import Message

K = TypeVar("K")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class CoordinatorKey(NamedTuple):
    """The key by which FindCoordinator looks up a coordinator: a group id or a transactional id."""

    type: CoordinatorType
    key: str


@dataclass(frozen=True, slots=True)
class Call(Generic[R_co]):
    """A request and how to read its response.

    The request is sent in the highest version that client and broker support, but not above
    ``highest_version``. ``read`` returns the result of a response, or raises the KafkaError in it.
    """

    request: Message
    read: Callable[[Any], R_co]
    highest_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorCall(Call[R_co]):
    """A call to the coordinator of a group or of a transactional id."""

    coordinator: CoordinatorKey

    @property
    def name(self) -> str:
        """The request name and the group id or transactional id, for error messages."""
        return f"{type(self.request).__name__.removesuffix('Request')} of {self.coordinator.key}"


@dataclass(frozen=True, slots=True)
class ControllerCall(Call[R_co]):
    """A call to the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderCall(Call[R_co]):
    """A call to the leader of one partition."""

    partition: TopicPartition


def choose_version(
    ours: tuple[int, int], theirs: tuple[int, int] | None, highest_version: int | None = None
) -> int | None:
    """Return the highest request version that client and broker support, or None.

    The version is not above ``highest_version``. ``ours`` and ``theirs`` are the lowest and highest
    supported versions; ``theirs`` is None for an API that the broker does not have.
    """
    if theirs is None:
        return None
    last = min(ours[1], theirs[1])
    if highest_version is not None:
        last = min(last, highest_version)
    return last if last >= max(ours[0], theirs[0]) else None


def request_version(
    message: Message,
    served: Mapping[int, tuple[int, int]],
    peer: str,
    highest_version: int | None = None,
) -> int:
    """Return the version in which ``message`` is sent to a broker, as ``choose_version`` says.

    ``served`` are the lowest and highest versions of the broker's APIs; ``peer`` is its address.
    Raises KafkaError UNSUPPORTED_VERSION.
    """
    spec = message.SPEC
    assert spec.api_key is not None
    ours = (spec.versions.first, spec.versions.last)
    theirs = served.get(spec.api_key)
    version = choose_version(ours, theirs, highest_version)
    if version is None:
        name = spec.api_key.api_name
        text = f"{name}: no version in common with {peer}" if theirs else f"{peer} has no {name}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    return version


def raise_for(code: int, message: str | None = None) -> None:
    """Raise KafkaError for the error code of a response, unless it is 0."""
    if code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(code), message)


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Return the KafkaError for the error code of a response, or None for 0."""
    return None if code == ErrorCode.NONE else KafkaError(ErrorCode(code), message)


def of_each(keys: Iterable[K], found: Mapping[K, R | KafkaError]) -> dict[K, R | KafkaError]:
    """Return the outcomes of ``keys``: an error for each one that a response left out."""
    missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "not in the response")
    return {key: found.get(key, missing) for key in keys}


def outcome_of(several: Call[dict[K, R | KafkaError]], key: K) -> Call[R]:
    """Return a call whose result is the outcome of one key. It raises the key's error."""

    def read(response: Any) -> R:
        outcome = several.read(response)[key]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    return Call(several.request, read)


def raise_gravest(errors: Iterable[KafkaError | None]) -> None:
    """Raise one of ``errors``, if any: a final error rather than a retriable one."""
    found = [error for error in errors if error is not None]
    if found:
        raise next((error for error in found if not error.retriable), found[0])


_ONE_KEY_VERSION: Final = 3  # later versions name several keys in a request


def find_coordinator(coordinator: CoordinatorKey) -> Call[Node]:
    """Build the FindCoordinator call for a group or a transactional id. Any broker serves it."""

    def read(response: FindCoordinatorResponse) -> Node:
        message = response.error_message or f"coordinator of {coordinator.key}"
        raise_for(response.error_code, message)
        return Node(response.node_id, response.host, response.port)

    request = FindCoordinatorRequest(coordinator.key, coordinator.type)
    return Call(request, read, _ONE_KEY_VERSION)
