"""Formats of keys and values: as they are, as JSON, or with a schema of a Schema Registry.

Encoding takes JSON (a text, or a value out of a JSON line) and gives the bytes of a key or a value; decoding
gives JSON again. The encoders and decoders of schemas are those of ottla's REST Proxy.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.records.input_records import BadInput
from ottla.cli.records.json_lines import BadLine, bytes_of
from ottla.config.errors import UsageError, UserError

if TYPE_CHECKING:
    from ottla.cli.records.encryption import AvroEncryption
    from ottla.client.registry.async_client import RegistryClient
    from ottla.client.registry.lookups import RegisteredSchema
    from ottla.schemas.model import SchemaType

DEFAULT_REGISTRY: Final = "http://127.0.0.1:8081"
MAGIC_BYTE: Final = 0
MAX_SCHEMA_FILE_BYTES: Final = 8 << 20


class Format(enum.StrEnum):
    """The formats by their names in options."""

    BYTES = "bytes"
    JSON = "json"
    AVRO = "avro"
    JSON_SCHEMA = "json_schema"
    PROTOBUF = "protobuf"
    AUTO = "auto"

    @property
    def has_schema(self) -> bool:
        """Whether a Schema Registry is asked."""
        return self not in (Format.BYTES, Format.JSON)


class Undecodable(Exception):
    """A key or value that is not in the format; index: its place in the column."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """Which schema encodes: an id, or a file to register, or the newest version of the subject."""

    subject: str
    schema_id: int | None = None
    file: Path | None = None


def registry_client(url: str | None, properties: Mapping[str, str]) -> RegistryClient:
    """A client of the registry at `url`, with security properties. Raises UserError."""
    try:
        from ottla.client.registry.async_client import RegistryClient
    except ModuleNotFoundError as missing:
        raise _missing(missing) from None
    from ottla.client.registry.wire import RegistryAccess

    given = {
        **properties,
        "schema.registry.url": url or properties.get("schema.registry.url", DEFAULT_REGISTRY),
    }
    return RegistryClient(RegistryAccess.from_properties(given))


# -- encoding ------------------------------------------------------------------------------------------------

Encode = Callable[[Any], bytes | None]
"""Takes bytes (JSON, for all formats but BYTES) or a value of JSON, or None. Raises BadInput."""


def encode_bytes(value: Any) -> bytes | None:
    """Bytes, or a value of a JSON line, as they are."""
    if value is None or isinstance(value, bytes):
        return value
    try:
        return bytes_of(value, "it")
    except BadLine as problem:
        raise BadInput(str(problem)) from None


def encode_json(value: Any) -> bytes | None:
    """JSON, checked; that of a JSON line is written in the shortest form."""
    if value is None:
        return None
    if isinstance(value, bytes):
        _parsed_json(value)
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise BadInput("half of a surrogate pair is no text") from None


async def encoder(format: Format, registry: RegistryClient | None, choice: SchemaChoice) -> Encode:
    """The encoder of a format. Raises UserError where the schema can't be had."""
    match format:
        case Format.BYTES:
            return encode_bytes
        case Format.JSON:
            return encode_json
    assert registry is not None
    schema = await _schema(format, registry, choice)
    try:
        from ottla.encryption.avro_fields import OtherShape
        from ottla.rest.records.encoding import SchemaEncoders, UnencodablePayload
    except ModuleNotFoundError as missing:
        raise _missing(missing) from None
    if format is not Format.AUTO and schema.parsed.schema_type is not _schema_type(format):
        raise UserError(f"schema {schema.id} is of the type {schema.parsed.schema_type}, not {format}")
    encryption = await _encryption(schema, choice.subject, registry)
    try:
        # the rules are carried out here
        encode = SchemaEncoders().of(schema if encryption is None else replace(schema, rules=None))
    except UnencodablePayload as problem:
        raise UserError(str(problem)) from None

    def encoded(value: Any) -> bytes | None:
        if value is None:
            return None
        parsed = _parsed_json(value) if isinstance(value, bytes) else value
        try:
            return encode(parsed) if encryption is None else encryption.encrypted(parsed, encode)
        except (UnencodablePayload, OtherShape) as problem:
            raise BadInput(str(problem)) from None
        except RecursionError:
            raise BadInput("the value is nested too deeply") from None

    return encoded


async def _encryption(
    schema: RegisteredSchema, subject: str, registry: RegistryClient
) -> AvroEncryption | None:
    """The encryption that the schema's rules ask of a writer. Raises UserError where it can't be done."""
    from ottla.cli.records.encryption import AvroEncryption
    from ottla.client.registry.data_keys import NoKey
    from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable

    try:
        return await AvroEncryption.to_write(schema, subject, registry)
    except (NoKey, RegistryUnreachable) as problem:
        raise UserError(f"values can't be written with schema {schema.id}: {problem}") from None
    except RegistryRefusal as refusal:
        raise UserError(f"the registry refuses the key of {subject}: {refusal.message}") from None


def _parsed_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise BadInput("the JSON is nested too deeply") from None
    except ValueError as problem:
        raise BadInput(f"not JSON: {problem}") from None


