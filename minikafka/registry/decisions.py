"""The records that a request of a client adds to `_schemas`: pure functions of the state.

Each function returns what the client gets and the records to append; it changes nothing. A schema
has been parsed before, and ``SchemaText`` holds its canonical text.

A compatibility level says which versions a new schema is compared with, in which direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, Protocol, TypeVar

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.registry import errors
from minikafka.registry.records import (
    Registered,
    SchemaText,
    StoreRecord,
    config_record,
    delete_subject_record,
    mode_record,
    schema_record,
    schema_tombstone,
)
from minikafka.registry.state import ALL, LIVE, RegistryState

# A level: whether the new schema must read what earlier ones wrote, whether earlier ones must read
# what the new one writes, and whether all earlier versions count or the last one alone.
LEVELS: Final = {
    "NONE": (False, False, False),
    "BACKWARD": (True, False, False),
    "BACKWARD_TRANSITIVE": (True, False, True),
    "FORWARD": (False, True, False),
    "FORWARD_TRANSITIVE": (False, True, True),
    "FULL": (True, True, False),
    "FULL_TRANSITIVE": (True, True, True),
}


class ParsedSchema(Protocol):
    """A schema with its references resolved."""

    @property
    def kind(self) -> str: ...

    @property
    def canonical(self) -> str:
        """The text that is stored; equal for schemas that differ in white space alone."""
        ...

    @property
    def violations(self) -> Sequence[str]:
        """The rules of its specification that the schema breaks. If there are any, it cannot be
        registered; a schema that is stored already stays usable."""
        ...

    def unreadable(self, writer: ParsedSchema) -> list[str]:
        """Return the reasons why this schema cannot read what ``writer``, a schema of the same
        kind, has written; none if it can."""
        ...


def incompatibilities(level: str, new: ParsedSchema, earlier: Sequence[ParsedSchema]) -> list[str]:
    """Return why ``new`` may not follow ``earlier``, the versions of its subject with the oldest
    first; nothing if it may."""
    new_reads, old_reads, transitive = LEVELS[level]
    for old in reversed(earlier if transitive else earlier[-1:]):
        reasons: list[str] = []
        if new.kind != old.kind and (new_reads or old_reads):
            reasons.append(f"the type of the schema changed from {old.kind} to {new.kind}")
        else:
            if new_reads:
                reasons += new.unreadable(old)
            if old_reads:
                reasons += old.unreadable(new)
        if reasons:
            return reasons
    return []


T = TypeVar("T")

MODES: Final = ("READWRITE", "READONLY", "IMPORT")


@dataclass(frozen=True, slots=True)
class RegistryChange(Generic[T]):
    """The records to append and the result of a request, valid once they are in the topic."""

    result: T
    records: tuple[StoreRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Registration:
    """The schema to register. ``id`` and ``version`` may be given in the mode IMPORT only.
    ``earlier`` are the parsed schemas of the subject's live versions, by version."""

    schema: SchemaText
    parsed: ParsedSchema
    earlier: Mapping[int, ParsedSchema]
    id: int | None = None
    version: int | None = None


def register(
    state: RegistryState, subject: str, wanted: Registration
) -> RegistryChange[Registered]:
    """Add a version to a subject, unless a live version has the same schema. Raises RegistryError:
    a mode that forbids it, a schema that is incompatible or breaks a rule of its specification, an
    id that another schema has. In the mode IMPORT schemas are not checked: another registry has
    accepted them."""
    if state.effective_mode(subject) == "IMPORT":
        return _imported(state, subject, wanted)
    if wanted.id is not None and wanted.id >= 0:
        raise errors.not_permitted(f"Subject {subject} is not in import mode")
    if (found := state.find(subject, wanted.schema)) is not None:
        return RegistryChange(found)
    check_writable(state, subject)
    check_rules(wanted.parsed)
    versions = [wanted.earlier[each.version] for each in state.versions(subject)]
    reasons = incompatibilities(state.effective_level(subject), wanted.parsed, versions)
    if reasons:
        raise errors.incompatible(subject, reasons)
    schema_id = state.id_of(wanted.schema) or state.max_id + 1
    added = Registered(subject, state.next_version(subject), schema_id, wanted.schema)
    return RegistryChange(added, (schema_record(added),))


def _imported(
    state: RegistryState, subject: str, wanted: Registration
) -> RegistryChange[Registered]:
    found = state.find(subject, wanted.schema)
    if wanted.id is None or wanted.id < 0:
        raise errors.not_permitted(f"Subject {subject} is in import mode: a schema needs its id")
    if found is not None and wanted.id == found.id and wanted.version in (None, found.version):
        return RegistryChange(found)
    if state.has_id(wanted.id) and state.schema(wanted.id) != wanted.schema:
        raise errors.not_permitted(f"Overwrite new schema with id {wanted.id} is not permitted.")
    version = wanted.version or state.next_version(subject)
    added = Registered(subject, version, wanted.id, wanted.schema)
    return RegistryChange(added, (schema_record(added),))


