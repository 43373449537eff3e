"""The errors of the registry: Confluent's codes, HTTP statuses and sentences."""

from __future__ import annotations

from collections.abc import Sequence


class RegistryError(Exception):
    """Becomes a response with ``status`` and ``{"error_code": code, "message": ...}``."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    text = "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    return RegistryError(404, 40403, text)


# Confluent's two sentences lack the space after the full stop.
def subject_soft_deleted(subject: str) -> RegistryError:
    text = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(404, 40404, text)


def subject_not_soft_deleted(subject: str) -> RegistryError:
    text = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryError(404, 40405, text)


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    text = f"Subject '{subject}' Version {version} was soft deleted."
    return RegistryError(404, 40406, f"{text}Set permanent=true to delete permanently")


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    text = f"Subject '{subject}' Version {version} was not deleted first before being "
    return RegistryError(404, 40407, f"{text}permanently deleted")


def no_subject_compatibility(subject: str) -> RegistryError:
    text = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(404, 40408, text)


def no_subject_mode(subject: str) -> RegistryError:
    text = f"Subject '{subject}' does not have subject-level mode configured"
    return RegistryError(404, 40409, text)


def incompatible(subject: str, details: Sequence[str]) -> RegistryError:
    text = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
    return RegistryError(409, 409, f"{text}, details: [{', '.join(details)}]")


def invalid_schema(reason: object) -> RegistryError:
    return RegistryError(422, 42201, f"Invalid schema: {reason}")


def invalid_version(version: str) -> RegistryError:
    text = f"The specified version '{version}' is not a valid version id. Allowed values are "
    return RegistryError(422, 42202, f'{text}between [1, 2^31-1] and the string "latest"')


def invalid_compatibility_level() -> RegistryError:
    text = "Invalid compatibility level. Valid values are none, backward, forward, full, "
    return RegistryError(
        422, 42203, f"{text}backward_transitive, forward_transitive, and full_transitive"
    )


def invalid_mode() -> RegistryError:
    return RegistryError(
        422, 42204, "Invalid mode. Valid values are READWRITE, READONLY, and IMPORT."
    )


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(422, 42205, reason)


def reference_exists(subject: str, version: int) -> RegistryError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(422, 42206, f"One or more references exist to the schema {key}.")


def unprocessable(reason: str) -> RegistryError:
    return RegistryError(422, 422, reason)


def store_failed(reason: str) -> RegistryError:
    return RegistryError(500, 50001, f"Error in the backend data store: {reason}")


def timed_out(reason: str) -> RegistryError:
    return RegistryError(500, 50002, f"Operation timed out: {reason}")


def not_primary(reason: str) -> RegistryError:
    return RegistryError(500, 50004, f"This process does not write: {reason}")