async def _schema(format: Format, registry: RegistryClient, choice: SchemaChoice) -> RegisteredSchema:
    from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable

    try:
        if choice.schema_id is not None:
            return await registry.by_id(choice.schema_id)
        if choice.file is not None:
            text = choice.file.read_bytes()[: MAX_SCHEMA_FILE_BYTES + 1]
            if len(text) > MAX_SCHEMA_FILE_BYTES:
                raise UserError(f"{choice.file} is too large for a schema")
            return await registry.register(choice.subject, _type_of_file(format, choice.file), text.decode())
        return await registry.latest(choice.subject)
    except RegistryRefusal as refusal:
        what = f"schema {choice.schema_id}" if choice.schema_id is not None else f"subject {choice.subject}"
        raise UserError(f"the registry refuses {what}: {refusal.message}") from None
    except RegistryUnreachable as problem:
        raise UserError(str(problem)) from None
    except UnicodeDecodeError:
        raise UserError(f"{choice.file} is not UTF-8") from None
    except ModuleNotFoundError as missing:
        raise _missing(missing) from None


def _type_of_file(format: Format, file: Path) -> SchemaType:
    if format is not Format.AUTO:
        return _schema_type(format)
    by_suffix = {".avsc": Format.AVRO, ".json": Format.JSON_SCHEMA, ".proto": Format.PROTOBUF}
    found = by_suffix.get(file.suffix)
    if found is None:
        raise UsageError(f"{file}: give the format, avro, json_schema or protobuf")
    return _schema_type(found)


def _schema_type(format: Format) -> SchemaType:
    from ottla.schemas.model import SchemaType

    return {
        Format.AVRO: SchemaType.AVRO,
        Format.JSON_SCHEMA: SchemaType.JSON,
        Format.PROTOBUF: SchemaType.PROTOBUF,
    }[format]


# -- decoding ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Decode:
    """The decoder of a schema, and the encryption of a subject's values that comes before or after it."""

    plain: Callable[[memoryview], bytes]
    encryption: AvroEncryption | None


class Decoder:
    """Decodes columns of keys or values (`part`) to JSON; those in BYTES stay as they are."""

    def __init__(self, format: Format, registry: RegistryClient | None, part: str) -> None:
        self.format = format
        self._registry = registry
        self._part = part
        self._known: dict[tuple[int, str], _Decode | str] = {}

    @property
    def gives_json(self) -> bool:
        """Whether decoded keys or values are JSON."""
        return self.format is not Format.BYTES

    async def decoded(self, column: Sequence[bytes | None], topic: str) -> Sequence[bytes | None]:
        """The column of a topic's records, decoded. Raises Undecodable, UserError."""
        match self.format:
            case Format.BYTES:
                return column
            case Format.JSON:
                return [text if text is None else _json_or_raise(text, at) for at, text in enumerate(column)]
        return [
            None if text is None else await self._framed(text, at, topic) for at, text in enumerate(column)
        ]

    async def _framed(self, text: bytes, at: int, topic: str) -> bytes:
        from ottla.client.registry.wire import RegistryUnreachable
        from ottla.schemas import framing

        is_auto = self.format is Format.AUTO
        try:
            schema_id, data = framing.split_frame(text)
        except framing.UnframedPayload as problem:
            if is_auto:
                return _any_json(text)
            raise Undecodable(str(problem), at) from None
        decode = self._known.get((schema_id, topic))
        if decode is None:
            decode = self._known[schema_id, topic] = await self._found(schema_id, f"{topic}-{self._part}")
        if isinstance(decode, str):
            if is_auto:
                return _any_json(text)
            raise Undecodable(decode, at)
        try:
            if decode.encryption is None:
                return decode.plain(data)
            return await decode.encryption.decrypted(data, decode.plain)
        except RegistryUnreachable as problem:
            raise UserError(str(problem)) from None
        except Exception as problem:  # the libraries of the formats raise many kinds
            if is_auto:
                return _any_json(text)
            reason = str(problem) or type(problem).__name__
            raise Undecodable(f"schema {schema_id}: {reason[:300]}", at) from None

    async def _found(self, schema_id: int, subject: str) -> _Decode | str:
        """The decoder of a schema, or why there is none."""
        assert self._registry is not None
        try:
            from ottla.cli.records.encryption import AvroEncryption
            from ottla.client.registry.data_keys import NoKey
            from ottla.rest.consumers.decoding import UndecodablePayload, decoder_of, schema_of
            from ottla.web.errors import ApiError
        except ModuleNotFoundError as missing:
            raise _missing(missing) from None
        try:
            schema = await schema_of(self._registry, schema_id)
            encryption = AvroEncryption.to_read(schema, subject, self._registry)
            decode = decoder_of(schema if encryption is None else replace(schema, rules=None))
        except (UndecodablePayload, NoKey) as problem:
            return str(problem)
        except ApiError as problem:
            raise UserError(str(problem)) from None
        except ModuleNotFoundError as missing:
            raise _missing(missing) from None
        schema_type = schema.parsed.schema_type
        if self.format is not Format.AUTO and schema_type is not _schema_type(self.format):
            return f"schema {schema_id} is of the type {schema_type}, not {self.format}"
        return _Decode(decode, encryption)


def _json_or_raise(text: bytes, at: int) -> bytes:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Undecodable(f"not JSON: {problem}", at) from None
    return text.replace(b"\n", b" ") if b"\n" in text else text


def _any_json(text: bytes) -> bytes:
    """What has no schema: a JSON text as it is, other bytes as JSON lines have them."""
    from ottla.cli.records.json_lines import bytes_json

    return bytes_json(text).encode()


def _missing(missing: ModuleNotFoundError) -> UserError:
    return UserError(f"formats with schemas need the package {missing.name}: pip install 'ottla[services]'")
