"""Layers of settings: which one speaks, and which ones are told of."""

from __future__ import annotations

from ottla.core.settings import broker_settings, group_settings, topic_settings
from ottla.core.settings.config_layers import BrokerLayers, ConfigSource, GroupConfig, TopicConfig

RETENTION = "log.retention.ms"


def test_the_nearest_layer_speaks() -> None:
    layers = BrokerLayers({RETENTION: "3"}, cluster={RETENTION: "2"}, broker={RETENTION: "1"})
    assert layers[broker_settings.LOG_RETENTION_MS] == 1
    assert layers.synonyms(RETENTION) == [
        (RETENTION, "1", ConfigSource.DYNAMIC_BROKER),
        (RETENTION, "2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (RETENTION, "3", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_without_a_value_the_default_holds() -> None:
    layers = BrokerLayers({})
    assert layers[broker_settings.NUM_PARTITIONS] == 1
    assert layers.synonyms("num.partitions") == [("num.partitions", "1", ConfigSource.DEFAULT)]


def test_a_stored_value_that_is_not_understood_is_passed_over() -> None:
    layers = BrokerLayers({"num.partitions": "5"}, broker={"num.partitions": "as many as you like"})
    assert layers[broker_settings.NUM_PARTITIONS] == 5


def test_a_topic_follows_the_broker_in_the_brokers_units() -> None:
    hours = TopicConfig(BrokerLayers({"log.retention.hours": "2"}), {})
    minutes = TopicConfig(BrokerLayers({"log.retention.hours": "2", "log.retention.minutes": "3"}), {})
    for_ever = TopicConfig(BrokerLayers({"log.retention.minutes": "-1"}), {})
    assert hours[topic_settings.RETENTION_MS] == 2 * 3_600_000
    assert minutes[topic_settings.RETENTION_MS] == 3 * 60_000
    assert for_ever[topic_settings.RETENTION_MS] == -1


def test_a_topics_own_value_wins() -> None:
    config = TopicConfig(BrokerLayers({RETENTION: "5"}), {"retention.ms": " 7 "})
    assert config[topic_settings.RETENTION_MS] == 7
    assert config.synonyms("retention.ms")[:2] == [
        ("retention.ms", "7", ConfigSource.TOPIC),
        (RETENTION, "5", ConfigSource.STATIC_BROKER),
    ]


def test_a_default_in_other_units_is_no_synonym() -> None:
    """As Kafka shows it: log.retention.ms has no value, so nothing is said of log.retention.hours."""
    assert TopicConfig(BrokerLayers({}), {}).synonyms("retention.ms") == []


def test_a_group_follows_the_broker() -> None:
    layers = BrokerLayers({"group.consumer.session.timeout.ms": "50000"})
    assert GroupConfig(layers, {})[group_settings.CONSUMER_SESSION_TIMEOUT_MS] == 50_000
    own = GroupConfig(layers, {"consumer.session.timeout.ms": "46000"})
    assert own[group_settings.CONSUMER_SESSION_TIMEOUT_MS] == 46_000
    assert own.synonyms("consumer.session.timeout.ms")[0].source is ConfigSource.GROUP
    assert own[group_settings.SHARE_ISOLATION_LEVEL] == "read_uncommitted"


def test_a_listeners_own_setting_stands_before_the_general_one() -> None:
    name = "listener.name.internal.ssl.keystore.type"
    layers = BrokerLayers({"ssl.keystore.type": "PEM", name: "PKCS12"})
    assert [value.name for value in layers.synonyms(name)] == [name, "ssl.keystore.type", "ssl.keystore.type"]
    assert [value.text for value in layers.synonyms("ssl.keystore.type")] == ["PEM", "JKS"]
