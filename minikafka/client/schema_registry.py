"""A client of a schema registry: of `minikafka registry`, of Confluent's, and of others with the
same REST API.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Network
from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import HttpGetConnection, HttpStatusError, HttpUrl

LOGIN_VARIABLE: Final = "MINIKAFKA_REGISTRY_LOGIN"  # of the environment: NAME:PASSWORD
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
KINDS: Final = (AVRO, PROTOBUF, JSON)
LEVELS: Final = (
    *("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE", "NONE"),
)
MAX_BODY_BYTES: Final = 8 << 20
SUBJECT_NOT_FOUND: Final = 40401
NOT_FOUND: Final = 404
LATEST: Final = "latest"

Version: TypeAlias = int | str  # a number, or ``LATEST``


class SchemaRegistryError(ConnectionError):
    """The registry refused a request; ``code`` is its error code, else the status of HTTP."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """Where a registry is. ``login`` is NAME:PASSWORD, for HTTP's basic authentication."""

    url: str
    login: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str, login: str | None = None) -> RegistryAddress:
        """Parse ``http://HOST:PORT``, also with a path, https, or a login before the host, which
        wins over ``login``. Raises ValueError."""
        parts = urlsplit(text)
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        try:
            HttpUrl.parse(url)
        except ValueError as error:
            raise ValueError(f"the address of a registry: {error}") from None
        return cls(url, login)

    @property
    def headers(self) -> dict[str, str]:
        if self.login is None:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(self.login.encode()).decode()}"}


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

    Every method raises SchemaRegistryError if the registry refuses the request, and another
    ConnectionError if it cannot be reached or sends no such response."""

    def __init__(self, network: Network, address: RegistryAddress) -> None:
        url = HttpUrl.parse(address.url)
        self._url = address.url
        self._base = url.target.rstrip("/")
        self._headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE, **address.headers}
        self._connection = HttpGetConnection(lambda: network, url, TlsSettings(), MAX_BODY_BYTES)

    async def __aenter__(self) -> SchemaRegistry:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.close()

    async def subjects(self) -> list[str]:
        return sorted(map(str, await self._list("GET", "/subjects")))

    async def versions(self, subject: str) -> list[int]:
        return [int(each) for each in await self._list("GET", f"{_subject(subject)}/versions")]

    async def version(self, subject: str, version: Version = LATEST) -> SchemaVersion:
        found = await self._object("GET", f"{_subject(subject)}/versions/{version}")
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
        return await self._list("GET", f"{_subject(subject)}/versions/{version}/referencedby")

    async def level(self, subject: str | None = None) -> str:
        """Return the compatibility level, for a subject without one the global level."""
        path = "/config" if subject is None else f"/config/{_quoted(subject)}?defaultToGlobal=true"
        return str((await self._object("GET", path)).get("compatibilityLevel", ""))

    async def set_level(self, subject: str | None, level: str) -> None:
        path = "/config" if subject is None else f"/config/{_quoted(subject)}"
        await self._object("PUT", path, json.dumps({"compatibility": level}).encode())

    async def check(self, subject: str, schema: NewSchema) -> list[str] | None:
        """Return why the schema cannot be the next version, nothing if it can; None if the subject
        has no version yet."""
        path = f"/compatibility{_subject(subject)}/versions?verbose=true"
        try:
            found = await self._object("POST", path, schema.body())
            await self.versions(subject)  # some registries check without any
        except SchemaRegistryError as error:
            if error.code == SUBJECT_NOT_FOUND:
                return None
            raise
        reasons = [str(each) for each in found.get("messages") or ()]
        return [] if found.get("is_compatible") else reasons or ["The schema is not compatible."]

    async def register(self, subject: str, schema: NewSchema) -> int:
        """Return the id of the schema."""
        found = await self._object("POST", f"{_subject(subject)}/versions", schema.body())
        return int(found["id"])

    async def delete_version(self, subject: str, version: Version) -> None:
        await self._send("DELETE", f"{_subject(subject)}/versions/{version}")

    async def delete_subject(self, subject: str) -> list[int]:
        return await self._list("DELETE", _subject(subject))

    async def _list(self, method: str, path: str) -> list[Any]:
        found = await self._send(method, path)
        if not isinstance(found, list):
            raise ConnectionError(f"the registry sent no list for {path}")
        return found

    async def _object(self, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
        found = await self._send(method, path, body)
        if not isinstance(found, dict):
            raise ConnectionError(f"the registry sent no object for {path}")
        return found

    async def _send(self, method: str, path: str, body: bytes = b"") -> Any:
        try:
            raw = await self._connection.send(
                method, self._base + path, self._headers, body, keep=True
            )
            return json.loads(raw)
        except HttpStatusError as error:
            raise _refusal(error) from None
        except OSError as error:  # TimeoutError too
            why = error.strerror or str(error) or "no response in time"
            raise ConnectionError(f"no response of the registry {self._url}: {why}") from None
        except (ValueError, RecursionError):
            raise ConnectionError(f"{self._url} sent no JSON; is it a registry?") from None


def _refusal(error: HttpStatusError) -> SchemaRegistryError:
    try:
        found = json.loads(error.body)
        return SchemaRegistryError(int(found["error_code"]), str(found["message"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return SchemaRegistryError(error.status, f"the registry refused it: status {error.status}")


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _subject(name: str) -> str:
    return f"/subjects/{_quoted(name)}"
