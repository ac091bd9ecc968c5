"""The records of `_schemas`, in Confluent's format: JSON keys and values, key order fixed.

Written as Confluent's registry 8 writes them; read as 5.5 to 8 and Karapace wrote them (any order of keys and
spaces, `"subject":null` or none for the global configuration, no `schemaType` for Avro).

One record is ours, in the shape of a context of a tenant that Confluent's registry never lists: the highest
id of a context, written before the last record that shows that id is deleted for good, so that compaction of
the topic can't make the registry give an id to a second schema.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ottla.registry.core.configuration import Config
from ottla.registry.core.contexts import normal_subject, scope_of
from ottla.registry.core.record_fields import UnreadableRecord, integer_in, object_of, text_in
from ottla.replicated.records import Record
from ottla.schemas.model import MAX_VERSION, Schema

DEFAULT_TENANT: Final = "default"
HIGHEST_ID_TENANT: Final = "ottla-highest-id"
MAX_ID: Final = 2**31 - 1


class Mode(enum.StrEnum):
    """Whether a subject may be read, written or imported into."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"


@dataclass(frozen=True, slots=True)
class SchemaKey:
    """A version of a subject."""

    subject: str
    version: int

    def encode(self) -> bytes:
        return _json(_key("SCHEMA", 1, subject=self.subject, version=self.version))


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """A subject as a whole. `keytype`: CONFIG, MODE, DELETE_SUBJECT or CLEAR_SUBJECT."""

    keytype: str
    subject: str | None

    def encode(self) -> bytes:
        fields = {} if self.subject is None else {"subject": self.subject}
        return _json(_key(self.keytype, 0, **fields))


@dataclass(frozen=True, slots=True)
class ContextKey:
    """A context of a tenant."""

    tenant: str
    context: str

    def encode(self) -> bytes:
        return _json(_key("CONTEXT", 0, tenant=self.tenant, context=self.context))


@dataclass(frozen=True, slots=True)
class NoopKey:
    """A record without a meaning."""

    def encode(self) -> bytes:
        return _json(_key("NOOP", 0))


@dataclass(frozen=True, slots=True)
class AssociationKey:
    """An association of a resource with a subject."""

    resource_name: str
    resource_namespace: str
    resource_type: str
    association_type: str
    subject: str

    def encode(self) -> bytes:
        fields = {
            "tenant": DEFAULT_TENANT,
            "resourceName": self.resource_name,
            "resourceNamespace": self.resource_namespace,
            "resourceType": self.resource_type,
            "associationType": self.association_type,
            "subject": self.subject,
        }
        return _json(_key("ASSOC", 0, **fields))


Key = SchemaKey | SubjectKey | ContextKey | AssociationKey | NoopKey


class Lifecycle(enum.StrEnum):
    """Whether a subject belongs to the associated resource alone."""

    STRONG = "STRONG"
    WEAK = "WEAK"


