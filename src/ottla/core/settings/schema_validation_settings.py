"""Settings by which a topic asks that its records name registered schemas: Confluent's, not Apache Kafka's.

They are tables of their own, so that those of `topic_settings` and `broker_settings` stay Kafka's word for
word. DescribeConfigs shows a topic's only where the topic has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.config.setting import Setting, boolean, string, string_list
from ottla.config.validators import OneOf

STRATEGY_PACKAGE: Final = "io.confluent.kafka.serializers.subject."
TOPIC_NAME_STRATEGY: Final = STRATEGY_PACKAGE + "TopicNameStrategy"
RECORD_NAME_STRATEGY: Final = STRATEGY_PACKAGE + "RecordNameStrategy"
TOPIC_RECORD_NAME_STRATEGY: Final = STRATEGY_PACKAGE + "TopicRecordNameStrategy"
_STRATEGIES: Final = OneOf((TOPIC_NAME_STRATEGY, RECORD_NAME_STRATEGY, TOPIC_RECORD_NAME_STRATEGY))

SCHEMA_REGISTRY_URL: Final[Setting[tuple[str, ...]]] = string_list(
    "confluent.schema.registry.url",
    (),
    "Where schema registries answer, as http://host:port; topics may ask for schema validation if it is set.",
)
KEY_SCHEMA_VALIDATION: Final = boolean(
    "confluent.key.schema.validation",
    False,
    "Whether a record's key must begin with the id of a schema that is registered under its subject.",
)
VALUE_SCHEMA_VALIDATION: Final = boolean(
    "confluent.value.schema.validation",
    False,
    "Whether a record's value must begin with the id of a schema that is registered under its subject.",
)
KEY_SUBJECT_NAME_STRATEGY: Final = string(
    "confluent.key.subject.name.strategy",
    TOPIC_NAME_STRATEGY,
    "Whether the key's subject is named after the topic, the record, or both.",
    _STRATEGIES,
)
VALUE_SUBJECT_NAME_STRATEGY: Final = string(
    "confluent.value.subject.name.strategy",
    TOPIC_NAME_STRATEGY,
    "Whether the value's subject is named after the topic, the record, or both.",
    _STRATEGIES,
)

SCHEMA_VALIDATION_TOPIC_SETTINGS: Final[Mapping[str, Setting[Any]]] = {
    setting.name: setting
    for setting in (
        KEY_SCHEMA_VALIDATION,
        KEY_SUBJECT_NAME_STRATEGY,
        VALUE_SCHEMA_VALIDATION,
        VALUE_SUBJECT_NAME_STRATEGY,
    )
}
SCHEMA_VALIDATION_BROKER_SETTINGS: Final[Mapping[str, Setting[Any]]] = {
    SCHEMA_REGISTRY_URL.name: SCHEMA_REGISTRY_URL
}
