"""Settings: how texts become values, what is refused, how values are shown again."""

from __future__ import annotations

import pytest

from ottla.config.setting import ConfigType, InvalidValue, Setting, UpdateMode
from ottla.core.settings import broker_settings, group_settings, topic_settings
from ottla.core.settings.broker_settings import BROKER_SETTINGS, SAME_SETTINGS, update_mode, without_listener


def test_names_of_constants_are_those_of_the_settings() -> None:
    for module in (broker_settings, topic_settings, group_settings):
        for constant, value in vars(module).items():
            if isinstance(value, Setting):
                assert constant == value.name.upper().replace(".", "_")


def test_every_default_is_allowed_and_reads_back() -> None:
    for table in (BROKER_SETTINGS, topic_settings.TOPIC_SETTINGS, group_settings.GROUP_SETTINGS):
        for setting in table.values():
            if setting.default is not None and setting.default_text != "":
                assert setting.parse(setting.default_text) == setting.default, setting.name
            assert setting.doc.endswith("."), setting.name


def test_every_synonym_is_a_broker_setting() -> None:
    for name, synonyms in topic_settings.BROKER_SYNONYMS.items():
        assert name in topic_settings.TOPIC_SETTINGS
        assert all(broker in BROKER_SETTINGS for broker, _ in synonyms)
    for name, broker in group_settings.BROKER_SYNONYMS.items():
        assert name in group_settings.GROUP_SETTINGS
        assert broker in BROKER_SETTINGS
    assert all(name in BROKER_SETTINGS for names in SAME_SETTINGS.values() for name in names)


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (broker_settings.NUM_PARTITIONS, " 12 ", 12),
        (broker_settings.AUTO_CREATE_TOPICS_ENABLE, "FALSE", False),
        (broker_settings.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR, "0.25", 0.25),
        (broker_settings.LISTENERS, "A://:1, B://:2", ("A://:1", "B://:2")),
        (broker_settings.LOG_CLEANUP_POLICY, "compact,delete,compact", ("compact", "delete")),
        (broker_settings.LOG_CLEANUP_POLICY, "", ()),
        (broker_settings.GROUP_CONSUMER_MIGRATION_POLICY, "Upgrade", "Upgrade"),
        (broker_settings.COMPRESSION_GZIP_LEVEL, "-1", -1),
        (topic_settings.FOLLOWER_REPLICATION_THROTTLED_REPLICAS, "0:1,1:2", ("0:1", "1:2")),
        (topic_settings.FOLLOWER_REPLICATION_THROTTLED_REPLICAS, "*", ("*",)),
        (topic_settings.FOLLOWER_REPLICATION_THROTTLED_REPLICAS, "0:1,,0:1,", ("0:1", "", "0:1", "")),
        (group_settings.SHARE_AUTO_OFFSET_RESET, "by_duration:PT1H30M", "by_duration:PT1H30M"),
    ],
)
def test_what_a_text_stands_for(setting: Setting[object], text: str, value: object) -> None:
    assert setting.parse(text) == value


@pytest.mark.parametrize(
    ("setting", "text", "problem"),
    [
        (broker_settings.NUM_PARTITIONS, "0", "Value must be at least 1"),
        (broker_settings.NUM_PARTITIONS, "many", "Not a number of type INT"),
        (broker_settings.NUM_PARTITIONS, "1_000", "Not a number of type INT"),
        (broker_settings.NUM_PARTITIONS, "2147483648", "Not a number of type INT"),
        (broker_settings.NUM_PARTITIONS, "", "Not a number of type INT"),
        (broker_settings.OFFSETS_TOPIC_REPLICATION_FACTOR, "32768", "Not a number of type SHORT"),
        (broker_settings.LOG_RETENTION_BYTES, "9" * 5000, "Not a number of type LONG"),
        (broker_settings.LOG_CLEANER_MIN_CLEANABLE_RATIO, "1.5", "Value must be no more than 1"),
        (broker_settings.LOG_CLEANER_MIN_CLEANABLE_RATIO, "nan", "Not a number of type DOUBLE"),
        (broker_settings.AUTO_CREATE_TOPICS_ENABLE, "yes", "Expected value to be either true or false"),
        (
            broker_settings.LOG_MESSAGE_TIMESTAMP_TYPE,
            "Now",
            "String must be one of: CreateTime, LogAppendTime",
        ),
        (broker_settings.LOG_CLEANUP_POLICY, "archive", "String must be one of: compact, delete"),
        (broker_settings.LISTENERS, "", "The list must not be empty"),
        (broker_settings.COMPRESSION_GZIP_LEVEL, "0", "Value must be between 1 and 9 or equal to -1"),
        (topic_settings.LEADER_REPLICATION_THROTTLED_REPLICAS, "9" * 5000 + ":1", "Must be the literal '*'"),
        (topic_settings.LEADER_REPLICATION_THROTTLED_REPLICAS, "٣:1", "Must be the literal '*'"),
        (topic_settings.LEADER_REPLICATION_THROTTLED_REPLICAS, "*,1:1", "Must be the literal '*'"),
        (group_settings.SHARE_AUTO_OFFSET_RESET, "by_duration:PT", "String must be latest, earliest or"),
        (group_settings.SHARE_AUTO_OFFSET_RESET, "by_duration:PT-1S", "The duration must not be negative"),
    ],
)
def test_what_is_refused_and_why(setting: Setting[object], text: str, problem: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        setting.parse(text)
    assert str(refused.value).startswith(f"Invalid value {text} for configuration {setting.name}: {problem}")


def test_values_are_shown_as_java_prints_them() -> None:
    ratio, rate = (
        broker_settings.LOG_CLEANER_MIN_CLEANABLE_RATIO,
        broker_settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
    )
    assert ratio.format(0.5) == "0.5"
    assert rate.default_text == "1.7976931348623157E308"
    assert rate.format(1e20) == "1.0E20"
    assert broker_settings.DELETE_TOPIC_ENABLE.format(True) == "true"
    assert broker_settings.LOG_CLEANUP_POLICY.format(("compact", "delete")) == "compact,delete"
    assert broker_settings.LOG_RETENTION_MS.default_text is None


def test_passwords_are_sensitive() -> None:
    sensitive = {setting.name for setting in BROKER_SETTINGS.values() if setting.sensitive}
    assert "ssl.keystore.password" in sensitive
    assert "ssl.keystore.location" not in sensitive
    assert all(BROKER_SETTINGS[name].type is ConfigType.PASSWORD for name in sensitive)


@pytest.mark.parametrize(
    ("name", "base", "mode"),
    [
        ("log.retention.ms", "log.retention.ms", UpdateMode.CLUSTER_WIDE),
        ("process.roles", "process.roles", UpdateMode.READ_ONLY),
        ("listener.name.internal.ssl.keystore.type", "ssl.keystore.type", UpdateMode.PER_BROKER),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", "sasl.jaas.config", UpdateMode.PER_BROKER),
        ("listener.name.internal.max.connections", "max.connections", UpdateMode.PER_BROKER),
        ("listener.name.internal.nonsense", "listener.name.internal.nonsense", UpdateMode.READ_ONLY),
        ("nonsense", "nonsense", UpdateMode.READ_ONLY),
    ],
)
def test_listeners_have_settings_of_their_own(name: str, base: str, mode: UpdateMode) -> None:
    assert without_listener(name) == base
    assert update_mode(name) is mode
