"""Calls: requests together with what reads their responses, and the versions they are sent in.

A function in a module of this package builds each call; the asyncio client, the Spark connector
and the simulator only carry calls out, so a request is built and its errors are read in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from minikafka.kernel.cluster import CoordinatorType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.schema import Message

R = TypeVar("R")
V = TypeVar("V")


class CoordinatorKey(NamedTuple):
    """What a coordinator is looked up by: a group id, or a transactional id."""

    type: CoordinatorType
    key: str


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """A request, sent in the highest version that both sides know, at most ``highest_version``.

    ``read`` returns the result that a response holds, or raises the KafkaError in it.
    """

    request: Message
    read: Callable[[Any], R]
    highest_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorCall(Call[R]):
    """A call to the coordinator of a group or of a transactional id."""

    coordinator: CoordinatorKey

    @property
    def name(self) -> str:
        """The request and its subject, for messages."""
        return f"{type(self.request).__name__.removesuffix('Request')} of {self.coordinator.key}"


def choose_version(
    ours: tuple[int, int], theirs: tuple[int, int] | None, highest_version: int | None = None
) -> int | None:
    """Return the highest version that both sides know, at most ``highest_version``.

    None if there is none. ``theirs`` is None for an API that the broker does not have.
    """
    if theirs is None:
        return None
    last = min(ours[1], theirs[1])
    if highest_version is not None:
        last = min(last, highest_version)
    return last if last >= max(ours[0], theirs[0]) else None


def raise_for(code: int, message: str | None = None) -> None:
    """Raise KafkaError unless ``code``, an error code as it stands in a response, is 0."""
    if code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(code), message)


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Return ``code``, an error code as it stands in a response, as an error; None for 0."""
    return None if code == ErrorCode.NONE else KafkaError(ErrorCode(code), message)


def raise_gravest(errors: Iterable[KafkaError | None]) -> None:
    """Raise one of ``errors``, if there is any: one that is final rather than a retriable one."""
    found = [error for error in errors if error is not None]
    if found:
        raise next((error for error in found if not error.code.retriable), found[0])
