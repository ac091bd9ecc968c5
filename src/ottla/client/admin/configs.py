"""Settings that a cluster keeps: of topics, brokers, loggers, groups and client metrics, read and changed."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.client.cluster_requests import ClusterRequests, refusal, require_success
from ottla.client.errors import ClusterError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_configs_response import DescribeConfigsResponse
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ottla.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from ottla.protocol.messages.list_config_resources_response import ListConfigResourcesResponse

RESOURCES_A_REQUEST: Final = 200
RESOURCES_OF_FEW_SETTINGS: Final = 2_000
"""Of a request that asks for one setting or a few of each."""
SETTLE_SECONDS: Final = 1.0
SETTLE_PAUSE_SECONDS: Final = 0.02
PAGES_AT_A_TIME: Final = 2
"""The broker makes an answer while the one before is read."""
ALL_BROKERS: Final = ""
"""The name of the resource of type BROKER whose values hold for all brokers."""


class ResourceType(enum.IntEnum):
    """The kinds of things that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    SERVER_PROPERTIES = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource | None:
        return cls.UNKNOWN if isinstance(value, int) else None

    @property
    def words(self) -> str:
        """The source as people read it."""
        return _SOURCE_WORDS[self]


_SOURCE_WORDS: Final = {
    ConfigSource.UNKNOWN: "unknown",
    ConfigSource.TOPIC: "topic",
    ConfigSource.BROKER: "broker",
    ConfigSource.ALL_BROKERS: "all brokers",
    ConfigSource.SERVER_PROPERTIES: "server.properties",
    ConfigSource.DEFAULT: "default",
    ConfigSource.BROKER_LOGGER: "logger",
    ConfigSource.CLIENT_METRICS: "client metrics",
    ConfigSource.GROUP: "group",
}


_OWN_SOURCES: Final = {
    ResourceType.TOPIC: ConfigSource.TOPIC,
    ResourceType.BROKER: ConfigSource.BROKER,
    ResourceType.BROKER_LOGGER: ConfigSource.BROKER_LOGGER,
    ResourceType.GROUP: ConfigSource.GROUP,
    ResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
}


class ValueType(enum.IntEnum):
    """A setting's type."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> ValueType | None:
        return cls.UNKNOWN if isinstance(value, int) else None


class Operation(enum.IntEnum):
    """How a change acts on the value that is there. APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """A thing that has settings: a topic by its name, a broker by its id or ALL_BROKERS, a group …"""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        match self.type:
            case ResourceType.BROKER if self.name == ALL_BROKERS:
                return "all brokers"
            case ResourceType.BROKER_LOGGER:
                return f"loggers of broker {self.name}"
            case ResourceType.CLIENT_METRICS:
                return f"client metrics {self.name}"
            case _:
                return f"{self.type.name.lower()} {self.name}"


@dataclass(frozen=True, slots=True)
class Synonym:
    """A value of one layer: the first of a setting's synonyms is the one that counts."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting of a resource. The value of a sensitive one is None, whatever the broker says."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    type: ValueType
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it, neither in the cluster nor in a broker's server.properties."""
        return self.source is ConfigSource.DEFAULT

    @property
    def default(self) -> str | None:
        """The default value, as far as the broker told the synonyms."""
        if self.is_default:
            return self.value
        return next((one.value for one in self.synonyms if one.source is ConfigSource.DEFAULT), None)


class Change(NamedTuple):
    """A change of one setting. value: None for DELETE."""

    name: str
    operation: Operation
    value: str | None = None


async def describe_configs(
    requests: ClusterRequests,
    resources: Iterable[Resource],
    *,
    names: Sequence[str] | None = None,
    explain: bool = False,
    without_defaults: bool = False,
) -> dict[Resource, list[ConfigEntry] | ClusterError]:
    """The settings of each resource, sorted by name. Raises ClusterError where no broker answers.

    names: only these settings; None for all. explain: with synonyms and documentation. without_defaults:
    only settings that are not at their default.
    """
    found: dict[Resource, list[ConfigEntry] | ClusterError] = {}
    turns = asyncio.Semaphore(PAGES_AT_A_TIME)

    async def describe(node_id: int | None, page: Sequence[Resource]) -> None:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=one.type,
                    resource_name=one.name,
                    configuration_keys=None if names is None else list(names),
                )
                for one in page
            ],
            include_synonyms=explain,
            include_documentation=explain,
        )
        async with turns:
            if node_id is None:
                answer = await requests.ask(request, DescribeConfigsResponse)
            else:
                answer = await requests.ask_node(node_id, request, DescribeConfigsResponse)
            for result in answer.results:
                resource = Resource(ResourceType(result.resource_type), result.resource_name)
                if result.error_code:
                    found[resource] = refusal(result.error_code, result.error_message, str(resource))
                else:
                    found[resource] = _entries(result.configs, without_defaults)

    wanted = list(dict.fromkeys(resources))
    pages = _pages(wanted, RESOURCES_A_REQUEST if names is None else RESOURCES_OF_FEW_SETTINGS)
    await asyncio.gather(*(describe(node_id, page) for node_id, page in pages))
    return {one: found[one] for one in wanted if one in found}


