"""The state that the records of `_dek_registry_keys` make. Changes only by replay."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from ottla.encryption.algorithms import DekAlgorithm
from ottla.registry.core.keys.model import Dek, DekId, Kek, KekId
from ottla.registry.core.keys.records import encoded, read_dek, read_kek, read_key
from ottla.registry.core.record_fields import UnreadableRecord
from ottla.replicated.records import Record

log = logging.getLogger("ottla.registry")


class KeyImage:
    """All keys of this registry, softly deleted ones too."""

    def __init__(self) -> None:
        self._keks: dict[str, Kek] = {}
        self._deks: dict[str, dict[tuple[str, DekAlgorithm], dict[int, Dek]]] = {}
        self._dek_count = 0
        self.left_out = 0
        """Records that could not be read."""
        self._other_keys: dict[KekId | DekId, dict[bytes, None]] = {}

    def replay(self, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Take in the next record. A record that can't be read is logged and left out."""
        try:
            identity = read_key(key)
            if identity is not None:
                self._note_spelling(identity, key, value is not None)
                self._take(identity, value, timestamp_ms)
        except UnreadableRecord as problem:
            self.left_out += 1
            log.warning("a record of the topic of keys is left out: %s (key %r)", problem, key[:200])

    def keks(self) -> list[Kek]:
        """All KEKs, by name."""
        return [kek for _, kek in sorted(self._keks.items())]

    def kek(self, name: str) -> Kek | None:
        """The KEK of this name."""
        return self._keks.get(name)

    def deks(self, kek_name: str) -> Iterator[Dek]:
        """All versions of all DEKs of a KEK, in no order."""
        for versions in self._deks.get(kek_name, {}).values():
            yield from versions.values()

    def all_deks(self) -> Iterator[Dek]:
        """All versions of all DEKs, in no order."""
        for kek_name in self._deks:
            yield from self.deks(kek_name)

    def versions(self, kek_name: str, subject: str, algorithm: DekAlgorithm) -> Sequence[Dek]:
        """All versions of a DEK, ascending."""
        versions = self._deks.get(kek_name, {}).get((subject, algorithm), {})
        return [dek for _, dek in sorted(versions.items())]

    def dek(self, identity: DekId) -> Dek | None:
        """This very version."""
        versions = self._deks.get(identity.kek_name, {}).get((identity.subject, identity.algorithm), {})
        return versions.get(identity.version)

    @property
    def kek_count(self) -> int:
        """The number of KEKs."""
        return len(self._keks)

    @property
    def dek_count(self) -> int:
        """The number of versions of DEKs."""
        return self._dek_count

    def tombstones(self, identity: KekId | DekId) -> list[Record]:
        """The records that delete this key, in every spelling in which other registries wrote it."""
        return [*self.other_tombstones(identity), Record(encoded(identity), None)]

    def other_tombstones(self, identity: KekId | DekId) -> list[Record]:
        """The records that delete the spellings that are not this registry's; they come before a change."""
        return [Record(spelling, None) for spelling in self._other_keys.get(identity, ())]

    def _note_spelling(self, identity: KekId | DekId, data: bytes, has_value: bool) -> None:
        """Compaction goes by the bytes of keys: a spelling that is not ours needs a tombstone of its own."""
        if data == encoded(identity):
            return
        if has_value:
            self._other_keys.setdefault(identity, {})[data] = None
        elif (spellings := self._other_keys.get(identity)) is not None:
            spellings.pop(data, None)
            if not spellings:
                del self._other_keys[identity]

    def _take(self, identity: KekId | DekId, value: bytes | None, timestamp_ms: int) -> None:
        match identity:
            case KekId(name) if value is None:
                self._keks.pop(name, None)
            case KekId(name):
                assert value is not None
                self._keks[name] = read_kek(identity, value, timestamp_ms)
            case DekId() if value is None:
                self._remove(identity)
            case DekId():
                assert value is not None
                dek = read_dek(identity, value, timestamp_ms)
                by_subject = self._deks.setdefault(dek.kek_name, {})
                versions = by_subject.setdefault((dek.subject, dek.algorithm), {})
                self._dek_count += dek.version not in versions
                versions[dek.version] = dek

    def _remove(self, identity: DekId) -> None:
        by_subject = self._deks.get(identity.kek_name, {})
        versions = by_subject.get((identity.subject, identity.algorithm), {})
        if versions.pop(identity.version, None) is None:
            return
        self._dek_count -= 1
        if not versions:
            del by_subject[identity.subject, identity.algorithm]
            if not by_subject:
                del self._deks[identity.kek_name]
