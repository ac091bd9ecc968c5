"""Kafka's dynamic configuration: the values of brokers, topics and groups, and the layer of each value.

A broker's setting comes from the first of: its own dynamic value, the cluster's dynamic default, the static
value of `server.properties`, the default. A topic's or group's setting comes from its own value, else from
the broker settings that are its synonyms (KIP-226, KIP-848), else from its default. A stored value that does
not parse (written by a newer version) is passed over, and the next layer counts.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from ottla.config.setting import InvalidValue, Setting
from ottla.core.settings import group_settings, topic_settings
from ottla.core.settings.broker_settings import (
    BROKER_SETTINGS,
    DYNAMIC_ONLY,
    LISTENER_PREFIX,
    SAME_SETTINGS,
    without_listener,
)

T = TypeVar("T")


class ConfigSource(enum.IntEnum):
    """Which layer a value comes from, numbered as in DescribeConfigs responses."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class LayerValue(NamedTuple):
    """The text of a setting in one layer."""

    name: str
    text: str
    source: ConfigSource


class BrokerLayers:
    """The layers of one broker's settings, as texts by name. Made anew when one of them changes."""

    __slots__ = ("_broker", "_cluster", "_static", "_values")

    def __init__(
        self,
        static: Mapping[str, str],
        cluster: Mapping[str, str] | None = None,
        broker: Mapping[str, str] | None = None,
    ) -> None:
        self._static = static
        self._cluster = cluster or {}
        self._broker = broker or {}
        self._values: dict[str, Any] = {}

    def __getitem__(self, setting: Setting[T]) -> T:
        try:
            return cast(T, self._values[setting.name])
        except KeyError:
            value = self._values[setting.name] = self._resolve(setting)
            return value

    def for_listener(self, listener_name: str, setting: Setting[T]) -> T:
        """The listener's own value (`listener.name.<name>.<setting>`), else the broker's."""
        own_name = f"{LISTENER_PREFIX}{listener_name.lower()}.{setting.name}"
        try:
            own = self._values[own_name]
        except KeyError:
            own = self._values[own_name] = self._given(own_name, setting)
        return cast(T, own[0]) if own else self[setting]

    def _resolve(self, setting: Setting[T]) -> T:
        given = self._given(setting.name, setting)
        return given[0] if given else setting.default

    def _given(self, name: str, setting: Setting[T]) -> tuple[T] | None:
        """The value that the first of the layers has under `name`."""
        for layer in (self._broker, self._cluster, self._static):
            text = layer.get(name)
            if text is not None:
                try:
                    return (setting.parse(text),)
                except InvalidValue:
                    continue
        return None

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerLayers:
        """The same static values under other dynamic ones: those of metadata that is not committed yet."""
        return BrokerLayers(self._static, cluster, broker)

    def names(self) -> set[str]:
        """Every name that a layer has a value for."""
        return {*self._static, *self._cluster, *self._broker}

    def cluster_names(self) -> set[str]:
        """The names that the cluster has a dynamic default for."""
        return set(self._cluster)

    def synonyms(self, name: str) -> list[LayerValue]:
        """Every value of `name` and of its SAME_SETTINGS, the effective one first."""
        base = without_listener(name)
        names = (name, base) if base != name else SAME_SETTINGS.get(name, (name,))
        found = [
            LayerValue(synonym, layer[synonym], source)
            for layer, source in (
                (self._broker, ConfigSource.DYNAMIC_BROKER),
                (self._cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
                (self._static, ConfigSource.STATIC_BROKER),
            )
            for synonym in names
            if synonym in layer
        ]
        found.extend(_defaults(names))
        while found and found[0].name != name:
            del found[0]
        return found


def _defaults(names: tuple[str, ...]) -> Iterator[LayerValue]:
    for name in names:
        # Settings that exist only dynamically are shown without a default.
        setting = None if name in DYNAMIC_ONLY else BROKER_SETTINGS.get(name)
        text = setting.default_text if setting is not None else None
        if text is not None:
            yield LayerValue(name, text, ConfigSource.DEFAULT)


class TopicConfig:
    """The settings that hold for one topic."""

    __slots__ = ("_layers", "_overrides", "_values")

    def __init__(self, layers: BrokerLayers, overrides: Mapping[str, str]) -> None:
        self._layers = layers
        self._overrides = overrides
        self._values: dict[str, Any] = {}

    @property
    def overrides(self) -> Mapping[str, str]:
        """The topic's own values."""
        return self._overrides

    def __getitem__(self, setting: Setting[T]) -> T:
        try:
            return cast(T, self._values[setting.name])
        except KeyError:
            value = self._values[setting.name] = self._resolve(setting)
            return value

    def _resolve(self, setting: Setting[T]) -> T:
        own = _own(setting, self._overrides)
        return own[0] if own else inherited_topic_value(setting, self._layers)

    def synonyms(self, name: str) -> list[LayerValue]:
        """Every value of `name` and of its synonyms, the effective one first."""
        brokers = topic_settings.BROKER_SYNONYMS.get(name)
        found = self._layers.synonyms(brokers[0][0]) if brokers else []
        own = _own_text(topic_settings.TOPIC_SETTINGS.get(name), name, self._overrides)
        if own is not None:
            found.insert(0, LayerValue(name, own, ConfigSource.TOPIC))
        return found


def inherited_topic_value(setting: Setting[T], layers: BrokerLayers) -> T:
    """The value of a setting that the topic does not have: that of the broker's synonyms, or the default."""
    for name, unit in topic_settings.BROKER_SYNONYMS.get(setting.name, ()):
        value = layers[BROKER_SETTINGS[name]]
        if value is not None:
            # A negative time means for ever in every unit.
            return cast(T, value * unit if unit != 1 and value >= 0 else value)
    return setting.default


class GroupConfig:
    """The settings that hold for one group."""

    __slots__ = ("_layers", "_overrides")

    def __init__(self, layers: BrokerLayers, overrides: Mapping[str, str]) -> None:
        self._layers = layers
        self._overrides = overrides

    def __getitem__(self, setting: Setting[T]) -> T:
        own = _own(setting, self._overrides)
        if own:
            return own[0]
        broker = group_settings.BROKER_SYNONYMS.get(setting.name)
        if broker is None:
            return setting.default
        value = self._layers[BROKER_SETTINGS[broker]]
        # The broker has a list of assignors, of which the first is a group's that names none.
        return cast(T, value[0] if setting.name == group_settings.STREAMS_ASSIGNOR_NAME.name else value)

    def synonyms(self, name: str) -> list[LayerValue]:
        """Every value of `name` and of its synonyms, the effective one first."""
        broker = group_settings.BROKER_SYNONYMS.get(name)
        setting = group_settings.GROUP_SETTINGS.get(name)
        if broker:
            found = self._layers.synonyms(broker)
        elif setting is not None and setting.default_text is not None:
            found = [LayerValue(name, setting.default_text, ConfigSource.DEFAULT)]
        else:
            found = []
        own = _own_text(setting, name, self._overrides)
        if own is not None:
            found.insert(0, LayerValue(name, own, ConfigSource.GROUP))
        return found


def _own(setting: Setting[T], overrides: Mapping[str, str]) -> tuple[T] | None:
    text = overrides.get(setting.name)
    if text is None:
        return None
    try:
        return (setting.parse(text),)
    except InvalidValue:
        return None


def _own_text(setting: Setting[Any] | None, name: str, overrides: Mapping[str, str]) -> str | None:
    """A resource's own value in the form that clients are shown."""
    text = overrides.get(name)
    if text is None or setting is None:
        return text
    own = _own(setting, overrides)
    return setting.format(own[0]) if own else text
