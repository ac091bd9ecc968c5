"""Changes of settings: AlterConfigs 0-2 (all of a resource's), IncrementalAlterConfigs 0-1 (single ones).

The resources are topics, brokers (an empty name is the default of all brokers), groups (KIP-848) and client
metrics subscriptions (KIP-714). The levels of broker loggers are not part of the metadata: the broker changes
them itself. Each resource succeeds or fails by itself; either all of its changes are made or none.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.config.setting import ConfigType, InvalidValue, Setting, UpdateMode
from ottla.core.decisions.topic_names import INTERNAL_PREFIX, topic_name_problem
from ottla.core.image.features import ELIGIBLE_LEADER_REPLICAS
from ottla.core.image.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from ottla.core.links.metadata import concerns_links, link_values, mirror_change
from ottla.core.settings import client_metrics_settings, group_settings, topic_settings
from ottla.core.settings.broker_settings import (
    BROKER_SETTINGS,
    GROUP_STREAMS_ASSIGNORS,
    update_mode,
    without_listener,
)
from ottla.core.settings.config_layers import BrokerLayers, GroupConfig
from ottla.core.settings.link_settings import LINK_TOPIC_SETTINGS
from ottla.core.settings.schema_validation_settings import (
    KEY_SCHEMA_VALIDATION,
    SCHEMA_REGISTRY_URL,
    SCHEMA_VALIDATION_TOPIC_SETTINGS,
    VALUE_SCHEMA_VALIDATION,
)
from ottla.core.telemetry.subscriptions import InvalidPattern, parse_match
from ottla.protocol.errors import (
    BrokerIdNotRegistered,
    InvalidConfig,
    InvalidRequest,
    InvalidTopicException,
    UnknownTopicOrPartition,
)
from ottla.protocol.records.clear_elr_record import ClearElrRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.schema import Message

MIN_INSYNC_REPLICAS = "min.insync.replicas"
MAX_ID_DIGITS = 10
"""The digits of 2^31; Python refuses to parse more than 4,300."""


#: Of these settings, only those of a single listener can change while a broker runs.
LISTENER_SECURITY_SETTINGS = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)


class Operation(enum.IntEnum):
    """The operation of IncrementalAlterConfigs on a value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


TABLES: dict[int, Mapping[str, Setting[Any]]] = {
    TOPIC_RESOURCE: {**topic_settings.TOPIC_SETTINGS, **LINK_TOPIC_SETTINGS},
    BROKER_RESOURCE: BROKER_SETTINGS,
    GROUP_RESOURCE: group_settings.GROUP_SETTINGS,
    CLIENT_METRICS_RESOURCE: client_metrics_settings.CLIENT_METRICS_SETTINGS,
}


def change_configs(
    image: MetadataImage,
    layers: BrokerLayers,
    resource_type: int,
    resource_name: str,
    changes: Iterable[tuple[str, Operation, str | None]],
) -> list[Message]:
    """The records of incremental changes to one resource. Raises KafkaError."""
    before = image.configs.get((resource_type, resource_name), {})
    changed, after = changed_values(resource_type, before, changes)
    # A change without effect is written only for a single broker: it makes the broker re-read its key stores.
    records = [
        name for name, new in changed.items() if new != before.get(name) or resource_type == BROKER_RESOURCE
    ]
    _check(image, layers, (resource_type, resource_name), after, changed)
    if resource_type == TOPIC_RESOURCE and concerns_links(changed):
        return _mirror_records(image, resource_name, before, after)
    return _records(image, resource_type, resource_name, {name: changed[name] for name in records})


def _mirror_records(
    image: MetadataImage, topic: str, before: Mapping[str, str], wanted: Mapping[str, str]
) -> list[Message]:
    """The records of a change of a mirror topic, its settings last: who sees them, sees the rest. Raises
    KafkaError.
    """
    after, beside = mirror_change(image, topic, before, wanted)
    changed: dict[str, str | None] = {
        name: value for name, value in after.items() if before.get(name) != value
    }
    changed.update(dict.fromkeys(name for name in before if name not in after))
    return [*beside, *_records(image, TOPIC_RESOURCE, topic, changed)]


