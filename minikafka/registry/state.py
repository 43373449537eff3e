"""The state of a registry: what the records of `_schemas`, applied in order, amount to.

Only ``apply`` changes it. Every other method reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.registry import errors
from minikafka.registry.records import (
    JsonObject,
    Registered,
    SchemaText,
    StoreRecord,
    registered_of,
)

DEFAULT_LEVEL: Final = "BACKWARD"
DEFAULT_MODE: Final = "READWRITE"
LATEST: Final = -1
_MAX_VERSION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Shown:
    """Which versions a request sees: with ``deleted`` also those that are soft deleted, with
    ``only_deleted`` no others."""

    deleted: bool = False
    only_deleted: bool = False

    def has(self, found: Registered) -> bool:
        return found.deleted if self.only_deleted else self.deleted or not found.deleted


LIVE: Final = Shown()
ALL: Final = Shown(deleted=True)


class RegistryState:
    """Subjects with their versions, compatibility levels and modes. ``None`` stands for the
    global level and mode."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, Registered]] = {}
        self._levels: dict[str | None, str] = {}
        self._modes: dict[str | None, str] = {}
        self._by_id: dict[int, dict[tuple[str, int], Registered]] = {}
        self._ids: dict[SchemaText, int] = {}
        self.max_id = 0
        self.malformed = 0

    # -- changes

    def apply(self, record: StoreRecord) -> None:
        """Apply a record. One that is not understood is counted in ``malformed`` and has no
        effect: a newer registry may have written it."""
        raw_key, raw_value = record
        try:
            key = json.loads(raw_key)
            value = None if raw_value is None else json.loads(raw_value)
            self._apply(key, value)
        except (ValueError, KeyError, TypeError, AttributeError):
            self.malformed += 1

    def _apply(self, key: JsonObject, value: JsonObject | None) -> None:
        match key["keytype"]:
            case "SCHEMA" if value is None:
                self._remove(key["subject"], key["version"])
            case "SCHEMA":
                self._put(registered_of(value or {}))
            case "DELETE_SUBJECT" if value is not None:
                for found in list(self._subjects.get(value["subject"], {}).values()):
                    if found.version <= value["version"]:
                        self._put(replace(found, deleted=True))
            case "CLEAR_SUBJECT" if value is not None:
                for version in list(self._subjects.get(value["subject"], {})):
                    self._remove(value["subject"], version)
            case "CONFIG":
                level = None if value is None else value.get("compatibilityLevel")
                _put_or_remove(self._levels, key.get("subject"), level)
            case "MODE":
                mode = None if value is None else value["mode"]
                _put_or_remove(self._modes, key.get("subject"), mode)

    def _put(self, found: Registered) -> None:
        self._remove(found.subject, found.version)
        self._subjects.setdefault(found.subject, {})[found.version] = found
        self._by_id.setdefault(found.id, {})[(found.subject, found.version)] = found
        self._ids.setdefault(found.schema, found.id)
        self.max_id = max(self.max_id, found.id)

    def _remove(self, subject: str, version: int) -> None:
        versions = self._subjects.get(subject, {})
        found = versions.pop(version, None)
        if found is None:
            return
        if not versions:
            del self._subjects[subject]
        with_id = self._by_id[found.id]
        del with_id[(subject, version)]
        if not with_id:
            del self._by_id[found.id]
            if self._ids.get(found.schema) == found.id:
                del self._ids[found.schema]

    # -- subjects and versions

    def subjects(self, prefix: str = "", shown: Shown = LIVE) -> list[str]:
        return sorted(
            subject
            for subject, versions in self._subjects.items()
            if subject.startswith(prefix) and any(shown.has(v) for v in versions.values())
        )

    def versions(self, subject: str, shown: Shown = LIVE) -> list[Registered]:
        """Return the versions of a subject, oldest first; none for an unknown one."""
        found = self._subjects.get(subject, {})
        return [found[number] for number in sorted(found) if shown.has(found[number])]

    def version(self, subject: str, version: int, shown: Shown = LIVE) -> Registered:
        """Return a version, of ``LATEST`` the newest one. Raises RegistryError."""
        found = self.versions(subject, shown)
        if not found and not self.versions(subject, ALL):
            raise errors.subject_not_found(subject)
        if version == LATEST:
            if not found:
                raise errors.subject_not_found(subject)
            return found[-1]
        for each in found:
            if each.version == version:
                return each
        raise errors.version_not_found(version)

    def find(self, subject: str, schema: SchemaText, shown: Shown = LIVE) -> Registered | None:
        """Return the newest version of a subject that has exactly this schema."""
        for each in reversed(self.versions(subject, shown)):
            if each.schema == schema:
                return each
        return None

    def all_versions(
        self, prefix: str = "", shown: Shown = LIVE, latest_only: bool = False
    ) -> list[Registered]:
        found: list[Registered] = []
        for subject in self.subjects(prefix, shown):
            versions = self.versions(subject, shown)
            found += versions[-1:] if latest_only else versions
        return found

    def next_version(self, subject: str) -> int:
        return max(self._subjects.get(subject, {}), default=0) + 1

    def referencing(self, subject: str, version: int, shown: Shown = LIVE) -> list[Registered]:
        """Return the versions of all subjects that refer to this one, in the order of ids."""
        found = [
            each
            for each in self.all_versions(shown=shown)
            for ref in each.schema.references
            if (ref.subject, ref.version) == (subject, version)
        ]
        return sorted(found, key=lambda each: each.id)

    # -- schemas by id

    def schema(self, schema_id: int) -> SchemaText:
        """Return the schema of an id, also of a soft deleted version. Raises RegistryError."""
        return self.with_id(schema_id, ALL)[0].schema

    def with_id(self, schema_id: int, shown: Shown = LIVE) -> list[Registered]:
        """Return the versions that have this id. Raises RegistryError if no version has it."""
        found = self._by_id.get(schema_id)
        if not found:
            raise errors.schema_not_found(schema_id)
        return [found[key] for key in sorted(found) if shown.has(found[key])]

    def id_of(self, schema: SchemaText) -> int | None:
        """Return the id that this schema has in any subject."""
        return self._ids.get(schema)

    def has_id(self, schema_id: int) -> bool:
        return schema_id in self._by_id

    # -- levels and modes

    def level(self, subject: str | None) -> str | None:
        return self._levels.get(subject)

    def effective_level(self, subject: str | None) -> str:
        return self._levels.get(subject) or self._levels.get(None) or DEFAULT_LEVEL

    def mode(self, subject: str | None) -> str | None:
        return self._modes.get(subject)

    def effective_mode(self, subject: str | None) -> str:
        return self._modes.get(subject) or self._modes.get(None) or DEFAULT_MODE


def parse_version(text: str) -> int:
    """Parse the version of a path: a number from 1 on, or ``LATEST``. Raises RegistryError."""
    if text in ("latest", "-1"):
        return LATEST
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MAX_VERSION):
        raise errors.invalid_version(text)
    return int(text)


def replayed(records: Iterable[StoreRecord]) -> RegistryState:
    """Return the state that these records amount to."""
    state = RegistryState()
    for record in records:
        state.apply(record)
    return state


def _put_or_remove(found: dict[str | None, str], key: str | None, value: str | None) -> None:
    if value is None:
        found.pop(key, None)
    else:
        found[key] = value
