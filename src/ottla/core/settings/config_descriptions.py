"""Settings as DescribeConfigs and CreateTopics show them: value, source, synonyms (KIP-226, KIP-525)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.config.setting import ConfigType, InvalidValue, Setting, UpdateMode
from ottla.core.settings.broker_settings import (
    BROKER_SETTINGS,
    DYNAMIC_ONLY,
    without_listener,
)
from ottla.core.settings.client_metrics_settings import CLIENT_METRICS_SETTINGS
from ottla.core.settings.config_layers import (
    BrokerLayers,
    ConfigSource,
    GroupConfig,
    LayerValue,
    TopicConfig,
)
from ottla.core.settings.group_settings import GROUP_SETTINGS
from ottla.core.settings.link_settings import LINK_TOPIC_SETTINGS
from ottla.core.settings.schema_validation_settings import SCHEMA_VALIDATION_TOPIC_SETTINGS
from ottla.core.settings.topic_settings import TOPIC_SETTINGS

_OWN_TOPIC_SETTINGS: Mapping[str, Setting[Any]] = {**SCHEMA_VALIDATION_TOPIC_SETTINGS, **LINK_TOPIC_SETTINGS}
"""Settings of topics that Apache Kafka lacks."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a resource as it is shown. The value of a sensitive one is never shown."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...]
    type: ConfigType
    doc: str | None


class _Resource(Protocol):
    """A topic's or group's settings."""

    def __getitem__(self, setting: Setting[Any], /) -> Any: ...

    def synonyms(self, name: str) -> list[LayerValue]: ...


def describe_topic(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every setting of a topic that has `overrides`; those that Apache Kafka lacks only where given."""
    config = TopicConfig(layers, overrides)
    entries = _describe(config, TOPIC_SETTINGS, overrides)
    own = {name: each for name, each in _OWN_TOPIC_SETTINGS.items() if name in overrides}
    return [*entries, *_describe(config, own, overrides)] if own else entries


def describe_group(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every setting of a group that has `overrides`."""
    return _describe(GroupConfig(layers, overrides), GROUP_SETTINGS, overrides)


def _describe(
    config: _Resource, table: Mapping[str, Setting[Any]], overrides: Mapping[str, str]
) -> list[ConfigEntry]:
    return [
        _entry(setting, setting.format(config[setting]), False, config.synonyms(setting.name))
        for setting in table.values()
        if not setting.internal or setting.name in overrides
    ]


def describe_client_metrics(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every setting of a client metrics subscription that has `overrides`."""
    entries = []
    for setting in CLIENT_METRICS_SETTINGS.values():
        own = overrides.get(setting.name)
        synonyms = [] if own is None else [LayerValue(setting.name, own, ConfigSource.CLIENT_METRICS)]
        entries.append(_entry(setting, setting.default_text if own is None else own, False, synonyms))
    return entries


def describe_broker(layers: BrokerLayers, own: Mapping[str, Setting[Any]]) -> list[ConfigEntry]:
    """Every setting of one broker, and every name without a setting that the broker was given.

    own: settings that Apache Kafka lacks, which are described only where the broker was given them.
    """
    names = {
        name for name, setting in BROKER_SETTINGS.items() if not setting.internal and name not in DYNAMIC_ONLY
    }
    entries = []
    for name in sorted(names | layers.names()):
        synonyms = layers.synonyms(name)
        if name in own and synonyms:
            entries.append(_entry(own[name], _normalized(own[name], synonyms[0].text), True, synonyms))
        else:
            entries.append(_broker_entry(layers, name, synonyms))
    return entries


def describe_cluster_default(layers: BrokerLayers) -> list[ConfigEntry]:
    """The dynamic defaults of all brokers: only those that are set."""
    entries = []
    for name in sorted(layers.cluster_names()):
        synonyms = [
            each for each in layers.synonyms(name) if each.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
        ]
        entries.append(_broker_entry(layers, name, synonyms, synonyms[0].text if synonyms else None))
    return entries


def _broker_entry(
    layers: BrokerLayers, name: str, synonyms: Sequence[LayerValue], text: str | None = None
) -> ConfigEntry:
    setting = BROKER_SETTINGS.get(without_listener(name))
    if setting is None:
        # The value may be a secret.
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        hidden = _hidden(synonyms)
        return ConfigEntry(name, None, True, source, True, hidden, ConfigType.UNKNOWN, None)
    if text is None:
        text = setting.format(layers[setting]) if setting.name == name else synonyms[0].text
    else:
        text = _normalized(setting, text)
    # As Kafka does: a listener's own settings are shown as read-only, although those of keys can be changed.
    read_only = setting.name != name or setting.update is UpdateMode.READ_ONLY
    return _entry(setting, text, read_only, synonyms, name)


def _normalized(setting: Setting[Any], text: str) -> str | None:
    try:
        return setting.format(setting.parse(text))
    except InvalidValue:
        return text


def _entry(
    setting: Setting[Any],
    value: str | None,
    read_only: bool,
    synonyms: Sequence[LayerValue],
    name: str | None = None,
) -> ConfigEntry:
    return ConfigEntry(
        name=name or setting.name,
        value=None if setting.sensitive else value,
        read_only=read_only,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        sensitive=setting.sensitive,
        synonyms=_hidden(synonyms)
        if setting.sensitive
        else tuple((each.name, each.text, each.source) for each in synonyms),
        type=setting.type,
        doc=setting.doc,
    )


def _hidden(synonyms: Sequence[LayerValue]) -> tuple[tuple[str, str | None, ConfigSource], ...]:
    return tuple((each.name, None, each.source) for each in synonyms)
