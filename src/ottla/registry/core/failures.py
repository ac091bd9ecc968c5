"""The registry's refusals, with Confluent's codes and messages."""

from __future__ import annotations

from typing import Final

from ottla.registry.core.contexts import split_subject
from ottla.schemas.model import CompatibilityLevel
from ottla.web.errors import ApiError

MAX_QUOTED_TEXT: Final = 1_000
"""Characters of a schema that a message repeats."""


def subject_not_found(subject: str) -> ApiError:
    return ApiError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> ApiError:
    return ApiError(404, 40402, f"Version {version} not found.")


def schema_not_found(name: int | str | None = None) -> ApiError:
    return ApiError(404, 40403, "Schema not found" if name is None else f"Schema {name} not found")


def subject_deleted(subject: str) -> ApiError:
    message = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return ApiError(404, 40404, message)


def subject_not_deleted(subject: str) -> ApiError:
    message = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return ApiError(404, 40405, message)


def version_deleted(subject: str, version: int) -> ApiError:
    message = (
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    )
    return ApiError(404, 40406, message)


def version_not_deleted(subject: str, version: int) -> ApiError:
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return ApiError(404, 40407, message)


def no_config(subject: str) -> ApiError:
    message = f"Subject '{subject}' does not have subject-level compatibility configured"
    return ApiError(404, 40408, message)


def no_mode(subject: str) -> ApiError:
    return ApiError(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def context_not_found(context: str) -> ApiError:
    return ApiError(404, 404, f"Context '{context}' not found.")


def association_not_found(resource: str) -> ApiError:
    return ApiError(404, 40410, f"Association for '{resource}' not found.")


def resource_associated(kind: str, resource: str) -> ApiError:
    return ApiError(409, 40903, f"An association of type '{kind}' already exists for resource '{resource}'")


def subject_associated(subject: str) -> ApiError:
    return ApiError(409, 40904, f"An association already exists for subject '{subject}'")


def strongly_associated(subject: str) -> ApiError:
    return ApiError(409, 40905, f"A strong association already exists for subject '{subject}'")


def no_active_version(subject: str) -> ApiError:
    return ApiError(409, 40907, f"No active (non-deleted) version exists for subject '{subject}'")


def association_frozen(kind: str, subject: str) -> ApiError:
    return ApiError(409, 40908, f"The association of type '{kind}' is frozen for subject '{subject}'")


def invalid_association(name: str, detail: str) -> ApiError:
    message = f"The association specified an invalid value for property: '{name}', detail: {detail}"
    return ApiError(422, 42212, message)


def subject_referenced(subject: str) -> ApiError:
    return ApiError(422, 42206, f"One or more references exist to the schema {subject}.")


def incompatible(subject: str, messages: list[str]) -> ApiError:
    """Status and code 409, which all clients know; Confluent's registry answers 40901 since 8.2."""
    details = ", ".join(messages)
    message = (
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{details}]'
    )
    return ApiError(409, 409, message)


def invalid_schema(reason: str) -> ApiError:
    return ApiError(422, 42201, f"Invalid schema: {reason}")


def invalid_schema_text(schema_type: str, text: str, references: str, reason: str) -> ApiError:
    shown = text if len(text) <= MAX_QUOTED_TEXT else text[:MAX_QUOTED_TEXT] + "…"
    message = f"Invalid schema {shown} with refs [{references}] of type {schema_type}, details: {reason}"
    return ApiError(422, 42201, message)


def invalid_level() -> ApiError:
    *most, last = (level.lower() for level in CompatibilityLevel)
    return ApiError(
        422, 42203, f"Invalid compatibility level. Valid values are {', '.join(most)}, and {last}"
    )


def invalid_config(reason: str) -> ApiError:
    return ApiError(422, 42203, f"Invalid configuration: {reason}")


def invalid_mode() -> ApiError:
    names = "READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, and FORWARD"
    return ApiError(422, 42204, f"Invalid mode. Valid values are {names}")


def not_permitted(reason: str) -> ApiError:
    return ApiError(422, 42205, reason)


def read_only(subject: str | None) -> ApiError:
    return not_permitted(f"{_placed(subject)} is in read-only mode")


def not_importing(subject: str) -> ApiError:
    return not_permitted(f"{_placed(subject)} is not in import mode")


def not_read_write(subject: str) -> ApiError:
    return not_permitted(f"{_placed(subject)} is not in read-write mode")


def referenced(subject: str, version: int) -> ApiError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return ApiError(422, 42206, f"One or more references exist to the schema {key}.")


def other_id(registered: int, wanted: int) -> ApiError:
    message = f"Schema already registered with id {registered} instead of input id {wanted}"
    return ApiError(422, 42207, message)


def invalid_subject(subject: str) -> ApiError:
    return ApiError(422, 42208, f"The specified subject '{subject[:200]}' is not a valid subject.")


def invalid_rules(reason: str) -> ApiError:
    return ApiError(422, 42210, f"Invalid rule set: {reason}")


def context_not_empty(context: str) -> ApiError:
    return ApiError(422, 42211, f"The specified context '{context}' is not empty.")


def out_of_ids(context: str) -> ApiError:
    return ApiError(500, 50001, f"Context {context} has given its last id")


def _placed(subject: str | None) -> str:
    """`null` is Java's word for a context as a whole."""
    context, name = split_subject(subject or "")
    return f"Subject {name or 'null'} in context {context}"
