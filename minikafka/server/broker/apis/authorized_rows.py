"""Requests that name topics with partitions, and responses with a row for each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import Enum, auto
from typing import Any, TypeAlias

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.slices import Slices, in_slices
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, Gate
from minikafka.server.broker.apis.request import RequestContext


class Verdict(Enum):
    """What is decided about a request before its topics are looked at."""

    TOPICS_DECIDE = auto()
    ALL_ALLOWED = auto()


# Returns the verdict, or the error of all rows. Raises KafkaError for the whole request.
Precheck: TypeAlias = Callable[[Authorization, RequestContext, Any], Awaitable[Verdict | ErrorCode]]


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Where a request names topics, and how its response refuses them. ``new_topic`` makes the row
    of a topic from its name and its partitions' rows; ``new_partition`` makes the row of a
    partition from that of the request (or its number) and the error."""

    new_response: Callable[[], Any]
    new_topic: Callable[[str, list[Any]], Any]
    new_partition: Callable[[Any, ErrorCode], Any]
    requested: str = "topics"
    name: str = "name"
    partitions: str = "partitions"
    responded: str = "topics"

    async def refused(self, topics: Sequence[Any], error: ErrorCode) -> list[Any]:
        """Return the rows that refuse these topics of a request, made in slices."""
        rows: list[Any] = []
        slices = Slices()
        async for topic in slices.over(topics):
            partitions = [
                self.new_partition(partition, error)
                async for partition in slices.over(getattr(topic, self.partitions))
            ]
            rows.append(self.new_topic(getattr(topic, self.name), partitions))
        return rows

    async def refuse_all(self, request: Any, error: ErrorCode) -> Any:
        response = self.new_response()
        rows = await self.refused(getattr(request, self.requested) or (), error)
        setattr(response, self.responded, rows)
        return response

    def gate(
        self,
        operation: AclOperation,
        precheck: Precheck | None = None,
        answers_alone: bool = True,
    ) -> Gate:
        """Return the gate of an API in which ``operation`` is needed on each topic. If nothing is
        allowed the handler is not called, unless ``answers_alone`` is false."""

        async def admit(
            authorization: Authorization, context: RequestContext, request: Any
        ) -> Admitted:
            if precheck is not None:
                verdict = await precheck(authorization, context, request)
                if isinstance(verdict, ErrorCode):
                    return Admitted(None, response=await self.refuse_all(request, verdict))
                if verdict is Verdict.ALL_ALLOWED:
                    return Admitted(request)
            topics = getattr(request, self.requested)
            allowed = await authorization.allowed(
                context, operation, AclResourceType.TOPIC, [getattr(t, self.name) for t in topics]
            )
            kept, refused = await split(topics, self.name, allowed)
            if not refused:
                return Admitted(request)
            rows = await self.refused(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            setattr(request, self.requested, kept)
            if not kept and answers_alone:
                response = self.new_response()
                setattr(response, self.responded, rows)
                return Admitted(None, response=response)
            return Admitted(request, self._joining(rows))

        return admit

    def _joining(self, rows: list[Any]) -> Callable[[Any], Any]:
        def join(response: Any) -> Any:
            if isinstance(response, self._response_type):
                setattr(response, self.responded, getattr(response, self.responded) + rows)
            return response

        return join

    @property
    def _response_type(self) -> type:
        return type(self.new_response())


async def split(
    rows: Sequence[Any], name: str, allowed: Collection[str]
) -> tuple[list[Any], list[Any]]:
    """Return the rows whose names are allowed, and the others."""
    if len(rows) == 1:
        return (list(rows), []) if getattr(rows[0], name) in allowed else ([], list(rows))
    kept: list[Any] = []
    refused: list[Any] = []
    async for row in in_slices(rows):
        (kept if getattr(row, name) in allowed else refused).append(row)
    return kept, refused
