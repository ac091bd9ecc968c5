"""The data encryption keys of a subject: found in the registry, or made, as Confluent's clients do it.

A writer names a key of a key service in its rule; the registry keeps the data encryption key, wrapped by it.
Whoever comes first makes it; a second one that comes at the same time gets 409, and takes the first one's.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.wire import RegistryRefusal, quoted
from ottla.encryption.algorithms import DEFAULT_ALGORITHM, DekAlgorithm, new_key
from ottla.encryption.field_cipher import FIRST_VERSION
from ottla.encryption.key_services import KeyServiceFailed, KeyServices
from ottla.schemas.model import Rule

_KEKS: Final = "/dek-registry/v1/keks"
_DAY_MS: Final = 86_400_000


class NoKey(Exception):
    """There is no key to encrypt or decrypt with; the message says why."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """The parameters of a rule that encrypts."""

    kek_name: str
    kms_type: str | None
    kms_key_id: str | None
    algorithm: DekAlgorithm
    expiry_days: int

    @classmethod
    def of(cls, rule: Rule, schema: RegisteredSchema) -> Encryption:
        """From the rule, or from the properties of the schema's metadata. Raises NoKey."""
        properties = (schema.metadata.properties if schema.metadata is not None else None) or {}
        given = {**properties, **(rule.params or {})}
        kek_name = given.get("encrypt.kek.name")
        algorithm = given.get("encrypt.dek.algorithm", DEFAULT_ALGORITHM)
        days = given.get("encrypt.dek.expiry.days", "0")
        if not kek_name:
            raise NoKey(f"the rule {rule.name} has no encrypt.kek.name")
        if algorithm not in DekAlgorithm.__members__:
            raise NoKey(f"the rule {rule.name} has an unknown encrypt.dek.algorithm: {algorithm[:100]}")
        if not days.isascii() or not days.isdecimal() or len(days) > 9:
            raise NoKey(f"the rule {rule.name} has no number of days as encrypt.dek.expiry.days")
        kms_type, kms_key_id = given.get("encrypt.kms.type"), given.get("encrypt.kms.key.id")
        return cls(kek_name, kms_type, kms_key_id, DekAlgorithm(algorithm), int(days))


@dataclass(frozen=True, slots=True)
class DataKey:
    """A data encryption key as Tink's message, with its version."""

    version: int
    key: bytes


class DataKeys:
    """Asks a registry for keys. Methods raise NoKey, RegistryRefusal, RegistryUnreachable."""

    def __init__(
        self,
        registry: RegistryClient,
        services: KeyServices,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._services = services
        self._clock = clock

    async def to_write(self, wanted: Encryption, subject: str) -> DataKey:
        """The key of the subject's newest records; made, or replaced by a next version, where that is due."""
        kek = await self._kek(wanted) or await self._new_kek(wanted)
        version = "-1" if wanted.expiry_days else str(FIRST_VERSION)
        dek = await self._dek(wanted, subject, version)
        if dek is None:
            dek = await self._new_dek(wanted, kek, subject, FIRST_VERSION, version)
        elif self._is_expired(wanted, dek):
            dek = await self._new_dek(wanted, kek, subject, dek["version"] + 1, version)
        return self._unwrapped(kek, dek)

    async def to_read(self, wanted: Encryption, subject: str, version: int) -> DataKey:
        """The key of this version, also a deleted one."""
        kek = await self._kek(wanted)
        dek = None if kek is None else await self._dek(wanted, subject, str(version), "&deleted=true")
        if kek is None or dek is None:
            raise NoKey(f"there is no version {version} of the key {wanted.kek_name} for {subject}")
        return self._unwrapped(kek, dek)

    # -- keys of key services -----------------------------------------------------------------------------

    async def _kek(self, wanted: Encryption) -> dict[str, Any] | None:
        kek = await self._found(f"{_KEKS}/{quoted(wanted.kek_name)}")
        if kek is not None:
            for name, meant in (("kmsType", wanted.kms_type), ("kmsKeyId", wanted.kms_key_id)):
                if meant and kek.get(name) != meant:
                    raise NoKey(f"the key {wanted.kek_name} has another {name} than the rule says")
        return kek

    async def _new_kek(self, wanted: Encryption) -> dict[str, Any]:
        if not wanted.kms_type or not wanted.kms_key_id:
            raise NoKey(f"there is no key {wanted.kek_name}, and the rule does not say which to make")
        body = {
            "name": wanted.kek_name,
            "kmsType": wanted.kms_type,
            "kmsKeyId": wanted.kms_key_id,
            "shared": False,
        }
        made = await self._made(_KEKS, body) or await self._kek(wanted)
        if made is None:
            raise NoKey(f"the key {wanted.kek_name} was deleted")
        return made

    # -- data encryption keys -----------------------------------------------------------------------------

    async def _dek(
        self, wanted: Encryption, subject: str, version: str, more: str = ""
    ) -> dict[str, Any] | None:
        path = f"{self._path(wanted, subject)}/versions/{version}?algorithm={wanted.algorithm}{more}"
        return await self._found(path)

    async def _new_dek(
        self, wanted: Encryption, kek: dict[str, Any], subject: str, version: int, again: str
    ) -> dict[str, Any]:
        """again: the version that is asked for where another writer was first."""
        body: dict[str, Any] = {"subject": subject, "version": version, "algorithm": wanted.algorithm}
        if not kek.get("shared"):
            try:
                wrapped = self._services.wrap(*_service(kek), new_key(wanted.algorithm))
            except KeyServiceFailed as problem:
                raise NoKey(f"the key {wanted.kek_name} for {subject}: {problem}") from None
            body["encryptedKeyMaterial"] = b64encode(wrapped).decode()
        made = await self._made(self._path(wanted, subject), body) or await self._dek(wanted, subject, again)
        if made is None:
            raise NoKey(f"the key {wanted.kek_name} for {subject} was deleted")
        return made

    def _path(self, wanted: Encryption, subject: str) -> str:
        return f"{_KEKS}/{quoted(wanted.kek_name)}/deks/{quoted(subject)}"

    def _is_expired(self, wanted: Encryption, dek: dict[str, Any]) -> bool:
        age_ms = self._clock() * 1_000 - dek.get("ts", 0)
        return wanted.expiry_days > 0 and age_ms > wanted.expiry_days * _DAY_MS

    def _unwrapped(self, kek: dict[str, Any], dek: dict[str, Any]) -> DataKey:
        try:
            told = dek.get("keyMaterial")
            if told is not None:
                return DataKey(dek["version"], b64decode(told, validate=True))
            wrapped = b64decode(dek.get("encryptedKeyMaterial", ""), validate=True)
            return DataKey(dek["version"], self._services.unwrap(*_service(kek), wrapped))
        except (KeyServiceFailed, KeyError, TypeError, ValueError) as problem:
            raise NoKey(f"the key {kek.get('name')} for {dek.get('subject')}: {problem}") from None

    # -- requests -----------------------------------------------------------------------------------------

    async def _found(self, path: str) -> dict[str, Any] | None:
        try:
            return await self._registry.ask("GET", path)
        except RegistryRefusal as refusal:
            if refusal.status == 404:
                return None
            raise

    async def _made(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        try:
            return await self._registry.ask("POST", path, body)
        except RegistryRefusal as refusal:
            if refusal.status == 409:
                return None
            raise


def _service(kek: dict[str, Any]) -> tuple[str, dict[str, str]]:
    return kek["kmsType"], kek.get("kmsProps") or {}
