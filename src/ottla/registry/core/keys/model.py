"""Key encryption keys (KEK) and data encryption keys (DEK), in the terms of Confluent's DEK registry.

A KEK names a key of a key service; a DEK encrypts the fields of a subject's records and is kept wrapped by
its KEK. If the KEK is shared, the registry wraps and unwraps; otherwise clients do, and the registry never
sees a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.encryption.algorithms import DekAlgorithm

MAX_KEY_VERSION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class KekId:
    """The identity of a KEK."""

    name: str


@dataclass(frozen=True, slots=True)
class DekId:
    """The identity of one version of a DEK."""

    kek_name: str
    subject: str
    algorithm: DekAlgorithm
    version: int


@dataclass(frozen=True, slots=True)
class Kek:
    """A KEK. timestamp_ms: the time of its last change, None until its record is read."""

    name: str
    kms_type: str
    kms_key_id: str
    kms_props: Mapping[str, str]
    doc: str | None = None
    shared: bool = False
    deleted: bool = False
    timestamp_ms: int | None = None

    @property
    def id(self) -> KekId:
        """The key's identity."""
        return KekId(self.name)

    def is_equivalent(self, other: Kek) -> bool:
        """Whether all but deletion and time are the same."""
        return self._content == other._content

    @property
    def _content(self) -> tuple[Any, ...]:
        return self.name, self.kms_type, self.kms_key_id, self.kms_props, self.doc, self.shared

    def as_json(self) -> dict[str, Any]:
        """As in answers."""
        found = {
            "name": self.name,
            "kmsType": self.kms_type,
            "kmsKeyId": self.kms_key_id,
            "kmsProps": dict(sorted(self.kms_props.items())),
            "doc": self.doc,
            "shared": self.shared,
            "ts": self.timestamp_ms,
            "deleted": self.deleted or None,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Dek:
    """A version of a DEK. encrypted_key_material: the wrapped key in base64. timestamp_ms: as a KEK's."""

    kek_name: str
    subject: str
    algorithm: DekAlgorithm
    version: int
    encrypted_key_material: str | None
    deleted: bool = False
    timestamp_ms: int | None = None

    @property
    def id(self) -> DekId:
        """The key's identity."""
        return DekId(self.kek_name, self.subject, self.algorithm, self.version)

    def as_json(self, key_material: str | None = None) -> dict[str, Any]:
        """As in answers. key_material: the key itself in base64, for a shared KEK."""
        found = {
            "kekName": self.kek_name,
            "subject": self.subject,
            "version": self.version,
            "algorithm": self.algorithm,
            "encryptedKeyMaterial": self.encrypted_key_material,
            "keyMaterial": key_material,
            "ts": self.timestamp_ms,
            "deleted": self.deleted or None,
        }
        return {name: value for name, value in found.items() if value is not None}
