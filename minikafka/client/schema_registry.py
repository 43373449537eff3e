"""A client of a schema registry: of `minikafka registry`, of Confluent's, and of others with the
same REST API.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from minikafka.client.rest import RestAddress, RestClient, RestError, quoted
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Network

LOGIN_VARIABLE: Final = "MINIKAFKA_REGISTRY_LOGIN"  # of the environment: NAME:PASSWORD
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
KINDS: Final = (AVRO, PROTOBUF, JSON)
LEVELS: Final = (
    *("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE", "NONE"),
)
SUBJECT_NOT_FOUND: Final = 40401
LATEST: Final = "latest"

Version: TypeAlias = int | str  # a number, or ``LATEST``


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema to check or to register. ``references`` have name, subject and version each."""

    text: str
    kind: str = AVRO
    references: Sequence[Mapping[str, Any]] = ()

    def body(self) -> bytes:
        found: dict[str, Any] = {"schema": self.text}
        if self.kind != AVRO:
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = list(self.references)
        return json.dumps(found).encode()


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    subject: str
    version: int
    id: int
    kind: str
    text: str
    references: Sequence[Mapping[str, Any]] = ()


class SchemaRegistry:
    """Requests to a registry, one at a time, over one connection. A context that closes it.

    Every method raises RestError if the registry refuses the request, and another ConnectionError
    if it cannot be reached or sends no such response."""

    def __init__(self, network: Network, address: RestAddress) -> None:
        self._rest = RestClient(network, address, "the registry", CONTENT_TYPE)

    async def __aenter__(self) -> SchemaRegistry:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._rest.close()

    async def subjects(self) -> list[str]:
        return sorted(map(str, await self._rest.array("GET", "/subjects")))

    async def versions(self, subject: str) -> list[int]:
        return [
            int(each) for each in await self._rest.array("GET", f"{_subject(subject)}/versions")
        ]

    async def version(self, subject: str, version: Version = LATEST) -> SchemaVersion:
        found = await self._rest.object("GET", f"{_subject(subject)}/versions/{version}")
        try:
            return SchemaVersion(
                str(found["subject"]),
                int(found["version"]),
                int(found["id"]),
                str(found.get("schemaType") or AVRO),
                str(found["schema"]),
                list(found.get("references") or ()),
            )
        except (KeyError, TypeError, ValueError):
            raise ConnectionError("the registry sent no version of a schema") from None

    async def referenced_by(self, subject: str, version: Version) -> list[int]:
        """Return the ids of the schemas that refer to a version."""
        return await self._rest.array("GET", f"{_subject(subject)}/versions/{version}/referencedby")

    async def level(self, subject: str | None = None) -> str:
        """Return the compatibility level, for a subject without one the global level."""
        path = "/config" if subject is None else f"/config/{quoted(subject)}?defaultToGlobal=true"
        return str((await self._rest.object("GET", path)).get("compatibilityLevel", ""))

    async def set_level(self, subject: str | None, level: str) -> None:
        path = "/config" if subject is None else f"/config/{quoted(subject)}"
        await self._rest.object("PUT", path, json.dumps({"compatibility": level}).encode())

    async def check(self, subject: str, schema: NewSchema) -> list[str] | None:
        """Return why the schema cannot be the next version, nothing if it can; None if the subject
        has no version yet."""
        path = f"/compatibility{_subject(subject)}/versions?verbose=true"
        try:
            found = await self._rest.object("POST", path, schema.body())
            await self.versions(subject)  # some registries check without any
        except RestError as error:
            if error.code == SUBJECT_NOT_FOUND:
                return None
            raise
        reasons = [str(each) for each in found.get("messages") or ()]
        return [] if found.get("is_compatible") else reasons or ["The schema is not compatible."]

    async def register(self, subject: str, schema: NewSchema) -> int:
        """Return the id of the schema."""
        found = await self._rest.object("POST", f"{_subject(subject)}/versions", schema.body())
        return int(found["id"])

    async def delete_version(self, subject: str, version: Version) -> None:
        await self._rest.send("DELETE", f"{_subject(subject)}/versions/{version}")

    async def delete_subject(self, subject: str) -> list[int]:
        return await self._rest.array("DELETE", _subject(subject))


def _subject(name: str) -> str:
    return f"/subjects/{quoted(name)}"
