"""Avro values whose rules encrypt: tagged fields or whole payloads, encrypted and decrypted by the commands.

Other formats, and rules of other types, are refused where they would have to be carried out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.data_keys import DataKeys, Encryption, NoKey
from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.rules import (
    ENCRYPT,
    ENCRYPTING,
    RuleMode,
    active_rules,
    read_obstacle,
    write_obstacle,
)
from ottla.client.registry.wire import RegistryRefusal
from ottla.encryption.avro_fields import AvroFields, OtherShape
from ottla.encryption.field_cipher import FIRST_VERSION, FieldCipher, VersionNeeded
from ottla.encryption.key_services import SECRET_VARIABLE, KeyServices
from ottla.schemas.framing import PREFIX_BYTES
from ottla.schemas.model import Rule, SchemaType

LATIN_1 = "latin-1"
"""Bytes in Avro's JSON are texts of the characters with their numbers."""


@dataclass(slots=True)
class _Step:
    """A rule and the keys for it. fields: those that it encrypts; None for the payload as a whole."""

    encryption: Encryption
    cipher: FieldCipher
    fields: AvroFields | None


class AvroEncryption:
    """The rules of one schema for one subject. Steps are in the order of writing."""

    def __init__(self, keys: DataKeys, subject: str, steps: Sequence[_Step]) -> None:
        self._keys = keys
        self._subject = subject
        self._steps = steps

    @classmethod
    async def to_write(
        cls, schema: RegisteredSchema, subject: str, registry: RegistryClient
    ) -> AvroEncryption | None:
        """None for a schema without such rules. Raises NoKey, RegistryRefusal, RegistryUnreachable."""
        obstacle = write_obstacle(schema.rules, _known(schema))
        if obstacle is not None:
            raise NoKey(obstacle)
        rules = active_rules(schema.rules, RuleMode.WRITE)
        if not rules:
            return None
        keys, steps = _data_keys(registry), [_step(rule, schema) for rule in rules]
        for step in steps:
            made = await keys.to_write(step.encryption, subject)
            step.cipher = replace(step.cipher, keys={made.version: made.key}, version=made.version)
        return cls(keys, subject, steps)

    @classmethod
    def to_read(
        cls, schema: RegisteredSchema, subject: str, registry: RegistryClient
    ) -> AvroEncryption | None:
        """None for a schema without such rules. Raises NoKey."""
        obstacle = read_obstacle(schema.rules, _known(schema))
        if obstacle is not None:
            raise NoKey(obstacle)
        rules = [
            rule
            for rule in active_rules(schema.rules, RuleMode.READ)
            if (rule.type or "").upper() in ENCRYPTING
        ]
        if not rules:
            return None
        return cls(_data_keys(registry), subject, [_step(rule, schema) for rule in rules])

    def encrypted(self, value: Any, encode: Callable[[Any], bytes | None]) -> bytes | None:
        """A value in JSON, encoded and framed, with all that the rules encrypt. Raises OtherShape."""
        for step in self._steps:
            if step.fields is not None:
                value = step.fields.changed(value, _encrypting(step.cipher))
        framed = encode(value)
        for step in self._steps:
            if step.fields is None and framed is not None:
                framed = framed[:PREFIX_BYTES] + step.cipher.encrypted(framed[PREFIX_BYTES:])
        return framed

    async def decrypted(self, data: memoryview, decode: Callable[[memoryview], bytes]) -> bytes:
        """The JSON of a payload without its frame. Raises NoKey, WrongKey, and errors of `decode`."""
        for step in reversed(self._steps):
            if step.fields is None:
                data = memoryview(await self._with_keys(step, _payload_decrypting(step, bytes(data))))
        told = decode(data)
        if all(step.fields is None for step in self._steps):
            return told
        value = orjson.loads(told)
        for step in reversed(self._steps):
            if step.fields is not None:
                value = await self._with_keys(step, _fields_decrypting(step, step.fields, value))
        return orjson.dumps(value)

    async def _with_keys(self, step: _Step, work: Callable[[], Any]) -> Any:
        """The outcome of the work, once all versions of the key that it needs are there."""
        while True:
            try:
                return work()
            except VersionNeeded as needed:
                try:
                    found = await self._keys.to_read(step.encryption, self._subject, needed.version)
                except RegistryRefusal as refusal:
                    raise NoKey(f"the registry refuses the key: {refusal.message}") from None
                step.cipher = replace(step.cipher, keys={**step.cipher.keys, needed.version: found.key})


def _known(schema: RegisteredSchema) -> frozenset[str]:
    return ENCRYPTING if schema.parsed.schema_type is SchemaType.AVRO else frozenset()


def _data_keys(registry: RegistryClient) -> DataKeys:
    secret = registry.access.local_secret
    return DataKeys(registry, KeyServices(os.environ.get(SECRET_VARIABLE) if secret is None else secret))


def _step(rule: Rule, schema: RegisteredSchema) -> _Step:
    encryption = Encryption.of(rule, schema)
    cipher = FieldCipher(encryption.algorithm, {}, FIRST_VERSION, encryption.expiry_days > 0)
    if (rule.type or "").upper() != ENCRYPT:
        return _Step(encryption, cipher, None)
    from fastavro import parse_schema

    named: dict[str, Any] = {}
    parsed = parse_schema(orjson.loads(schema.parsed.formatted("resolved")), named)
    paths = (schema.metadata.tags if schema.metadata is not None else None) or {}
    return _Step(encryption, cipher, AvroFields(parsed, named, rule.tags or (), paths))


def _encrypting(cipher: FieldCipher) -> Callable[[str, Any], Any]:
    def encrypted(kind: str, value: Any) -> Any:
        if not isinstance(value, str) or kind not in ("string", "bytes"):
            raise OtherShape(f"a field of the type {kind} can't be encrypted, only texts and bytes")
        try:
            if kind == "string":
                return cipher.encrypted_text(value)
            return cipher.encrypted(value.encode(LATIN_1)).decode(LATIN_1)
        except UnicodeEncodeError:
            raise OtherShape(f"it has characters that no {kind} has") from None

    return encrypted


def _decrypting(cipher: FieldCipher) -> Callable[[str, Any], Any]:
    def decrypted(kind: str, value: Any) -> Any:
        match kind:
            case "string":
                return cipher.decrypted_text(value)
            case "bytes":
                return cipher.decrypted(value.encode(LATIN_1)).decode(LATIN_1)
        return value

    return decrypted


def _payload_decrypting(step: _Step, data: bytes) -> Callable[[], bytes]:
    return lambda: step.cipher.decrypted(data)


def _fields_decrypting(step: _Step, fields: AvroFields, value: Any) -> Callable[[], Any]:
    return lambda: fields.changed(value, _decrypting(step.cipher))