def changed_values(
    resource_type: int, before: Mapping[str, str], changes: Iterable[tuple[str, Operation, str | None]]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """What incremental changes make of a resource's values: those that change, and all. Raises KafkaError."""
    after: dict[str, str] = dict(before)
    changed: dict[str, str | None] = {}
    for name, operation, value in changes:
        new = _new_value(resource_type, name, operation, value, before.get(name))
        changed[name] = new
        if new is None:
            after.pop(name, None)
        else:
            after[name] = new
    return changed, after


def replace_configs(
    image: MetadataImage,
    layers: BrokerLayers,
    resource_type: int,
    resource_name: str,
    values: Mapping[str, str | None],
) -> list[Message]:
    """The records that give a resource exactly these values. Raises KafkaError."""
    before = image.configs.get((resource_type, resource_name), {})
    if resource_type == TOPIC_RESOURCE:
        if concerns_links(values):
            raise InvalidRequest("The settings of a mirror topic can't be replaced")
        values = {**values, **link_values(before)}
    changed: dict[str, str | None] = {
        name: value
        for name, value in values.items()
        if before.get(name) != value or resource_type == BROKER_RESOURCE
    }
    changed.update(dict.fromkeys(name for name in before if name not in values))
    after = {name: value for name, value in values.items() if value is not None}
    _check(image, layers, (resource_type, resource_name), after, changed)
    return _records(image, resource_type, resource_name, changed)


def _records(
    image: MetadataImage, resource_type: int, resource_name: str, changed: Mapping[str, str | None]
) -> list[Message]:
    records: list[Message] = [
        ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
        for name, value in changed.items()
    ]
    if MIN_INSYNC_REPLICAS in changed and image.features.get(ELIGIBLE_LEADER_REPLICAS):
        # A replica that was eligible under the old number may not be under the new one (KIP-966).
        topic = resource_name if resource_type == TOPIC_RESOURCE else ""
        records.append(ClearElrRecord(topic_name=topic))
    return records


def _new_value(
    resource_type: int, name: str, operation: Operation, value: str | None, current: str | None
) -> str | None:
    match operation:
        case Operation.SET:
            return value
        case Operation.DELETE:
            return None
        case Operation.APPEND | Operation.SUBTRACT:
            setting = TABLES.get(resource_type, {}).get(name)
            if setting is None or setting.type is not ConfigType.LIST:
                raise InvalidConfig(f"Can't {operation.name} to key {name} because its type is not LIST.")
            text = current if current is not None else setting.default_text or ""
            items = [item for item in text.split(",") if item]
            for item in (value or "").split(","):
                if operation is Operation.APPEND and item not in items:
                    items.append(item)
                elif operation is Operation.SUBTRACT and item in items:
                    items.remove(item)
            return ",".join(items)


def check_dynamic(names: Iterable[str], per_broker: bool) -> None:
    """Check that these broker settings can change while the broker runs. Raises InvalidRequest."""
    modes = {name: update_mode(name) for name in names if without_listener(name) in BROKER_SETTINGS}
    fixed = [name for name, mode in modes.items() if mode is UpdateMode.READ_ONLY]
    _refuse_names("Cannot update these configs dynamically", fixed)
    _refuse_names(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name in modes if name in LISTENER_SECURITY_SETTINGS],
    )
    if not per_broker:
        _refuse_names(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name, mode in modes.items() if mode is UpdateMode.PER_BROKER],
        )
    _refuse_names(
        "These configs of listeners can't be updated while the broker runs",
        [name for name in modes if name in ("listeners", "listener.security.protocol.map")],
    )


def _refuse_names(problem: str, names: Iterable[str]) -> None:
    found = ", ".join(sorted(names))
    if found:
        raise InvalidRequest(f"{problem}: [{found}]")


