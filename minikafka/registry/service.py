"""The registry: parses schemas with their references, and carries requests out one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

from minikafka.registry import decisions, errors
from minikafka.registry.avro import AvroSchema
from minikafka.registry.decisions import (
    LEVELS,
    ParsedSchema,
    Registration,
    RegistryChange,
    incompatibilities,
)
from minikafka.registry.json_schema import JsonSchema
from minikafka.registry.protobuf import ProtobufSchema
from minikafka.registry.records import (
    AVRO,
    JSON,
    PROTOBUF,
    Reference,
    Registered,
    SchemaText,
    StoreRecord,
)
from minikafka.registry.state import ALL, LATEST, LIVE, RegistryState, Shown

T = TypeVar("T")

MOST_PARSED: Final = 1_000
DEEPEST: Final = 30
KINDS: Final = (JSON, PROTOBUF, AVRO)


class Store(Protocol):
    """Where records go. ``append`` returns when the state has them."""

    async def append(self, records: tuple[StoreRecord, ...], /) -> None: ...


class Registry:
    """The state of the registry, and the requests that read or change it."""

    def __init__(self, state: RegistryState, store: Store) -> None:
        self.state = state
        self._store = store
        self._parsed: dict[object, ParsedSchema] = {}
        self._jobs: asyncio.Queue[tuple[Callable[[], Awaitable[object]], asyncio.Future[object]]]
        self._jobs = asyncio.Queue()

    async def run(self) -> None:
        """Carry out the changes one after the other, so that each is decided on a state that has
        all earlier ones."""
        while True:
            job, done = await self._jobs.get()
            if done.cancelled():
                continue
            try:
                result = await job()
            except Exception as error:  # it fails this request, not the registry
                if not done.cancelled():
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(result)

    async def change(self, decide: Callable[[RegistryState], RegistryChange[T]]) -> T:
        """Decide and append, in turn. Raises RegistryError."""

        async def job() -> T:
            return await self._carried_out(decide(self.state))

        return await self._in_turn(job)

    async def register(
        self, subject: str, schema: SchemaText, schema_id: int | None, version: int | None
    ) -> Registered:
        """Register a schema under a subject. Raises RegistryError."""

        async def job() -> Registered:
            parsed, stored = await self.parse(schema)
            known = self.state.find(subject, stored)
            earlier: dict[int, ParsedSchema] = {}
            if known is None and self.state.effective_level(subject) != "NONE":
                earlier = {
                    each.version: await self._parse_stored(each.schema)
                    for each in self.state.versions(subject)
                }
            elif known is None:
                earlier = {each.version: parsed for each in self.state.versions(subject)}
            wanted = Registration(stored, parsed, earlier, schema_id, version)
            return await self._carried_out(decisions.register(self.state, subject, wanted))

        return await self._in_turn(job)

    async def lookup(self, subject: str, schema: SchemaText, shown: Shown) -> Registered:
        """Return the version of a subject that has this schema. Raises RegistryError."""
        if not self.state.versions(subject, shown):
            raise errors.subject_not_found(subject)
        _, stored = await self.parse(schema)
        found = self.state.find(subject, stored, shown)
        if found is None:
            raise errors.schema_not_found()
        return found

    async def check(self, subject: str, schema: SchemaText, version: int | None) -> list[str]:
        """Return why a schema is incompatible with one version of a subject, or with those that
        the level names. Raises RegistryError."""
        parsed, _ = await self.parse(schema)
        decisions.check_rules(parsed)
        level = self.state.effective_level(subject)
        if version is None:
            versions = self.state.versions(subject)
        elif version == LATEST:
            versions = self.state.versions(subject)[-1:]
        else:
            versions = [self.state.version(subject, version)]
        earlier = [await self._parse_stored(each.schema) for each in versions]
        assert level in LEVELS
        return incompatibilities(level, parsed, earlier)

    async def serialized(self, schema: SchemaText) -> str:
        """Return a Protobuf schema as a descriptor in base64, any other one as it is."""
        parsed = await self._parse_stored(schema)
        return parsed.serialized() if isinstance(parsed, ProtobufSchema) else schema.text

    async def parse(self, schema: SchemaText) -> tuple[ParsedSchema, SchemaText]:
        """Parse the schema of a request, whose references may name the latest version. Return it
        with what is stored of it. Raises RegistryError."""
        pinned = tuple(
            Reference(each.name, each.subject, self._referred(each, LIVE).version)
            for each in schema.references
        )
        parsed = await self._parse_stored(SchemaText(schema.kind, schema.text, pinned))
        return parsed, SchemaText(schema.kind, parsed.canonical, pinned)

    async def _parse_stored(self, schema: SchemaText, depth: int = 0) -> ParsedSchema:
        if depth > DEEPEST:
            raise errors.invalid_schema("the references are too deep")
        referred = [self._referred(each, ALL).schema for each in schema.references]
        key = (schema, tuple(referred))
        if key not in self._parsed:
            names = [each.name for each in schema.references]
            others = [await self._parse_stored(each, depth + 1) for each in referred]
            # protoc is another process, and a large schema takes a while.
            parsed = await asyncio.to_thread(
                parsed_schema, schema.kind, schema.text, dict(zip(names, others, strict=True))
            )
            if len(self._parsed) >= MOST_PARSED:
                del self._parsed[next(iter(self._parsed))]
            self._parsed[key] = parsed
        return self._parsed[key]

    def _referred(self, reference: Reference, shown: Shown) -> Registered:
        try:
            return self.state.version(reference.subject, reference.version, shown)
        except errors.RegistryError:
            text = f'no schema of subject "{reference.subject}" and version {reference.version}'
            raise errors.invalid_schema(f"{text} for the reference {reference.name}") from None

    async def _carried_out(self, decision: RegistryChange[T]) -> T:
        if decision.records:
            await self._store.append(decision.records)
        return decision.result

    async def _in_turn(self, job: Callable[[], Awaitable[T]]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait((job, done))  # type: ignore[arg-type]
        return await done


def parsed_schema(kind: str, text: str, references: Mapping[str, ParsedSchema]) -> ParsedSchema:
    """Parse a schema, whose references are other ones by the names that it uses. Raises
    RegistryError. It may take a while: protoc is another process."""
    others = list(references.values())
    if any(each.kind != kind for each in others):
        raise errors.invalid_schema("a reference has another type of schema")
    if kind == AVRO:
        return AvroSchema(text, [each for each in others if isinstance(each, AvroSchema)])
    if kind == JSON:
        named = {name: each for name, each in references.items() if isinstance(each, JsonSchema)}
        return JsonSchema(text, named)
    if kind == PROTOBUF:
        files = {n: each for n, each in references.items() if isinstance(each, ProtobufSchema)}
        return ProtobufSchema(text, files)
    raise errors.invalid_schema(f"the type {kind} is not one of {', '.join(KINDS)}")
