"""Settings of resources: DescribeConfigs (API key 32) 1-4, AlterConfigs (33) 0-2, and 0-1 of two more.

These are IncrementalAlterConfigs (44) and ListConfigResources (74).

DescribeConfigs: v1 brought sources and synonyms (KIP-226), v3 types and documentation (KIP-569). The value of
a password is never shown, nor that of an unknown key. Resources are topics, this broker by its id or the
defaults of all by an empty name, this broker's loggers (KIP-412), client metrics (KIP-714), groups (KIP-848).

AlterConfigs gives a resource exactly the values of the request, other settings fall back to their defaults:
deprecated in favour of IncrementalAlterConfigs (KIP-339), which sets, deletes, appends to and subtracts from
single values.

A change is checked by the broker that gets the request, as far as it concerns that node, and made by the
active controller; a node's loggers are changed by the node that gets the request.

ListConfigResources: v0 was ListClientMetricsResources and knows those only, v1 all kinds (KIP-1142).
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.broker import loggers
from ottla.broker.config import OWN_SETTINGS
from ottla.broker.network.context import RequestContext
from ottla.broker.network.turns import in_turns
from ottla.config.setting import ConfigType
from ottla.core.decisions.config_changes import (
    MAX_ID_DIGITS,
    Operation,
    change_configs,
    changed_values,
    check_dynamic,
    replace_configs,
)
from ottla.core.decisions.decision import MAX_RECORDS_PER_REQUEST, Decision
from ottla.core.decisions.topic_names import validate_topic_name
from ottla.core.image.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.core.settings.config_descriptions import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from ottla.core.settings.config_layers import ConfigSource
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import (
    ClusterAuthorizationFailed,
    ErrorCode,
    GroupAuthorizationFailed,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from ottla.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from ottla.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ottla.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from ottla.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

ResourceKey = tuple[int, str]
Outcome = KafkaError | None


class _Resource(Protocol):
    resource_type: int
    resource_name: str


class _Named(Protocol):
    name: str


R = TypeVar("R", AlterConfigsResource, IncrementalAlterConfigsResource)
T = TypeVar("T")

MAX_SETTINGS = 1 << 18
"""The most settings of one answer: those of 6,000 topics.

To name a resource takes five bytes, to describe its settings 30 KB, and one request may name a quarter of a
million.
"""
TOO_MANY_SETTINGS = InvalidRequest("The request asks for too many settings: ask for fewer resources at once.")

Describe = Callable[[], list[ConfigEntry]]
Alike = dict[tuple[Hashable, frozenset[str]], list[DescribeConfigsResourceResult]]
"""The settings in an answer by what they depend on: most topics of a cluster have the same."""

_LISTENERS_TLS = re.compile(r"listener\.name\.[^.]+\.ssl\.")

TOO_MANY_CHANGES = "Excessively large number of changes per request."

RESOURCE_TYPES = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)


# -- DescribeConfigs ----------------------------------------------------------------------------------


async def describe_configs(
    node: Node, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Every resource of the request, each with its own error; at most MAX_SETTINGS settings in all."""
    results: list[DescribeConfigsResult] = []
    settings = 0
    alike: Alike = {}
    async for resource in in_turns(request.resources):
        if settings >= MAX_SETTINGS:
            results.append(_undescribed(resource, TOO_MANY_SETTINGS))
            continue
        results.append(_described(node, context, resource, request, alike))
        settings += len(results[-1].configs)
    return DescribeConfigsResponse(results=results)


