"""Decides changes of keys, as Confluent's DEK registry does. Made from the image; no I/O.

Deleted keys are kept until they are deleted permanently, as records that they encrypted may still be there.
A key that is made again as it was before its deletion is undeleted by that.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.encryption.algorithms import DekAlgorithm, WrongKey, encrypt, new_key
from ottla.encryption.key_services import KeyServiceFailed, KeyServices
from ottla.registry.core.keys.failures import (
    invalid_key,
    key_deleted,
    key_exists,
    key_not_deleted,
    key_not_found,
    key_referenced,
    not_unwrapped,
    not_wrapped,
    too_many_keys,
)
from ottla.registry.core.keys.image import KeyImage
from ottla.registry.core.keys.model import Dek, Kek
from ottla.registry.core.keys.reading import KeyReads
from ottla.registry.core.keys.records import dek_record, kek_record
from ottla.replicated.decision import Decision
from ottla.replicated.records import Record

TEST_SUBJECT: Final = "__TEST"
_PREFIXED_TYPES: Final = {"aws": "aws-kms", "azure": "azure-kms", "gcp": "gcp-kms"}


class Unchanged:
    """In place of a field that a change does not name."""


UNCHANGED: Final = Unchanged()


@dataclass(frozen=True, slots=True)
class KekChange:
    """The fields of a KEK that are changed."""

    kms_props: Mapping[str, str] | Unchanged = UNCHANGED
    doc: str | Unchanged | None = UNCHANGED
    shared: bool | Unchanged = UNCHANGED

    def of(self, kek: Kek) -> Kek:
        """The KEK with the changes."""
        return replace(
            kek,
            kms_props=kek.kms_props if isinstance(self.kms_props, Unchanged) else self.kms_props,
            doc=kek.doc if isinstance(self.doc, Unchanged) else self.doc,
            shared=kek.shared if isinstance(self.shared, Unchanged) else self.shared,
        )


@dataclass(frozen=True, slots=True)
class MadeDek:
    """A version of a DEK, and the key itself where the answer tells it."""

    dek: Dek
    key_material: str | None = None


class KeyWrites:
    """Decisions. max_keys: the most KEKs, and the most versions of DEKs."""

    def __init__(self, image: KeyImage, reads: KeyReads, services: KeyServices, max_keys: int) -> None:
        self._image = image
        self._reads = reads
        self._services = services
        self._max_keys = max_keys

    # -- keys of a key service --------------------------------------------------------------------------

    def create_kek(self, wanted: Kek, *, test_sharing: bool = False) -> Decision[Kek]:
        """A new KEK, or one that was softly deleted. 40971, 40972; 50070 with `test_sharing`."""
        kek = replace(wanted, kms_type=_normal_type(wanted.kms_type))
        before = self._image.kek(kek.name)
        if before is None and self._image.kek_count >= self._max_keys:
            raise too_many_keys(self._max_keys)
        if before is not None and (kek.deleted == before.deleted or not kek.is_equivalent(before)):
            raise key_exists(kek.name)
        if kek.shared and test_sharing:
            self.test(kek)
        return Decision(self._put_kek(kek), kek)

    def change_kek(self, name: str, change: KekChange, *, test_sharing: bool = False) -> Decision[Kek]:
        """40470; 50070 with `test_sharing`."""
        before = self._reads.kek(name)
        kek = change.of(before)
        if kek.shared and test_sharing:
            self.test(kek)
        if kek.is_equivalent(before):
            return Decision((), before)
        return Decision(self._put_kek(kek), kek)

    def delete_kek(self, name: str, permanent: bool) -> Decision[None]:
        """Softly, or for good after that. 40470, 40471, 42272."""
        kek = self._reads.kek(name, deleted=True)
        if any(permanent or not dek.deleted for dek in self._image.deks(name)):
            raise key_referenced(name)
        if permanent:
            if not kek.deleted:
                raise key_not_deleted(name)
            return Decision(tuple(self._image.tombstones(kek.id)), None)
        return Decision(() if kek.deleted else self._put_kek(replace(kek, deleted=True)), None)

    def undelete_kek(self, name: str) -> Decision[None]:
        """40470."""
        kek = self._reads.kek(name, deleted=True)
        return Decision(self._put_kek(replace(kek, deleted=False)) if kek.deleted else (), None)

    def test(self, kek: Kek) -> None:
        """Whether the registry can wrap keys with it. 42271 for a KEK that is not shared, 50070."""
        if not kek.shared:
            raise invalid_key("shared")
        self._wrapped(kek, TEST_SUBJECT, new_key(DekAlgorithm.AES256_GCM))

    # -- keys that encrypt data -------------------------------------------------------------------------

    def create_dek(self, wanted: Dek, *, rewrap: bool, told: bool) -> Decision[MadeDek]:
        """A new version of a DEK, or one that was softly deleted. 40470, 40971, 40972, 42271, 50070.

        rewrap: a version that is there keeps its key, and gets it wrapped anew.
        told: whether the answer has the key itself, if the KEK is shared.
        """
        kek = self._reads.kek(wanted.kek_name, deleted=wanted.deleted)
        before = self._image.dek(wanted.id)
        if before is None and self._image.dek_count >= self._max_keys:
            raise too_many_keys(self._max_keys)
        if (
            before is not None
            and not rewrap
            and (wanted.deleted == before.deleted or wanted != _same(before, wanted))
        ):
            raise key_exists(wanted.subject)
        if wanted.encrypted_key_material is not None:
            if kek.shared and before is not None:
                raise key_exists(wanted.subject)
            dek = wanted
        elif kek.shared:
            key = new_key(wanted.algorithm) if before is None else self._reads.unwrapped(kek, before)
            dek = replace(wanted, encrypted_key_material=self._wrapped(kek, wanted.subject, key))
        else:
            raise invalid_key("encryptedKeyMaterial")
        material = self._checked(kek, dek) if kek.shared and told else None
        return Decision(self._put_dek(dek), MadeDek(dek, material))

    def delete_dek(
        self,
        kek_name: str,
        subject: str,
        version: int | None,
        algorithm: DekAlgorithm | None,
        permanent: bool,
    ) -> Decision[None]:
        """A version of a DEK, or all of them (None), softly, or for good after that. 40470, 40471."""
        deks = self._deks(kek_name, subject, version, algorithm)
        if not permanent:
            return Decision(self._put_all(deks, deleted=True), None)
        if not all(dek.deleted for dek in deks):
            raise key_not_deleted(subject)
        return Decision(tuple(gone for dek in deks for gone in self._image.tombstones(dek.id)), None)

    def undelete_dek(
        self, kek_name: str, subject: str, version: int | None, algorithm: DekAlgorithm | None
    ) -> Decision[None]:
        """A version of a DEK, or all of them (None). 40470; 40472 if the KEK is deleted."""
        deks = self._deks(kek_name, subject, version, algorithm)
        if self._reads.kek(kek_name, deleted=True).deleted:
            raise key_deleted(kek_name)
        return Decision(self._put_all(deks, deleted=False), None)

    def _deks(
        self, kek_name: str, subject: str, version: int | None, algorithm: DekAlgorithm | None
    ) -> Sequence[Dek]:
        if version is not None:
            return [self._reads.dek(kek_name, subject, version, algorithm, deleted=True)]
        found = self._reads.versions(kek_name, subject, algorithm, deleted=True)
        if not found:
            raise key_not_found(subject)
        return found

    def _put_all(self, deks: Sequence[Dek], *, deleted: bool) -> tuple[Record, ...]:
        return tuple(
            record
            for dek in deks
            if dek.deleted != deleted
            for record in self._put_dek(replace(dek, deleted=deleted))
        )

    # -- records and wrapping ---------------------------------------------------------------------------

    def _put_kek(self, kek: Kek) -> tuple[Record, ...]:
        return (*self._image.other_tombstones(kek.id), kek_record(kek))

    def _put_dek(self, dek: Dek) -> tuple[Record, ...]:
        return (*self._image.other_tombstones(dek.id), dek_record(dek))

    def _wrapped(self, kek: Kek, subject: str, key: bytes) -> str:
        try:
            return b64encode(self._services.wrap(kek.kms_type, kek.kms_props, key)).decode()
        except KeyServiceFailed as problem:
            raise not_wrapped(subject, str(problem)) from None

    def _checked(self, kek: Kek, dek: Dek) -> str:
        """The key itself in base64, which must be one of its algorithm. 50070."""
        key = self._reads.unwrapped(kek, dek)
        try:
            encrypt(dek.algorithm, key, b"")
        except WrongKey as problem:
            raise not_unwrapped(dek.subject, str(problem)) from None
        return b64encode(key).decode()


def _same(before: Dek, wanted: Dek) -> Dek:
    """The version that is there, with the deletion and time of the one that is wanted."""
    return replace(before, deleted=wanted.deleted, timestamp_ms=wanted.timestamp_ms)


def _normal_type(kms_type: str) -> str:
    lower = kms_type.lower()
    return next((full for prefix, full in _PREFIXED_TYPES.items() if lower.startswith(prefix)), kms_type)
