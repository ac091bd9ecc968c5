"""The records of `_dek_registry_keys`, byte for byte as Confluent's DEK registry writes them.

JSON keys and values, in the order of its serializer; read in any order. Records of other tenants than
`default` are none of this registry's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from ottla.encryption.algorithms import DekAlgorithm
from ottla.registry.core.keys.model import MAX_KEY_VERSION, Dek, DekId, Kek, KekId
from ottla.registry.core.record_fields import UnreadableRecord, integer_in, object_of, text_in
from ottla.registry.core.records import DEFAULT_TENANT
from ottla.replicated.records import Record


def encoded(identity: KekId | DekId) -> bytes:
    """The key of the record that has this key."""
    match identity:
        case KekId(name):
            found: dict[str, Any] = {"tenant": DEFAULT_TENANT, "name": name, "type": "KEK"}
        case DekId(kek_name, subject, algorithm, version):
            found = {
                "tenant": DEFAULT_TENANT,
                "kekName": kek_name,
                "subject": subject,
                "algorithm": algorithm,
                "version": version,
                "type": "DEK",
            }
    return orjson.dumps(found)


def kek_record(kek: Kek) -> Record:
    """A KEK, live or softly deleted."""
    value = {
        "name": kek.name,
        "kmsType": kek.kms_type,
        "kmsKeyId": kek.kms_key_id,
        "kmsProps": dict(sorted(kek.kms_props.items())),
        "doc": kek.doc,
        "shared": kek.shared,
        "deleted": kek.deleted,
        "type": "KEK",
    }
    return Record(encoded(kek.id), _without_nulls(value))


def dek_record(dek: Dek) -> Record:
    """A version of a DEK, live or softly deleted."""
    value = {
        "kekName": dek.kek_name,
        "subject": dek.subject,
        "algorithm": dek.algorithm,
        "version": dek.version,
        "encryptedKeyMaterial": dek.encrypted_key_material,
        "deleted": dek.deleted,
        "type": "DEK",
    }
    return Record(encoded(dek.id), _without_nulls(value))


def read_key(data: bytes) -> KekId | DekId | None:
    """None for a key of another tenant. Raises UnreadableRecord."""
    key = object_of(data, "key")
    if key.get("tenant") not in (None, DEFAULT_TENANT):
        return None
    match key.get("type"):
        case "KEK":
            return KekId(text_in(key, "name"))
        case "DEK":
            version = integer_in(key, "version", MAX_KEY_VERSION)
            return DekId(text_in(key, "kekName"), text_in(key, "subject"), _algorithm(key), version)
        case other:
            raise UnreadableRecord(f"no key has the type {other}")


def read_kek(identity: KekId, data: bytes, timestamp_ms: int) -> Kek:
    """Raises UnreadableRecord."""
    value = object_of(data, "value")
    props = value.get("kmsProps") or {}
    if not isinstance(props, dict) or not all(isinstance(one, str) for one in props.values()):
        raise UnreadableRecord("its kmsProps are no texts by their names")
    return Kek(
        identity.name,
        text_in(value, "kmsType"),
        text_in(value, "kmsKeyId"),
        props,
        _optional_text(value, "doc"),
        value.get("shared") is True,
        value.get("deleted") is True,
        timestamp_ms,
    )


def read_dek(identity: DekId, data: bytes, timestamp_ms: int) -> Dek:
    """Raises UnreadableRecord."""
    value = object_of(data, "value")
    return Dek(
        identity.kek_name,
        identity.subject,
        identity.algorithm,
        identity.version,
        _optional_text(value, "encryptedKeyMaterial"),
        value.get("deleted") is True,
        timestamp_ms,
    )


def _without_nulls(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps({name: part for name, part in value.items() if part is not None})


def _algorithm(key: Mapping[str, Any]) -> DekAlgorithm:
    name = text_in(key, "algorithm")
    if name not in DekAlgorithm.__members__:
        raise UnreadableRecord(f"no algorithm is called {name[:100]}")
    return DekAlgorithm(name)


def _optional_text(value: Mapping[str, Any], name: str) -> str | None:
    return None if value.get(name) is None else text_in(value, name)
