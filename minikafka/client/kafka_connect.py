"""A client of the REST API of Kafka Connect's workers: connectors, their tasks and topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from minikafka.client.rest import RestAddress, RestClient, RestError, quoted
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Network

CONTENT_TYPE: Final = "application/json"
CONFLICT: Final = 409
FAILED: Final = "FAILED"
UNKNOWN: Final = "UNKNOWN"  # of a connector that no worker has reported yet
# Settings that name topics: of sinks, and of most sources.
_TOPIC_SETTINGS: Final = ("topics", "topic")


@dataclass(frozen=True, slots=True)
class ConnectPart:
    """A connector or a task. ``trace`` is the stack trace of one that has failed, else empty."""

    state: str
    worker: str
    trace: str

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> ConnectPart:
        worker, trace = (str(facts.get(name) or "") for name in ("worker_id", "trace"))
        return cls(str(facts.get("state") or UNKNOWN), worker, trace)


@dataclass(frozen=True, slots=True)
class Connector:
    """``kind``: source or sink. ``tasks``: by their numbers."""

    name: str
    kind: str
    config: Mapping[str, str]
    own: ConnectPart
    tasks: Mapping[int, ConnectPart]

    @classmethod
    def of(cls, name: str, info: Mapping[str, Any], status: Mapping[str, Any]) -> Connector:
        """Raises ConnectionError for anything that Connect does not send."""
        try:
            return cls(
                name,
                str(info.get("type") or status.get("type") or "unknown"),
                {str(key): str(value) for key, value in (info.get("config") or {}).items()},
                ConnectPart.of(status.get("connector") or {}),
                {int(each["id"]): ConnectPart.of(each) for each in status.get("tasks") or ()},
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ConnectionError(f"Kafka Connect sent no description of {name}") from None

    @property
    def failed_tasks(self) -> int:
        return sum(task.state == FAILED for task in self.tasks.values())

    @property
    def has_failed(self) -> bool:
        return self.own.state == FAILED or self.failed_tasks > 0

    @property
    def configured_topics(self) -> Sequence[str]:
        """Return the topics that the configuration names."""
        given = [self.config.get(key, "") for key in _TOPIC_SETTINGS]
        return [name.strip() for text in given for name in text.split(",") if name.strip()]


class KafkaConnect:
    """Requests to a worker, one at a time, over one connection. A context that closes it.

    Every method raises RestError if the worker refuses the request, and another ConnectionError if
    it cannot be reached or sends no such response."""

    def __init__(self, network: Network, address: RestAddress) -> None:
        self._rest = RestClient(network, address, "Kafka Connect", CONTENT_TYPE)

    async def __aenter__(self) -> KafkaConnect:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._rest.close()

    async def version(self) -> str:
        """Return the version of Kafka that the worker has."""
        return str((await self._object("/")).get("version", ""))

    async def connectors(self) -> list[Connector]:
        """Return all connectors by name."""
        found = await self._object("/connectors?expand=info&expand=status")
        return [
            Connector.of(name, found[name].get("info") or {}, found[name].get("status") or {})
            for name in sorted(found)
            if isinstance(found[name], dict)
        ]

    async def connector(self, name: str) -> Connector:
        info = await self._object(_path(name))
        return Connector.of(name, info, await self._object(f"{_path(name)}/status"))

    async def topics(self, name: str) -> list[str]:
        """Return the topics that a connector has used (KIP-558)."""
        found = (await self._object(f"{_path(name)}/topics")).get(name)
        topics = found.get("topics") if isinstance(found, dict) else None
        return sorted(map(str, topics or ()))

    async def change(self, method: str, path: str) -> Any:
        """Send a request that changes a connector or a task, and return the JSON of the response,
        None for one without a body."""
        try:
            return await self._rest.send(method, path)
        except RestError as error:
            raise _explained(error) from None

    async def _object(self, path: str) -> dict[str, Any]:
        try:
            return await self._rest.object("GET", path)
        except RestError as error:
            raise _explained(error) from None


def _path(name: str) -> str:
    return f"/connectors/{quoted(name)}"


def _explained(error: RestError) -> RestError:
    """Return the refusal with its usual reason: workers refuse requests while they rebalance."""
    if error.code != CONFLICT:
        return error
    return RestError(CONFLICT, f"the workers may be rebalancing, so try again soon: {error}")