def _undescribed(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _described(
    node: Node,
    context: RequestContext,
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    alike: Alike,
) -> DescribeConfigsResult:
    wanted = frozenset(resource.configuration_keys or ())  # none means all
    try:
        key = (resource.resource_type, resource.resource_name)
        if key[0] not in RESOURCE_TYPES:
            raise InvalidRequest(f"Unsupported resource type: {key[0]}")
        _require(node, context, AclOperation.DESCRIBE_CONFIGS, key)
        describe, likeness = _description(node, resource.resource_type, resource.resource_name)
        configs = None if likeness is None else alike.get((likeness, wanted))
        if configs is None:
            configs = [_config(one, request) for one in describe() if not wanted or one.name in wanted]
            if likeness is not None:
                alike[likeness, wanted] = configs
    except KafkaError as error:
        return _undescribed(resource, error)
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _description(node: Node, resource_type: int, name: str) -> tuple[Describe, Hashable]:
    """What describes a resource, and the key that it shares with resources described alike; None for none."""
    image, layers = node.image, node.config.layers
    own = image.configs.get((resource_type, name), {})
    likeness = resource_type, layers, frozenset(own.items())
    match resource_type:
        case 2:
            validate_topic_name(name)
            if name not in image.topics:
                raise UnknownTopicOrPartition()
            return functools.partial(describe_topic, layers, own), likeness
        case 4:
            if not name:
                return functools.partial(describe_cluster_default, layers), None
            _require_own_id(node, name, "Broker", " or empty string,")
            return functools.partial(describe_broker, layers, OWN_SETTINGS), None
        case 8:
            _require_own_id(node, name, "Broker", "")
            return lambda: [_logger(*each) for each in loggers.logger_levels().items()], None
        case 16:
            if not name:
                raise InvalidRequest("Client metrics subscription name must not be empty")
            return functools.partial(describe_client_metrics, own), likeness
        case 32:
            if not name:
                raise InvalidRequest("Group name must not be empty")
            return functools.partial(describe_group, layers, own), likeness
        case _:
            raise InvalidRequest(f"Unsupported resource type: {resource_type}")


def _require_own_id(node: Node, name: str, what: str, or_else: str) -> None:
    if not (name.isdecimal() and len(name) <= MAX_ID_DIGITS):
        raise InvalidRequest(f"{what} id must be an integer, but it is: {name}")
    if int(name) != node.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node.node_id}{or_else} but received {name}")


def _logger(name: str, level: str) -> ConfigEntry:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER
    return ConfigEntry(name, level, False, source, False, (), ConfigType.UNKNOWN, None)


def _config(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in entry.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )


# -- AlterConfigs and IncrementalAlterConfigs, at a broker -----------------------------------------------


