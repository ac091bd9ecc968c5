"""The settings of a broker as DescribeConfigs tells them."""

from __future__ import annotations

from ottla.broker.config import OWN_SETTINGS
from ottla.config.setting import ConfigType
from ottla.core.settings.config_descriptions import ConfigEntry, describe_broker
from ottla.core.settings.config_layers import BrokerLayers, ConfigSource


def described(given: dict[str, str]) -> dict[str, ConfigEntry]:
    """The settings of a broker with this file, by name."""
    return {entry.name: entry for entry in describe_broker(BrokerLayers(given), OWN_SETTINGS)}


def test_settings_that_kafka_lacks_are_told_with_their_types_where_they_are_given() -> None:
    without, entries = described({}), described({"ottla.metrics.listen": "127.0.0.1:9404"})
    assert set(entries) - set(without) == {"ottla.metrics.listen"}
    told = entries["ottla.metrics.listen"]
    assert (told.type, told.value) == (ConfigType.STRING, "127.0.0.1:9404")
    assert (told.source, told.read_only, told.sensitive) == (ConfigSource.STATIC_BROKER, True, False)


def test_secrets_among_them_are_not_told() -> None:
    told = described({"ottla.telemetry.otlp.headers": "authorization=hush"})["ottla.telemetry.otlp.headers"]
    assert (told.type, told.value, told.sensitive) == (ConfigType.PASSWORD, None, True)
    assert "hush" not in repr(told)


def test_an_unknown_name_is_told_without_its_value() -> None:
    told = described({"num.particions": "3"})["num.particions"]
    assert (told.type, told.value, told.sensitive) == (ConfigType.UNKNOWN, None, True)