def delete_version(
    state: RegistryState, subject: str, version: int, permanent: bool
) -> RegistryChange[int]:
    """Delete one version, softly; or one that is soft deleted for good. Raises RegistryError."""
    check_writable(state, subject)
    found = state.version(subject, version, ALL if permanent or version > 0 else LIVE)
    if found.deleted and not permanent:
        raise errors.version_soft_deleted(subject, found.version)
    if not found.deleted and permanent:
        raise errors.version_not_soft_deleted(subject, found.version)
    _check_not_referenced(state, [found], permanent)
    if permanent:
        return RegistryChange(found.version, (schema_tombstone(subject, found.version),))
    records = [schema_record(replace(found, deleted=True))]
    if len(state.versions(subject)) == 1:
        records += _without_settings(state, subject)
    return RegistryChange(found.version, tuple(records))


def delete_subject(
    state: RegistryState, subject: str, permanent: bool
) -> RegistryChange[list[int]]:
    """Delete all versions of a subject, softly; or for good once all are soft deleted. The result
    is the list of their versions. Raises RegistryError."""
    check_writable(state, subject)
    every, live = state.versions(subject, ALL), state.versions(subject)
    if not every:
        raise errors.subject_not_found(subject)
    if permanent and live:
        raise errors.subject_not_soft_deleted(subject)
    if not permanent and not live:
        raise errors.subject_soft_deleted(subject)
    gone = every if permanent else live
    _check_not_referenced(state, gone, permanent)
    records: list[StoreRecord] = []
    if permanent:
        records += [schema_tombstone(subject, each.version) for each in gone]
    else:
        records.append(delete_subject_record(subject, gone[-1].version))
    records += _without_settings(state, subject)
    return RegistryChange([each.version for each in gone], tuple(records))


def set_level(state: RegistryState, subject: str | None, level: object) -> RegistryChange[str]:
    """Set the compatibility level of a subject, or the global one. Raises RegistryError."""
    if not isinstance(level, str) or level.upper() not in LEVELS:
        raise errors.invalid_compatibility_level()
    check_writable(state, subject)
    return RegistryChange(level.upper(), (config_record(subject, level.upper()),))


def delete_level(state: RegistryState, subject: str | None) -> RegistryChange[str]:
    """Remove the level; the result is the removed one. Raises RegistryError."""
    check_writable(state, subject)
    level = state.level(subject)
    if level is None and subject is not None:
        raise errors.subject_not_found(subject)
    records = () if level is None else (config_record(subject, None),)
    return RegistryChange(level or state.effective_level(None), records)


def set_mode(
    state: RegistryState, subject: str | None, mode: object, force: bool
) -> RegistryChange[str]:
    """Set the mode of a subject, or the global one. IMPORT needs that there is no schema yet, or
    ``force``. Raises RegistryError."""
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise errors.invalid_mode()
    some = state.subjects() if subject is None else state.versions(subject)
    if mode.upper() == "IMPORT" and some and not force:
        raise errors.not_permitted("Cannot import since found existing subjects")
    return RegistryChange(mode.upper(), (mode_record(subject, mode.upper()),))


def delete_mode(state: RegistryState, subject: str | None) -> RegistryChange[str]:
    """Remove the mode; the result is the removed one. Raises RegistryError."""
    mode = state.mode(subject)
    if mode is None and subject is not None:
        raise errors.subject_not_found(subject)
    records = () if mode is None else (mode_record(subject, None),)
    return RegistryChange(mode or state.effective_mode(None), records)


def check_writable(state: RegistryState, subject: str | None) -> None:
    """Raise RegistryError if the mode of the subject, or the global one, is READONLY."""
    if state.effective_mode(subject) == "READONLY":
        of = "The registry" if subject is None else f"Subject {subject}"
        raise errors.not_permitted(f"{of} is in read-only mode")


def check_rules(new: ParsedSchema) -> None:
    """Raise RegistryError if a schema breaks a rule of its specification."""
    if new.violations:
        raise errors.invalid_schema(new.violations[0])


def _check_not_referenced(
    state: RegistryState, gone: Sequence[Registered], permanent: bool
) -> None:
    for each in gone:
        if state.referencing(each.subject, each.version, ALL if permanent else LIVE):
            raise errors.reference_exists(each.subject, each.version)


def _without_settings(state: RegistryState, subject: str) -> list[StoreRecord]:
    """The level and the mode of a subject go with its last live version, as in Confluent's."""
    records: list[StoreRecord] = []
    if state.mode(subject) is not None:
        records.append(mode_record(subject, None))
    if state.level(subject) is not None:
        records.append(config_record(subject, None))
    return records