@dataclass(frozen=True, slots=True)
class Association:
    """The subject of a resource's keys or values. Times are None until its record is read."""

    subject: str
    guid: str
    resource_name: str
    resource_namespace: str
    resource_id: str
    resource_type: str
    association_type: str
    lifecycle: Lifecycle
    created_ms: int | None = None
    updated_ms: int | None = None

    @property
    def key(self) -> AssociationKey:
        """The key of its record."""
        return AssociationKey(
            self.resource_name,
            self.resource_namespace,
            self.resource_type,
            self.association_type,
            self.subject,
        )

    @property
    def is_frozen(self) -> bool:
        """Whether it can't be changed: a strong one is the resource's own."""
        return self.lifecycle is Lifecycle.STRONG

    def order(self) -> tuple[str, str, str, str, str]:
        """Its place in listings."""
        key = self.key
        return (
            key.resource_name,
            key.resource_namespace,
            self.resource_id,
            key.association_type,
            key.subject,
        )

    def as_json(self) -> dict[str, Any]:
        """As in answers, without the fields that are None."""
        found = {
            "subject": self.subject,
            "guid": self.guid,
            "resourceName": self.resource_name,
            "resourceNamespace": self.resource_namespace,
            "resourceId": self.resource_id,
            "resourceType": self.resource_type,
            "associationType": self.association_type,
            "lifecycle": self.lifecycle,
            "frozen": self.is_frozen,
            "createTs": self.created_ms,
            "updateTs": self.updated_ms,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """The content of a SCHEMA record beside its key."""

    id: int
    schema: Schema
    deleted: bool


def noop() -> Record:
    """The record by which a new primary, or a new reader, finds the end of the topic."""
    return Record(NoopKey().encode(), None)


def schema_record(subject: str, version: int, schema_id: int, schema: Schema, deleted: bool) -> Record:
    """A version of a subject, live or softly deleted."""
    named = {"subject": subject, "version": version, "id": schema_id}
    value = {**named, **schema.as_json(), "deleted": deleted}
    return Record(SchemaKey(subject, version).encode(), _json(value))


def config_record(subject: str | None, config: Config) -> Record:
    """The configuration of a subject or context."""
    named = {} if subject is None else {"subject": subject}
    return Record(SubjectKey("CONFIG", subject).encode(), _json({**named, **config.as_json()}))


def mode_record(subject: str | None, mode: Mode) -> Record:
    """The mode of a subject or context."""
    named = {} if subject is None else {"subject": subject}
    return Record(SubjectKey("MODE", subject).encode(), _json({**named, "mode": mode}))


def delete_subject_record(subject: str, version: int) -> Record:
    """Soft deletion of all versions up to this one."""
    value = {"subject": subject, "version": version}
    return Record(SubjectKey("DELETE_SUBJECT", subject).encode(), _json(value))


def clear_subject_record(subject: str) -> Record:
    """All versions of the subject are gone: they will be imported anew."""
    return Record(SubjectKey("CLEAR_SUBJECT", subject).encode(), _json({"subject": subject}))


def context_record(context: str) -> Record:
    """A context that is used for the first time."""
    value = {"tenant": DEFAULT_TENANT, "context": context}
    return Record(ContextKey(DEFAULT_TENANT, context).encode(), _json(value))


def association_record(association: Association) -> Record:
    """An association, new or changed."""
    value = {"tenant": DEFAULT_TENANT, **association.as_json()}
    value.pop("updateTs", None)
    return Record(association.key.encode(), _json(value))


def highest_id_record(context: str, schema_id: int) -> Record:
    """The highest id that was ever given in a context."""
    value = {"tenant": HIGHEST_ID_TENANT, "context": str(schema_id)}
    return Record(ContextKey(HIGHEST_ID_TENANT, context).encode(), _json(value))


def read_key(data: bytes) -> Key:
    """Raises UnreadableRecord."""
    key = object_of(data, "key")
    match key.get("keytype"):
        case "SCHEMA":
            version = integer_in(key, "version", MAX_VERSION)
            return SchemaKey(normal_subject(text_in(key, "subject")), version)
        case "CONFIG" | "MODE" as keytype:
            subject = None if key.get("subject") is None else text_in(key, "subject")
            return SubjectKey(keytype, scope_of(subject))
        case "DELETE_SUBJECT" | "CLEAR_SUBJECT" as keytype:
            return SubjectKey(keytype, normal_subject(text_in(key, "subject")))
        case "CONTEXT":
            tenant = DEFAULT_TENANT if key.get("tenant") is None else text_in(key, "tenant")
            return ContextKey(tenant, text_in(key, "context"))
        case "ASSOC":
            names = ("resourceName", "resourceNamespace", "resourceType", "associationType")
            name, namespace, resource_type, kind = (text_in(key, each) for each in names)
            return AssociationKey(
                name, namespace, resource_type, kind, normal_subject(text_in(key, "subject"))
            )
        case "NOOP":
            return NoopKey()
        case keytype:
            raise UnreadableRecord(f"no record has the keytype {keytype}")


def read_schema(data: bytes) -> SchemaValue:
    """Raises UnreadableRecord."""
    value = object_of(data, "value")
    deleted = value.get("deleted")
    if deleted is not None and not isinstance(deleted, bool):
        raise UnreadableRecord("deleted is neither true nor false")
    try:
        return SchemaValue(integer_in(value, "id", MAX_ID), Schema.from_json(value), deleted is True)
    except ValueError as problem:
        raise UnreadableRecord(str(problem)) from None


def read_config(data: bytes) -> Config:
    """Raises UnreadableRecord."""
    try:
        return Config().merged(object_of(data, "value"))
    except ValueError as problem:
        raise UnreadableRecord(str(problem)) from None


def read_association(key: AssociationKey, data: bytes, timestamp_ms: int) -> Association:
    """timestamp_ms: the record's, which is the time of creation where the value has none.

    Raises UnreadableRecord.
    """
    value = object_of(data, "value")
    lifecycle = text_in(value, "lifecycle")
    created_ms = value.get("createTs")
    if lifecycle not in Lifecycle.__members__:
        raise UnreadableRecord(f"no lifecycle is called {lifecycle}")
    if created_ms is not None and type(created_ms) is not int:
        raise UnreadableRecord("its createTs is no number")
    return Association(
        key.subject,
        text_in(value, "guid"),
        key.resource_name,
        key.resource_namespace,
        text_in(value, "resourceId"),
        key.resource_type,
        key.association_type,
        Lifecycle(lifecycle),
        timestamp_ms if created_ms is None else created_ms,
        timestamp_ms,
    )


def read_mode(data: bytes) -> Mode:
    """Raises UnreadableRecord."""
    mode = text_in(object_of(data, "value"), "mode")
    if mode not in Mode.__members__:
        raise UnreadableRecord(f"no mode is called {mode}")
    return Mode(mode)


def read_deleted_version(data: bytes) -> int:
    """The highest version that a DELETE_SUBJECT record deletes. Raises UnreadableRecord."""
    return integer_in(object_of(data, "value"), "version", MAX_VERSION)


def read_highest_id(data: bytes) -> int:
    """Raises UnreadableRecord."""
    text = text_in(object_of(data, "value"), "context")
    schema_id = int(text) if text.isdecimal() and len(text) <= 10 else 0
    if not 1 <= schema_id <= MAX_ID:
        raise UnreadableRecord(f"no id is {text[:20]}")
    return schema_id


def _key(keytype: str, magic: int, **fields: str | int) -> dict[str, Any]:
    return {"keytype": keytype, **fields, "magic": magic}


def _json(content: Mapping[str, Any]) -> bytes:
    return orjson.dumps(content)
