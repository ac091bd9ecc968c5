"""Queries of the keys. Names of keys that are not shown are not found: 40470."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence

from ottla.encryption.algorithms import DEFAULT_ALGORITHM, DekAlgorithm
from ottla.encryption.key_services import KeyServiceFailed, KeyServices
from ottla.registry.core.keys.failures import key_not_found, not_unwrapped
from ottla.registry.core.keys.image import KeyImage
from ottla.registry.core.keys.model import Dek, DekId, Kek
from ottla.registry.core.reading import LATEST


class KeyReads:
    """Queries. `deleted`: whether softly deleted keys are shown."""

    def __init__(self, image: KeyImage, services: KeyServices) -> None:
        self._image = image
        self._services = services

    def kek_names(
        self, prefixes: Sequence[str], deleted: bool = False, is_seen: Callable[[str], bool] = lambda _: True
    ) -> list[str]:
        """The KEKs, in order; with prefixes those with a DEK of a subject that begins with one of them.

        is_seen: whether the DEKs of a subject count.
        """
        if not prefixes:
            return [kek.name for kek in self._image.keks() if deleted or not kek.deleted]
        beginnings = tuple(prefixes)
        return sorted(
            {
                dek.kek_name
                for dek in self._image.all_deks()
                if (deleted or not dek.deleted)
                and dek.subject.startswith(beginnings)
                and is_seen(dek.subject)
            }
        )

    def kek(self, name: str, deleted: bool = False) -> Kek:
        """The KEK of this name."""
        found = self._image.kek(name)
        if found is None or (found.deleted and not deleted):
            raise key_not_found(name)
        return found

    def subjects(self, kek_name: str, deleted: bool = False) -> list[str]:
        """The subjects that have a DEK of this KEK, in order."""
        self.kek(kek_name, deleted)
        return sorted({dek.subject for dek in self._image.deks(kek_name) if deleted or not dek.deleted})

    def versions(
        self, kek_name: str, subject: str, algorithm: DekAlgorithm | None = None, deleted: bool = False
    ) -> list[Dek]:
        """The versions of a DEK, ascending; none where there is no such DEK."""
        self.kek(kek_name, deleted)
        found = self._image.versions(kek_name, subject, algorithm or DEFAULT_ALGORITHM)
        return [dek for dek in found if deleted or not dek.deleted]

    def dek(
        self,
        kek_name: str,
        subject: str,
        version: int,
        algorithm: DekAlgorithm | None = None,
        deleted: bool = False,
    ) -> Dek:
        """A version of a DEK, or the last one that is shown (LATEST)."""
        self.kek(kek_name, deleted)
        if version == LATEST:
            shown = self.versions(kek_name, subject, algorithm, deleted)
            found = shown[-1] if shown else None
        else:
            found = self._image.dek(DekId(kek_name, subject, algorithm or DEFAULT_ALGORITHM, version))
        if found is None or (found.deleted and not deleted):
            raise key_not_found(subject)
        return found

    def key_material(self, dek: Dek) -> str | None:
        """The key itself in base64, if the registry shares the KEK; else None. 50070."""
        kek = self._image.kek(dek.kek_name)
        if kek is None or not kek.shared:
            return None
        return b64encode(self.unwrapped(kek, dek)).decode()

    def unwrapped(self, kek: Kek, dek: Dek) -> bytes:
        """The key itself. 50070."""
        try:
            wrapped = b64decode(dek.encrypted_key_material or "", validate=True)
            return self._services.unwrap(kek.kms_type, kek.kms_props, wrapped)
        except (KeyServiceFailed, ValueError) as problem:
            raise not_unwrapped(dek.subject, str(problem)) from None

    def same_kek(self, kek: Kek) -> Kek:
        """The KEK with the time of its record, once that was read."""
        return self._image.kek(kek.name) or kek

    def same_dek(self, dek: Dek) -> Dek:
        """The version with the time of its record, once that was read."""
        return self._image.dek(dek.id) or dek