async def alter_configs(
    node: Node, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Replace all values of each resource: checked as far as it concerns this node, then passed on."""

    refused_keys = await _refused_keys(node, request.resources, _replaced_values)

    def settle(resource: AlterConfigsResource) -> bool:
        _check_replacement(resource)
        names = (config.name for config in resource.configs)
        key = (resource.resource_type, resource.resource_name)
        _check_broker_resource(node, context, key, names)
        if key in refused_keys:
            raise refused_keys[key]
        return False

    outcomes, passed_on = _settle(request.resources, settle)
    if passed_on:
        answer = await node.controller_channel.forward(
            context, AlterConfigsRequest(resources=passed_on, validate_only=request.validate_only)
        )
        assert isinstance(answer, AlterConfigsResponse)
        outcomes.update(((each.resource_type, each.resource_name), each) for each in answer.responses)
    return AlterConfigsResponse(
        responses=_in_order(request.resources, outcomes, AlterConfigsResourceResponse)
    )


async def incremental_alter_configs(
    node: Node, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change single values of each resource. The levels of loggers change here and now, and are not kept."""
    refused_keys = await _refused_keys(node, request.resources, _changed_values)

    def settle(resource: IncrementalAlterConfigsResource) -> bool:
        changes = _changes(resource)
        _check_changes(changes)
        key = (resource.resource_type, resource.resource_name)
        if key[0] == BROKER_LOGGER_RESOURCE:
            _require(node, context, AclOperation.ALTER_CONFIGS, key)
            _require_own_id(node, key[1], "Node", ",")
            _change_loggers(changes, request.validate_only)
            return True
        _check_broker_resource(node, context, key, (name for name, _, _ in changes))
        if key in refused_keys:
            raise refused_keys[key]
        return False

    outcomes, passed_on = _settle(request.resources, settle)
    if passed_on:
        answer = await node.controller_channel.forward(
            context, IncrementalAlterConfigsRequest(resources=passed_on, validate_only=request.validate_only)
        )
        assert isinstance(answer, IncrementalAlterConfigsResponse)
        outcomes.update(((each.resource_type, each.resource_name), each) for each in answer.responses)
    return IncrementalAlterConfigsResponse(
        responses=_in_order(request.resources, outcomes, IncrementalResourceResponse)
    )


def _settle(resources: Sequence[R], settle: Callable[[R], bool]) -> tuple[dict[ResourceKey, Any], list[R]]:
    """The outcome of each resource that fails or is done here, and the resources that have to be passed on.

    `settle` checks a resource, and returns whether it is done.
    """
    keys = [(each.resource_type, each.resource_name) for each in resources]
    twice = {key for key, count in Counter(keys).items() if count > 1}
    outcomes: dict[ResourceKey, Any] = {}
    passed_on: list[R] = []
    if len(keys) > MAX_RECORDS_PER_REQUEST:  # to look at each of a quarter of a million would take a minute
        return dict.fromkeys(keys, PolicyViolation(TOO_MANY_CHANGES)), []
    for key, resource in zip(keys, resources, strict=True):
        try:
            if key in twice:
                raise InvalidRequest("Each resource must appear at most once.")
            if settle(resource):
                outcomes[key] = None
            else:
                passed_on.append(resource)
        except KafkaError as error:
            outcomes[key] = error
    return outcomes, passed_on


def _in_order(
    resources: Sequence[_Resource], outcomes: Mapping[ResourceKey, Any], result_class: Callable[..., T]
) -> list[T]:
    """The answers in the order of the request: the controller's, or those that were found here."""
    results: list[T] = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        outcome = outcomes.get((kind, name), UnknownServerError("The controller did not answer for it."))
        if outcome is None or isinstance(outcome, KafkaError):
            outcome = result_class(
                error_code=_code(outcome),
                error_message=outcome.message if outcome is not None else None,
                resource_type=kind,
                resource_name=name,
            )
        results.append(outcome)
    return results


# -- AlterConfigs and IncrementalAlterConfigs, at the active controller ----------------------------------


async def make_replacements(
    node: Node, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Replace all values of each resource."""
    wanted = {(each.resource_type, each.resource_name): each for each in request.resources}

    def decide(image: MetadataImage, key: ResourceKey) -> list[Message]:
        resource = wanted[key]
        _check_replacement(resource)
        _require(node, context, AclOperation.ALTER_CONFIGS, key)
        values = {config.name: config.value for config in resource.configs}
        if key[0] == BROKER_RESOURCE:
            check_dynamic(values, per_broker=bool(key[1]))
        return replace_configs(image, node.config.layers, key[0], key[1], values)

    outcomes = await _change(node, request.resources, decide, request.validate_only)
    return AlterConfigsResponse(
        responses=_in_order(request.resources, outcomes, AlterConfigsResourceResponse)
    )


async def make_changes(
    node: Node, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change single values of each resource; a controller's own loggers here and now."""
    wanted = {(each.resource_type, each.resource_name): each for each in request.resources}

    def decide(image: MetadataImage, key: ResourceKey) -> list[Message]:
        changes = _changes(wanted[key])
        _check_changes(changes)
        if key[0] == BROKER_LOGGER_RESOURCE:
            _require(node, context, AclOperation.CLUSTER_ACTION, key)
            _require_own_id(node, key[1], "Node", ",")
            _change_loggers(changes, request.validate_only)
            return []
        _require(node, context, AclOperation.ALTER_CONFIGS, key)
        if key[0] == BROKER_RESOURCE:
            check_dynamic((name for name, _, _ in changes), per_broker=bool(key[1]))
        typed = [(name, Operation(operation), value) for name, operation, value in changes]
        return change_configs(image, node.config.layers, key[0], key[1], typed)

    outcomes = await _change(node, request.resources, decide, request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=_in_order(request.resources, outcomes, IncrementalResourceResponse)
    )


async def _change(
    node: Node,
    resources: Sequence[_Resource],
    decide: Callable[[MetadataImage, ResourceKey], list[Message]],
    validate_only: bool,
) -> dict[ResourceKey, Outcome]:
    """Decide on every resource by itself; all accepted changes are made durable together."""
    wanted = [(each.resource_type, each.resource_name) for each in resources]
    twice = {key for key, count in Counter(wanted).items() if count > 1}
    outcomes: dict[ResourceKey, Outcome] = {}
    if len(wanted) > MAX_RECORDS_PER_REQUEST:
        return dict.fromkeys(wanted, PolicyViolation(TOO_MANY_CHANGES))

    def decide_all(image: MetadataImage) -> Decision[None]:
        records: list[Message] = []
        for key in dict.fromkeys(wanted):
            try:
                if key in twice:
                    raise InvalidRequest("Each resource must appear at most once.")
                changed = decide(image, key)
                if len(records) + len(changed) > MAX_RECORDS_PER_REQUEST:
                    raise PolicyViolation(TOO_MANY_CHANGES)
            except KafkaError as error:
                outcomes[key] = error
                continue
            records += changed
            outcomes[key] = None
        return Decision([] if validate_only else records, None)

    await node.controller.submit(decide_all)
    return outcomes


def _changes(resource: IncrementalAlterConfigsResource) -> list[tuple[str, int, str | None]]:
    return [(config.name, config.config_operation, config.value) for config in resource.configs]


def _check_replacement(resource: AlterConfigsResource) -> None:
    if resource.resource_type == BROKER_LOGGER_RESOURCE:
        raise InvalidRequest(f"Unknown resource type {BROKER_LOGGER_RESOURCE}")
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {','.join(nulls)}")


def _check_changes(changes: list[tuple[str, int, str | None]]) -> None:
    unknown = sorted({operation for _, operation, _ in changes} - set(Operation))
    if unknown:
        raise InvalidRequest(f"Unknown operation type {unknown[0]}")
    nulls = [name for name, operation, value in changes if value is None and operation != Operation.DELETE]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {','.join(nulls)}")
    if len({name for name, _, _ in changes}) != len(changes):
        raise InvalidRequest("Error due to duplicate config keys")


def _check_broker_resource(
    node: Node, context: RequestContext, key: ResourceKey, names: Iterable[str]
) -> None:
    resource_type, name = key
    if resource_type == BROKER_RESOURCE:
        _require(node, context, AclOperation.ALTER_CONFIGS, key)
        if name:
            _require_own_id(node, name, "Node", ",")
        check_dynamic(names, per_broker=bool(name))


async def _refused_keys(
    node: Node, resources: Sequence[R], values_after: Callable[[Mapping[str, str], R], Mapping[str, str]]
) -> dict[ResourceKey, KafkaError]:
    """The resources whose new TLS settings this node can't use: files are read, in a thread."""
    refused: dict[ResourceKey, KafkaError] = {}
    brokers = [each for each in resources if each.resource_type == BROKER_RESOURCE]
    for resource in brokers:
        own, tls, image = (BROKER_RESOURCE, str(node.node_id)), node.tls, node.image
        if tls is None or resource.resource_name != own[1] or not _names_tls(resource.configs):
            continue
        try:
            after = values_after(image.configs.get(own, {}), resource)
            layers = node.config.layers.with_dynamic(image.configs.get((BROKER_RESOURCE, ""), {}), after)
            await asyncio.to_thread(tls.check, layers)
        except KafkaError as error:
            refused[own] = error
        except ValueError as problem:  # of key stores
            refused[own] = InvalidRequest(str(problem))
        break  # a second one with the same name is refused anyway
    return refused


def _names_tls(configs: Iterable[_Named]) -> bool:
    return any(_LISTENERS_TLS.match(each.name) for each in configs)


def _replaced_values(before: Mapping[str, str], resource: AlterConfigsResource) -> Mapping[str, str]:
    return {each.name: each.value for each in resource.configs if each.value is not None}


def _changed_values(
    before: Mapping[str, str], resource: IncrementalAlterConfigsResource
) -> Mapping[str, str]:
    changes = _changes(resource)
    _check_changes(changes)
    typed = [(name, Operation(operation), value) for name, operation, value in changes]
    return changed_values(BROKER_RESOURCE, before, typed)[1]


def _require(node: Node, context: RequestContext, operation: AclOperation, key: ResourceKey) -> None:
    """Raise the error of the kind of resource if the client may not do the operation on its settings."""
    kind, name = key
    error: type[KafkaError]
    match kind:
        case 2:
            resource_type, error = ResourceType.TOPIC, TopicAuthorizationFailed
        case 32:
            resource_type, error = ResourceType.GROUP, GroupAuthorizationFailed
        case _:
            resource_type, name, error = ResourceType.CLUSTER, CLUSTER_NAME, ClusterAuthorizationFailed
    if not node.authorization.allows(context, operation, resource_type, name):
        raise error()


def _change_loggers(changes: list[tuple[str, int, str | None]], validate_only: bool) -> None:
    for name, operation, level in changes:
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            raise InvalidRequest(
                f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource"
            )
        loggers.check_level(name, level if operation == Operation.SET else None)
    if not validate_only:
        for name, operation, level in changes:
            loggers.set_level(name, level if operation == Operation.SET else None)


def _code(error: Outcome) -> ErrorCode:
    return ErrorCode.NONE if error is None else error.code


# -- ListConfigResources ------------------------------------------------------------------------------


def list_config_resources(
    node: Node, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """The resources that have settings, of the kinds that the client asked for."""
    node.authorization.require_on_cluster(context, AclOperation.DESCRIBE_CONFIGS)
    kinds = [CLIENT_METRICS_RESOURCE] if context.api_version == 0 else request.resource_types
    kinds = list(dict.fromkeys(kinds)) or list(RESOURCE_TYPES)
    if not set(kinds) <= set(RESOURCE_TYPES):
        raise UnsupportedVersion()
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in kinds
            for name in _names(node.image, kind)
        ]
    )


def _names(image: MetadataImage, kind: int) -> list[str]:
    if kind == TOPIC_RESOURCE:
        return sorted(image.topics)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for resource_type, name in image.configs if resource_type == kind)


HANDLERS = {
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
}
CONTROLLER_HANDLERS = {
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: make_replacements,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: make_changes,
}