# -- checks of values ---------------------------------------------------------------------------------


def _check(
    image: MetadataImage,
    layers: BrokerLayers,
    resource: tuple[int, str],
    after: Mapping[str, str],
    changed: Mapping[str, str | None],
) -> None:
    """Check that the resource may have these values. Raises KafkaError."""
    resource_type, resource_name = resource
    match resource_type:
        case 2:
            _check_topic(image, layers, resource_name, after)
        case 4:
            _check_broker(image, resource_name, after, changed)
        case 32:
            if not resource_name:
                raise InvalidRequest("Default group resources are not allowed.")
            check_group_config(layers, after)
        case 16:
            if not resource_name:
                raise InvalidRequest("Subscription name can't be empty")
            check_client_metrics_config(after)
        case _:
            raise InvalidRequest(f"Unknown resource type {resource_type}")


def _check_topic(image: MetadataImage, layers: BrokerLayers, name: str, after: Mapping[str, str]) -> None:
    if not name:
        raise InvalidRequest("Default topic resources are not allowed.")
    problem = topic_name_problem(name)
    if problem is not None:
        raise InvalidTopicException(problem)
    if name not in image.topics:
        raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
    check_topic_config(name, after, layers)


_ALL_TOPIC_SETTINGS: Mapping[str, Setting[Any]] = {
    **topic_settings.TOPIC_SETTINGS,
    **SCHEMA_VALIDATION_TOPIC_SETTINGS,
    **LINK_TOPIC_SETTINGS,
}


def check_topic_config(topic: str, values: Mapping[str, str | None], layers: BrokerLayers) -> None:
    """Check that a topic may have these values of its own. Raises InvalidConfig."""
    without_value = sorted(name for name, value in values.items() if value is None)
    if without_value:
        raise InvalidConfig(f"Null value not supported for topic configs: {', '.join(without_value)}")
    parsed = _parse_all(values, _ALL_TOPIC_SETTINGS, "Unknown topic config name: {}")
    smallest = _value(parsed, topic_settings.MIN_COMPACTION_LAG_MS)
    largest = _value(parsed, topic_settings.MAX_COMPACTION_LAG_MS)
    if smallest > largest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({smallest}) > "
            f"max.compaction.lag.ms ({largest})"
        )
    if _value(parsed, topic_settings.REMOTE_STORAGE_ENABLE):
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    for validation in (KEY_SCHEMA_VALIDATION, VALUE_SCHEMA_VALIDATION):
        if _value(parsed, validation) and not layers[SCHEMA_REGISTRY_URL]:
            raise InvalidConfig(f"{validation.name} needs {SCHEMA_REGISTRY_URL.name} on every broker")


def check_group_config(layers: BrokerLayers, values: Mapping[str, str]) -> None:
    """Check a group's own values, also against the broker's limits. Raises InvalidConfig."""
    parsed = _parse_all(values, group_settings.GROUP_SETTINGS, "Unknown group config name: {}")
    for name, value in parsed.items():
        smallest, largest = group_setting_bounds(name)
        if smallest is not None and value < layers[smallest]:
            raise InvalidConfig(f"{name} must be greater than or equal to {smallest.name}")
        if largest is not None and value > layers[largest]:
            raise InvalidConfig(f"{name} must be less than or equal to {largest.name}")
    group = GroupConfig(layers, values)
    assignor, tags = group_settings.STREAMS_ASSIGNOR_NAME, group_settings.STREAMS_RACK_AWARE_ASSIGNMENT_TAGS
    offered = layers[GROUP_STREAMS_ASSIGNORS]
    if assignor.name in parsed and parsed[assignor.name] not in offered:
        raise InvalidConfig(
            f"{assignor.name} '{parsed[assignor.name]}' is not a registered task assignor. Registered "
            f"assignors are: [{', '.join(offered)}]."
        )
    given = [tag.strip() for tag in values.get(tags.name, "").split(",")]
    if len(set(given)) < len(given):
        raise InvalidConfig(f"{tags.name} must not contain duplicate tag keys.")
    for session, heartbeat in _SESSIONS:
        if group[session] <= group[heartbeat]:
            raise InvalidConfig(f"{session.name} must be greater than {heartbeat.name}")
    dead_letter_topic = group_settings.ERRORS_DEADLETTERQUEUE_TOPIC_NAME
    if group[dead_letter_topic].startswith(INTERNAL_PREFIX):
        raise InvalidConfig(
            f"{dead_letter_topic.name}: DLQ topic name must not start with '{INTERNAL_PREFIX}'"
        )