async def alter_configs(
    requests: ClusterRequests,
    changes: Mapping[Resource, Sequence[Change]],
    *,
    validate_only: bool = False,
) -> dict[Resource, ClusterError | None]:
    """Change settings; those of one resource all or none. None, or the error, of each resource.

    Raises ClusterError where no broker answers.
    """
    done: dict[Resource, ClusterError | None] = {}
    for node_id, page in _pages(list(changes), RESOURCES_A_REQUEST):
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(name=one.name, config_operation=one.operation, value=one.value)
                        for one in changes[resource]
                    ],
                )
                for resource in page
            ],
            validate_only=validate_only,
        )
        if node_id is None:
            answer = await requests.ask_controller(request, IncrementalAlterConfigsResponse)
        else:
            answer = await requests.ask_node(node_id, request, IncrementalAlterConfigsResponse)
        for result in answer.responses:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            code = result.error_code
            done[resource] = refusal(code, result.error_message, str(resource)) if code else None
    return done


async def settled(requests: ClusterRequests, changes: Mapping[Resource, Sequence[Change]]) -> None:
    """Wait a second at most until a broker shows changed values, the broker itself for its own.

    The changes are made already, at the controller; waiting lets the next command see them.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + SETTLE_SECONDS
    names = sorted({one.name for each in changes.values() for one in each})
    with contextlib.suppress(ClusterError):
        while loop.time() < end:
            found = await describe_configs(requests, changes, names=names)
            if all(_shows(found.get(resource, []), resource, each) for resource, each in changes.items()):
                return
            await asyncio.sleep(SETTLE_PAUSE_SECONDS)


def _shows(entries: list[ConfigEntry] | ClusterError, resource: Resource, changes: Sequence[Change]) -> bool:
    if isinstance(entries, ClusterError):
        return False
    own = {one.name: one for one in entries if one.source is own_source(resource)}
    return all(_is_made(own.get(change.name), change) for change in changes)


def _is_made(entry: ConfigEntry | None, change: Change) -> bool:
    """Whether a resource's own value is as after the change; brokers write values in their own way."""
    if entry is None or change.value is None:
        return (entry is None) is (change.operation is Operation.DELETE)
    if entry.sensitive:
        return True
    wanted, found = (_plain(text).split(",") for text in (change.value, entry.value or ""))
    match change.operation:
        case Operation.SET:
            return wanted == found
        case Operation.APPEND:
            return set(wanted) <= set(found)
        case Operation.SUBTRACT:
            return set(wanted).isdisjoint(found)
        case Operation.DELETE:
            return False


def _plain(text: str) -> str:
    return "".join(text.lower().split())


def own_source(resource: Resource) -> ConfigSource:
    """Where a value comes from that was set for this very resource."""
    if resource == Resource(ResourceType.BROKER, ALL_BROKERS):
        return ConfigSource.ALL_BROKERS
    return _OWN_SOURCES[resource.type]


async def config_resources(requests: ClusterRequests, kind: ResourceType) -> list[str]:
    """The names of the resources of a kind, sorted. Raises ClusterError.

    Of groups and client metrics: those that have settings. Kafka below 4.1 tells only client metrics; topics
    and brokers are in the cluster's metadata there, groups that have settings are not known.
    """
    if kind is ResourceType.TOPIC:
        return sorted(topic.name for topic in await requests.topics() if topic.name)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(node_id) for node_id in (await requests.cluster(refresh=True)).brokers]
    types: list[int] = [] if kind is ResourceType.CLIENT_METRICS else [kind]  # version 0 has no types
    request = ListConfigResourcesRequest(resource_types=types)
    answer = await requests.ask(request, ListConfigResourcesResponse)
    require_success(answer.error_code, None)
    return sorted(one.resource_name for one in answer.config_resources if one.resource_type == kind)


def _pages(resources: Sequence[Resource], size: int) -> list[tuple[int | None, list[Resource]]]:
    """Resources of a request, and the broker that has to get it; None for any."""
    any_broker: list[Resource] = []
    pages: list[tuple[int | None, list[Resource]]] = []
    for resource in resources:
        own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
        if own and resource.name != ALL_BROKERS:
            if not (resource.name.isascii() and resource.name.isdecimal() and len(resource.name) < 11):
                raise ClusterError(f"{resource.name} is not the id of a broker", ErrorCode.INVALID_REQUEST)
            pages.append((int(resource.name), [resource]))
        else:
            any_broker.append(resource)
    starts = range(0, len(any_broker), size)
    return [*pages, *((None, any_broker[start : start + size]) for start in starts)]


def _entries(configs: Sequence[Any], without_defaults: bool) -> list[ConfigEntry]:
    if without_defaults:  # of a large cluster's 300,000 entries a few
        configs = [one for one in configs if one.config_source != ConfigSource.DEFAULT]
    return sorted(map(_entry, configs), key=lambda entry: entry.name)


def _entry(config: Any) -> ConfigEntry:
    hidden = config.is_sensitive
    synonyms = tuple(
        Synonym(one.name, None if hidden else one.value, ConfigSource(one.source)) for one in config.synonyms
    )
    return ConfigEntry(
        config.name,
        None if hidden else config.value,
        ConfigSource(config.config_source),
        config.read_only,
        hidden,
        synonyms,
        ValueType(config.config_type),
        config.documentation or None,
    )
