"""Requests to a server with a REST API of JSON, such as a schema registry or Kafka Connect."""

from __future__ import annotations

import base64
import json
from dataclasses import field
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Network
from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import HttpGetConnection, HttpStatusError, HttpUrl

MAX_BODY_BYTES: Final = 8 << 20
NOT_FOUND: Final = 404


class RestError(ConnectionError):
    """The server refused a request; ``code`` is its error code, else the status of HTTP."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class RestAddress:
    """Where a server is. ``login`` is NAME:PASSWORD, for HTTP's basic authentication."""

    url: str
    login: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str, login: str | None = None) -> RestAddress:
        """Parse ``http://HOST:PORT``, also with a path, https, or a login before the host, which
        wins over ``login``. Raises ValueError."""
        parts = urlsplit(text)
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        HttpUrl.parse(url)
        return cls(url, login)

    @property
    def headers(self) -> dict[str, str]:
        if self.login is None:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(self.login.encode()).decode()}"}


class RestClient:
    """Requests to a server, one at a time, over one connection. ``server`` names it in errors.

    Every method raises RestError if the server refuses the request, and another ConnectionError if
    it cannot be reached or sends no such response."""

    def __init__(
        self, network: Network, address: RestAddress, server: str, content_type: str
    ) -> None:
        url = HttpUrl.parse(address.url)
        self._server = server
        self._url = address.url
        self._base = url.target.rstrip("/")
        self._headers = {"Accept": content_type, "Content-Type": content_type, **address.headers}
        self._connection = HttpGetConnection(lambda: network, url, TlsSettings(), MAX_BODY_BYTES)

    def close(self) -> None:
        self._connection.close()

    async def array(self, method: str, path: str) -> list[Any]:
        found = await self.send(method, path)
        if not isinstance(found, list):
            raise ConnectionError(f"{self._server} sent no array for {path}")
        return found

    async def object(self, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
        found = await self.send(method, path, body)
        if not isinstance(found, dict):
            raise ConnectionError(f"{self._server} sent no object for {path}")
        return found

    async def send(self, method: str, path: str, body: bytes = b"") -> Any:
        """Return the JSON of the response, None for a response without a body."""
        try:
            raw = await self._connection.send(
                method, self._base + path, self._headers, body, keep=True
            )
            return json.loads(raw) if raw else None
        except HttpStatusError as error:
            raise self._refusal(error) from None
        except OSError as error:  # TimeoutError too
            why = error.strerror or str(error) or "no response in time"
            raise ConnectionError(f"no response of {self._server} {self._url}: {why}") from None
        except (ValueError, RecursionError):
            raise ConnectionError(f"{self._url} sent no JSON; is it {self._server}?") from None

    def _refusal(self, error: HttpStatusError) -> RestError:
        try:
            found = json.loads(error.body)
            return RestError(int(found["error_code"]), str(found["message"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return RestError(error.status, f"{self._server} responded with status {error.status}")


def quoted(name: str) -> str:
    """Return a name as one segment of a path."""
    return quote(name, safe="")