def group_setting_bounds(name: str) -> tuple[Setting[int] | None, Setting[int] | None]:
    """The broker settings that bound a group's setting below and above, or None."""
    protocol, _, rest = name.partition(".")
    largest = f"group.{protocol}.max.{rest}"
    if protocol == "streams":
        largest = largest.replace(".num.", ".")  # streams.num.standby.replicas and its like
    return BROKER_SETTINGS.get(f"group.{protocol}.min.{rest}"), BROKER_SETTINGS.get(largest)


_SESSIONS = (
    (group_settings.CONSUMER_SESSION_TIMEOUT_MS, group_settings.CONSUMER_HEARTBEAT_INTERVAL_MS),
    (group_settings.SHARE_SESSION_TIMEOUT_MS, group_settings.SHARE_HEARTBEAT_INTERVAL_MS),
    (group_settings.STREAMS_SESSION_TIMEOUT_MS, group_settings.STREAMS_HEARTBEAT_INTERVAL_MS),
)


def check_client_metrics_config(values: Mapping[str, str]) -> None:
    """Check the values of a client metrics subscription. Raises InvalidConfig or InvalidRequest."""
    for name in values:
        if name not in client_metrics_settings.CLIENT_METRICS_SETTINGS:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
    parsed = _parse_all(values, client_metrics_settings.CLIENT_METRICS_SETTINGS, "")
    interval = parsed.get("interval.ms")
    if interval is not None and not 100 <= interval <= 3_600_000:
        raise InvalidRequest(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    try:
        parse_match(parsed.get("match", ()))
    except InvalidPattern as pattern:
        raise InvalidConfig(f"Illegal client matching pattern: {pattern}") from None


def _check_broker(
    image: MetadataImage, name: str, after: Mapping[str, str], changed: Mapping[str, str | None]
) -> None:
    if name:
        if not (name.isdecimal() and len(name) <= MAX_ID_DIGITS):
            raise InvalidRequest("Unable to parse broker name as a base 10 number.")
        if int(name) not in image.brokers:
            raise BrokerIdNotRegistered(f"No broker with id {name} found.")
    if image.features.get(ELIGIBLE_LEADER_REPLICAS) and MIN_INSYNC_REPLICAS in changed:
        if name:
            raise InvalidConfig("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
        if changed[MIN_INSYNC_REPLICAS] is None:
            raise InvalidConfig("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
    known = {key: value for key, value in after.items() if without_listener(key) in BROKER_SETTINGS}
    for key, value in known.items():
        try:
            BROKER_SETTINGS[without_listener(key)].parse(value)
        except InvalidValue as invalid:
            raise InvalidRequest(str(invalid)) from None


def _parse_all(
    values: Mapping[str, str | None], table: Mapping[str, Setting[Any]], unknown: str
) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for name, text in values.items():
        setting = table.get(name)
        if setting is None:
            raise InvalidConfig(unknown.format(name))
        try:
            parsed[name] = setting.parse(text or "")
        except InvalidValue as invalid:
            raise InvalidConfig(str(invalid)) from None
    return parsed


def _value(parsed: Mapping[str, Any], setting: Setting[Any]) -> Any:
    return parsed.get(setting.name, setting.default)
