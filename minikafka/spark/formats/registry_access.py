"""The client of a schema registry in Spark's processes: blocking, with a cache by id."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
SCHEMA_NOT_FOUND: Final = 40403
MOST_CACHED: Final = 1_000
DEEPEST: Final = 30


class FormatError(Exception):
    """A value or a schema that cannot be used, or a registry that refused a request."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[FormatError], tuple[str, int]]:
        return FormatError, (str(self), self.code)


@dataclass(frozen=True)
class RegistryAccess:
    """The address of a registry, several separated by commas, and the login.

    ``user`` and ``password`` are for basic authentication, ``token`` for bearer authentication. A
    user in the address counts as well. ``ca_file`` is the PEM file that TLS trusts, on each node.
    Secrets are in no text of this object or of its errors. Raises ValueError.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        plain: list[str] = []
        for each in self.url.split(","):
            parts = urlsplit(each.strip())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("the address of a registry must be http://HOST:PORT or https://")
            place = parts.netloc.rpartition("@")[2]
            plain.append(f"{parts.scheme}://{place}{parts.path}".rstrip("/"))
            if parts.username and self.user is None:
                object.__setattr__(self, "user", unquote(parts.username))
                object.__setattr__(self, "password", unquote(parts.password or ""))
        object.__setattr__(self, "url", ",".join(plain))
        if self.user is not None and self.token is not None:
            raise ValueError("a registry has a user or a token, not both")

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request to the first address that responds. Raises FormatError."""
        failure = ""
        for address in self.url.split(","):
            try:
                return self._send(method, address + path, body)
            except urllib.error.HTTPError as error:
                code, message = _refusal(error)
                failure = f"{method} {address}{path}: {message} ({code})"
                if error.code < 500:
                    raise FormatError(failure, code) from None
            except (OSError, ValueError) as error:
                failure = f"{method} {address}{path}: {error}"
        raise FormatError(failure)

    def _send(self, method: str, url: str, body: object) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        elif self.user is not None:
            login = f"{self.user}:{self.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        request = urllib.request.Request(url, data, headers, method=method)
        context = ssl.create_default_context(cafile=self.ca_file)
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirects
        )
        with opener.open(request, timeout=self.timeout_s) as response:
            return json.loads(response.read())


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would carry the login to another place."""

    def redirect_request(self, *args: Any, **named: Any) -> None:
        return None


class RegisteredSchema(NamedTuple):
    """A schema with those that it refers to, by the names that it uses. The text of a Protobuf
    schema is its descriptor in base64."""

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


@lru_cache(maxsize=MOST_CACHED)
def schema_by_id(access: RegistryAccess, schema_id: int) -> RegisteredSchema:
    """Return a schema; the second time without a request. Raises FormatError."""
    found = access.request("GET", f"/schemas/ids/{schema_id}?format=serialized")
    return _registered(access, schema_id, found, 0)


def schema_by_version(access: RegistryAccess, subject: str, version: str) -> RegisteredSchema:
    """Return a version of a subject, a number or "latest". Raises FormatError."""
    return _by_version(access, subject, version, 0)


def schema_id_of(access: RegistryAccess, subject: str, kind: str, text: str, register: bool) -> int:
    """Return the id of a schema under a subject; register it if ``register``. Raises
    FormatError."""
    body = {"schema": text, "schemaType": kind}
    path = f"/subjects/{quote(subject, safe='')}"
    found = access.request("POST", f"{path}/versions" if register else path, body)
    return int(found["id"])


def _by_version(access: RegistryAccess, subject: str, version: str, depth: int) -> RegisteredSchema:
    path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
    found = access.request("GET", f"{path}?format=serialized")
    return _registered(access, found["id"], found, depth)


def _registered(
    access: RegistryAccess, schema_id: int, found: dict[str, Any], depth: int
) -> RegisteredSchema:
    if depth > DEEPEST:
        raise FormatError(f"the references of schema {schema_id} are too deep")
    references = tuple(
        (each["name"], _by_version(access, each["subject"], str(each["version"]), depth + 1))
        for each in found.get("references", ())
    )
    return RegisteredSchema(schema_id, found.get("schemaType") or AVRO, found["schema"], references)


def _refusal(error: urllib.error.HTTPError) -> tuple[int, str]:
    try:
        body = json.loads(error.read())
        return int(body["error_code"]), str(body["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return error.code, str(error.reason)
