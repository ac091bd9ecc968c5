"""Reads and changes configs of topics, of brokers, and of all brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.rest.admin.cluster_admin import ClusterAdmin
from ottla.rest.admin.model import (
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
)
from ottla.rest.kafka_errors import raise_for
from ottla.web.errors import ApiError

TOPICS_OF_A_REQUEST: Final = 50
ALL_BROKERS: Final = ""


async def topic_configs(
    admin: ClusterAdmin, topics: Sequence[str], name: str | None = None
) -> dict[str, list[ConfigEntry]]:
    """The configs of topics, or those of one name; sorted by name. Raises ApiError."""
    found: dict[str, list[ConfigEntry]] = {}
    for start in range(0, len(topics), TOPICS_OF_A_REQUEST):
        page = topics[start : start + TOPICS_OF_A_REQUEST]
        found |= await _described(admin, ConfigResourceType.TOPIC, page, name, None)
    return found


async def broker_configs(admin: ClusterAdmin, broker: int, name: str | None = None) -> list[ConfigEntry]:
    """The configs of one broker, or that of one name. Raises ApiError."""
    resource = str(broker)
    return (await _described(admin, ConfigResourceType.BROKER, [resource], name, broker))[resource]


async def cluster_configs(admin: ClusterAdmin, name: str | None = None) -> list[ConfigEntry]:
    """The configs that were set for all brokers, or that of one name. Raises ApiError."""
    found = await _described(admin, ConfigResourceType.BROKER, [ALL_BROKERS], name, None)
    return found[ALL_BROKERS]


async def alter_topic_configs(
    admin: ClusterAdmin, topic: str, changes: Sequence[ConfigChange], validate_only: bool = False
) -> None:
    """Change configs of a topic, all or none. Raises ApiError."""
    await _alter(admin, ConfigResourceType.TOPIC, topic, changes, validate_only, None)


async def alter_broker_configs(
    admin: ClusterAdmin, broker: int, changes: Sequence[ConfigChange], validate_only: bool = False
) -> None:
    """Change configs of a broker, all or none. Raises ApiError."""
    await _alter(admin, ConfigResourceType.BROKER, str(broker), changes, validate_only, broker)


async def alter_cluster_configs(
    admin: ClusterAdmin, changes: Sequence[ConfigChange], validate_only: bool = False
) -> None:
    """Change configs of all brokers, all or none. Raises ApiError."""
    await _alter(admin, ConfigResourceType.BROKER, ALL_BROKERS, changes, validate_only, None)


async def _described(
    admin: ClusterAdmin, kind: ConfigResourceType, names: Sequence[str], key: str | None, node: int | None
) -> dict[str, list[ConfigEntry]]:
    keys = None if key is None else [key]
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for name in names
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=False)
    response = await admin.ask(request, node)
    found: dict[str, list[ConfigEntry]] = {}
    for result in response.results:
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and len(names) > 1:
            continue  # the topic was deleted after the topics were listed
        raise_for(result.error_code, result.error_message)
        entries = (_entry(config) for config in result.configs)
        found[result.resource_name] = sorted(entries, key=lambda entry: entry.name)
    if len(names) == 1 and names[0] not in found:
        raise ApiError(500, 50002, "The broker's answer lacks the resource that was asked for.")
    return found


async def _alter(
    admin: ClusterAdmin,
    kind: ConfigResourceType,
    resource: str,
    changes: Sequence[ConfigChange],
    validate_only: bool,
    node: int | None,
) -> None:
    configs = [
        AlterableConfig(
            name=change.name,
            config_operation=change.operation,
            value=change.value if change.operation is AlterOperation.SET else None,
        )
        for change in changes
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=resource, configs=configs)],
        validate_only=validate_only,
    )
    for result in (await admin.ask(request, node)).responses:
        raise_for(result.error_code, result.error_message)


def _entry(config: Any) -> ConfigEntry:
    synonyms = tuple(
        ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
        for synonym in config.synonyms
    )
    return ConfigEntry(
        config.name,
        None if config.is_sensitive else config.value,
        ConfigSource(config.config_source),
        config.read_only,
        config.is_sensitive,
        synonyms,
    )
