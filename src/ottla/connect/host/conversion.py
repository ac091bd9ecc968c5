"""Records of a task to bytes and back: converters and transforms as configured, a stage of errors each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Message

from ottla.config.errors import ConfigError
from ottla.connect.data.record import Header, Record, SinkRecord, SourceRecord, TopicPartition
from ottla.connect.data.schema import Schema, Type
from ottla.connect.host.errors import Stage, StageError
from ottla.connect.host.producing import ANY_PARTITION, NOW, Outgoing
from ottla.connect.plugins.api import Converter, RetriableError
from ottla.connect.plugins.catalog import Catalog, Kind, Plugin
from ottla.connect.transforms.chain import TransformChain, TransformError

DEFAULT_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_CHAIN: Final = "org.apache.kafka.connect.runtime.TransformationChain"
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_UTF_8: Final = frozenset({"UTF8", "UTF-8"})

Encode = Callable[[Sequence[Any]], Sequence[bytes | None] | None]
"""A column of values to bytes; None where they have to be converted one by one."""


class ChosenConverter(NamedTuple):
    """A converter, the name of its class as errors tell it, and its properties."""

    converter: Converter
    class_name: str
    plugin: Plugin
    properties: Mapping[str, str]


class Conversion:
    """The converters and transforms of one task."""

    def __init__(self, catalog: Catalog, config: Mapping[str, str], worker: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        self.key: Final = choose_converter(catalog, "key.converter", config, worker)
        self.value: Final = choose_converter(catalog, "value.converter", config, worker)
        self._header: Final = choose_converter(catalog, "header.converter", config, worker)
        chain = TransformChain.of(config, catalog)
        self._transforms: Final = chain if chain else None
        self._known_headers: tuple[Sequence[Header], list[tuple[str, Any]]] = ((), [])

    # -- sources --------------------------------------------------------------------------------------

    def to_bytes(self, given: SourceRecord) -> Outgoing | None:
        """A source's record, transformed and converted; None for one that a transform drops.

        Raises StageError.
        """
        record: Record | None = given.record
        if self._transforms is not None:
            record = self._transformed(given.record)
            if record is None:
                return None
        assert record is not None
        stage, owner = Stage.HEADER_CONVERTER, self._header.class_name
        try:
            topic = record.topic
            headers = self._headers_of(topic, record.headers) if record.headers else None
            stage, owner = Stage.KEY_CONVERTER, self.key.class_name
            key = self.key.converter.from_connect(topic, record.key_schema, record.key)
            stage, owner = Stage.VALUE_CONVERTER, self.value.class_name
            value = self.value.converter.from_connect(topic, record.value_schema, record.value)
        except Exception as problem:
            raise StageError(stage, owner) from problem
        partition = ANY_PARTITION if record.partition is None else record.partition
        return Outgoing(topic, value, key, partition, record.timestamp_ms or NOW, headers)

    def _headers_of(self, topic: str, headers: Sequence[Header]) -> list[tuple[str, Any]]:
        known, found = self._known_headers
        if headers is known:  # those that a connector gives to each of its records
            return found
        convert = self._header.converter.from_connect
        made = [(each.name, convert(topic, each.schema, each.value)) for each in headers]
        if self._header.class_name == DEFAULT_HEADER_CONVERTER:  # which does not look at the topic
            self._known_headers = headers, made
        return made

    def column_encoder(self, chosen: ChosenConverter, schema: Schema | None) -> Encode | None:
        """What converts a whole column of a schema at once, if no transform needs its records."""
        if self._transforms is not None:
            return None
        names = chosen.plugin.names
        encoding = chosen.properties.get("converter.encoding", "UTF-8").upper()
        if _STRING in names and encoding in _UTF_8 and (schema is None or schema.type is Type.STRING):
            return _encode_texts
        if _BYTES in names and (schema is None or schema.type is Type.BYTES):
            return _pass_bytes
        return None

    # -- sinks ----------------------------------------------------------------------------------------

    def to_record(self, message: Message) -> SinkRecord | None:
        """A consumed record, converted and transformed; None for one that a transform drops.

        Raises StageError.
        """
        topic = message.topic()
        partition = message.partition()
        offset = message.offset()
        assert topic is not None and partition is not None and offset is not None
        stage, owner = Stage.KEY_CONVERTER, self.key.class_name
        try:
            key_schema, key = self.key.converter.to_connect(topic, message.key())
            stage, owner = Stage.VALUE_CONVERTER, self.value.class_name
            value_schema, value = self.value.converter.to_connect(topic, message.value())
            stage, owner = Stage.HEADER_CONVERTER, self._header.class_name
            headers: tuple[Header, ...] = ()
            given: Any = message.headers()
            if given:
                headers = tuple(self._header_of(topic, name, data) for name, data in given)
        except Exception as problem:
            raise StageError(stage, owner) from problem
        timestamp_type, timestamp_ms = message.timestamp()
        record: Record | None = Record(
            topic,
            partition,
            key,
            key_schema,
            value,
            value_schema,
            timestamp_ms if timestamp_type else None,
            headers,
            offset,
        )
        if self._transforms is not None:
            assert record is not None
            record = self._transformed(record)
            if record is None:
                return None
        assert record is not None
        return SinkRecord(record, TopicPartition(topic, partition), offset)

    def _header_of(self, topic: str, name: str, data: bytes | None) -> Header:
        schema, value = self._header.converter.to_connect(topic, data)
        return Header(name, value, schema)

    def _transformed(self, record: Record) -> Record | None:
        assert self._transforms is not None
        try:
            return self._transforms.apply(record)
        except TransformError as failed:
            problem = failed.__cause__ or failed
            raise StageError(Stage.TRANSFORMATION, failed.class_name) from problem
        except RetriableError as away:
            raise StageError(Stage.TRANSFORMATION, _CHAIN) from away


def choose_converter(
    catalog: Catalog, name: str, config: Mapping[str, str], worker: Mapping[str, str]
) -> ChosenConverter:
    """A converter as the connector or else the worker configures it: `name`, and properties under `name.`.

    Raises ConfigError.
    """
    kind = Kind.HEADER_CONVERTER if name == "header.converter" else Kind.CONVERTER
    given = config if config.get(name, "").strip() else worker
    class_name = given.get(name, "").strip()
    if not class_name:
        if kind is not Kind.HEADER_CONVERTER:
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
        class_name = DEFAULT_HEADER_CONVERTER
    plugin = catalog.find(class_name, kind, Kind.CONVERTER)
    if plugin is None:
        raise ConfigError(
            f"Invalid value {class_name} for configuration {name}: Class {class_name} could not be found."
        )
    prefix = f"{name}."
    properties = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
    converter: Converter = plugin.load()()
    converter.configure(properties, name == "key.converter")
    return ChosenConverter(converter, java_name(plugin, class_name), plugin, properties)


def java_name(plugin: Plugin, configured: str) -> str:
    """The name of a plugin's class as Java's Connect tells it, if it is one of Java's."""
    if configured in plugin.names and "." in configured and not configured.startswith("ottla."):
        return configured
    return next(
        (name for name in plugin.names if not name.startswith("ottla.") and "." in name), plugin.names[0]
    )


def _encode_texts(values: Sequence[Any]) -> Sequence[bytes | None] | None:
    try:
        return [None if each is None else each.encode() for each in values]
    except (AttributeError, UnicodeEncodeError):
        return None


def _pass_bytes(values: Sequence[Any]) -> Sequence[bytes | None] | None:
    return values if all(each is None or type(each) is bytes for each in values) else None
