"""The schemas of records, from a registry by Confluent's REST API; kept, since an id never changes.

An id that the registry does not know may be any bytes, so it is asked for again only after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minikafka.client.rest import NOT_FOUND, RestError, quoted

if TYPE_CHECKING:
    from minikafka.page.dashboard.records.expression import Json
    from minikafka.registry.decisions import ParsedSchema

MOST_KEPT: Final = 1_000
MOST_LOADED: Final = 50  # ids of one call
MOST_REFERENCES: Final = 100  # of one schema, also indirect ones
DEEPEST: Final = 30
UNKNOWN_FOR_MS: Final = 30_000
_AVRO: Final = "AVRO"

Get = Callable[[str], Awaitable[Any]]


class KnownSchema(NamedTuple):
    """A schema with its names. ``read`` decodes what follows the id, and raises ValueError."""

    id: int
    kind: str
    versions: tuple[tuple[str, int], ...]
    read: Callable[[bytes], Json]

    def facts(self, preferred: str) -> Mapping[str, Any]:
        named = dict(self.versions)
        subject = preferred if preferred in named else next(iter(named), None)
        version = None if subject is None else named[subject]
        return {"id": self.id, "subject": subject, "version": version, "type": self.kind}


class _Missing(NamedTuple):
    why: str
    until_ms: int


class RegistrySchemas:
    """``get`` returns the JSON for a path; it raises RestError and ConnectionError, as RestClient
    does. ``now_ms`` is monotonic."""

    def __init__(self, get: Get, now_ms: Callable[[], int]) -> None:
        self._get = get
        self._now_ms = now_ms
        self._found: dict[int, KnownSchema | _Missing] = {}

    def known(self, schema_id: int) -> KnownSchema | str:
        found = self._found.get(schema_id)
        if found is None:
            return f"the schema {schema_id} is not loaded"
        return found.why if isinstance(found, _Missing) else found

    async def load(self, ids: Iterable[int]) -> None:
        """Load the schemas that are not known as yet, ``MOST_LOADED`` at most."""
        now_ms = self._now_ms()
        for number in islice(filter(lambda each: self._is_wanted(each, now_ms), ids), MOST_LOADED):
            found = await self._load(number)
            while len(self._found) >= MOST_KEPT:
                del self._found[next(iter(self._found))]
            self._found[number] = found
            if isinstance(found, _Missing) and found.until_ms == 0:
                return  # the registry does not respond; the next call may try again

    def _is_wanted(self, schema_id: int, now_ms: int) -> bool:
        found = self._found.get(schema_id)
        return found is None or (isinstance(found, _Missing) and found.until_ms <= now_ms)

    async def _load(self, schema_id: int) -> KnownSchema | _Missing:
        from minikafka.registry.errors import RegistryError
        from minikafka.registry.record_bodies import body_reader

        until_ms = self._now_ms() + UNKNOWN_FOR_MS
        try:
            given = await self._get(f"/schemas/ids/{schema_id}")
            parsed = await _References(self._get).parsed(given)
            read = await asyncio.to_thread(body_reader, parsed)
            rows = await self._get(f"/schemas/ids/{schema_id}/versions")
            versions = tuple((str(row["subject"]), int(row["version"])) for row in rows)
            return KnownSchema(schema_id, parsed.kind, versions, read)
        except RestError as error:
            # The registry's own codes begin with the status of HTTP: 40403 for such a schema.
            if str(error.code).startswith(str(NOT_FOUND)):
                return _Missing(f"the registry has no schema {schema_id}", until_ms)
            return _Missing(f"the registry does not give the schema {schema_id}: {error}", 0)
        except OSError as error:
            return _Missing(str(error), 0)
        except (RegistryError, ValueError, KeyError, TypeError) as error:
            return _Missing(f"the schema {schema_id} cannot be read: {error}", until_ms)


class _References:
    """Parses one schema with what it refers to."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._left = MOST_REFERENCES

    async def parsed(self, given: Mapping[str, Any], depth: int = 0) -> ParsedSchema:
        """Raises RegistryError, OSError, ValueError, KeyError, TypeError."""
        from minikafka.registry.service import parsed_schema

        others: dict[str, ParsedSchema] = {}
        for each in given.get("references") or ():
            self._left -= 1
            if self._left < 0 or depth > DEEPEST:
                raise ValueError(f"more than {MOST_REFERENCES} references, or {DEEPEST} levels")
            path = f"/subjects/{quoted(each['subject'])}/versions/{int(each['version'])}"
            others[each["name"]] = await self.parsed(await self._get(path), depth + 1)
        kind = given.get("schemaType") or _AVRO
        return await asyncio.to_thread(parsed_schema, kind, given["schema"], others)
