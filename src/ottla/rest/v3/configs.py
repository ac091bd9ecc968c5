"""API v3: configs of topics, of brokers and of all brokers: read, set, reset, changed together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.admin.cluster_configs import (
    alter_broker_configs,
    alter_cluster_configs,
    alter_topic_configs,
    broker_configs,
    cluster_configs,
    topic_configs,
)
from ottla.rest.admin.cluster_topics import create_topic
from ottla.rest.admin.model import AlterOperation, ConfigChange, ConfigEntry, ConfigSource, NewTopic
from ottla.rest.operations import Api, Description, Operation
from ottla.rest.v3.requests import (
    bad,
    flag_field,
    known_fields,
    list_field,
    member_of,
    optional_text_field,
    path_number,
    read_fields,
    text_field,
)
from ottla.rest.v3.resources import (
    BROKER,
    CLUSTER,
    TOPIC,
    ClusterResources,
    JsonObject,
    cluster_of,
    made_of,
)
from ottla.web.application import json_answer
from ottla.web.errors import ApiError

Represent = Callable[[ConfigEntry], JsonObject]


# --- of topics -------------------------------------------------------------------------------------------


def _of_topic(resources: ClusterResources, topic: str) -> Represent:
    def data(entry: ConfigEntry) -> JsonObject:
        return resources.resource(
            "KafkaTopicConfig",
            ("topics", topic, "configs", entry.name),
            f"/topic={topic}/config={entry.name}",
            {"topic_name": topic, **_content(entry)},
        )

    return data


async def list_topic_configs(api: Api, request: Request) -> Response:
    """The configs of a topic."""
    resources, topic = await cluster_of(api, request), request.path_params["topic_name"]
    configs = (await topic_configs(api.admin, [topic]))[topic]
    data = [_of_topic(resources, topic)(entry) for entry in configs]
    return json_answer(resources.collection("KafkaTopicConfigList", ("topics", topic, "configs"), data))


async def list_all_topic_configs(api: Api, request: Request) -> Response:
    """The configs of all topics."""
    resources = await cluster_of(api, request)
    found = await topic_configs(api.admin, await api.admin.topic_names())
    entries = ((topic, entry) for topic, configs in found.items() for entry in configs)
    data = await made_of(entries, lambda of: _of_topic(resources, of[0])(of[1]))
    return json_answer(resources.collection("KafkaTopicConfigList", ("topics", "-", "configs"), data))


async def get_topic_config(api: Api, request: Request) -> Response:
    """One config of a topic."""
    resources, topic = await cluster_of(api, request), request.path_params["topic_name"]
    name = request.path_params["name"]
    configs = (await topic_configs(api.admin, [topic], name))[topic]
    return json_answer(_of_topic(resources, topic)(_named(configs, name)))


async def list_default_topic_configs(api: Api, request: Request) -> Response:
    """The configs that a topic would have without any of its own."""
    resources, topic = await cluster_of(api, request), request.path_params["topic_name"]
    # an existing topic has synonyms in other units (hours) and no defaults: ask for a new one
    unknown = NewTopic(f"ottla-rest-default-configs-{uuid.uuid4()}", partitions=1, replication_factor=1)
    configs = (await create_topic(api.admin, unknown, validate_only=True)).configs
    data = [_of_topic(resources, topic)(entry) for entry in configs]
    path = ("topics", topic, "default-configs")
    return json_answer(resources.collection("KafkaTopicConfigList", path, data))


async def put_topic_config(api: Api, request: Request) -> Response:
    """Set one config of a topic."""
    await cluster_of(api, request)
    changes = await _set(api, request)
    await alter_topic_configs(api.admin, request.path_params["topic_name"], changes)
    return Response(status_code=204)


async def reset_topic_config(api: Api, request: Request) -> Response:
    """Give one config of a topic its default."""
    await cluster_of(api, request)
    await alter_topic_configs(api.admin, request.path_params["topic_name"], _reset(request))
    return Response(status_code=204)


async def alter_topic(api: Api, request: Request) -> Response:
    """Change configs of a topic, all or none."""
    await cluster_of(api, request)
    changes, validate_only = await _batch(api, request)
    await alter_topic_configs(api.admin, request.path_params["topic_name"], changes, validate_only)
    return Response(status_code=204)


# --- of a broker -----------------------------------------------------------------------------------------


def _of_broker(resources: ClusterResources, broker: int) -> Represent:
    def data(entry: ConfigEntry) -> JsonObject:
        return resources.resource(
            "KafkaBrokerConfig",
            ("brokers", broker, "configs", entry.name),
            f"/broker={broker}/config={entry.name}",
            {"broker_id": broker, **_content(entry)},
        )

    return data


async def list_broker_configs(api: Api, request: Request) -> Response:
    """The configs of a broker."""
    resources, broker = await cluster_of(api, request), path_number(request, "broker_id")
    data = [_of_broker(resources, broker)(entry) for entry in await broker_configs(api.admin, broker)]
    return json_answer(resources.collection("KafkaBrokerConfigList", ("brokers", broker, "configs"), data))


async def list_all_broker_configs(api: Api, request: Request) -> Response:
    """The configs of all brokers."""
    resources = await cluster_of(api, request)
    data = [
        _of_broker(resources, node.id)(entry)
        for node in (await api.admin.cluster()).nodes
        for entry in await broker_configs(api.admin, node.id)
    ]
    return json_answer(resources.collection("KafkaBrokerConfigList", ("brokers", "-", "configs"), data))


async def get_broker_config(api: Api, request: Request) -> Response:
    """One config of a broker."""
    resources, broker = await cluster_of(api, request), path_number(request, "broker_id")
    name = request.path_params["name"]
    configs = await broker_configs(api.admin, broker, name)
    return json_answer(_of_broker(resources, broker)(_named(configs, name)))


async def put_broker_config(api: Api, request: Request) -> Response:
    """Set one config of a broker."""
    await cluster_of(api, request)
    changes = await _set(api, request)
    await alter_broker_configs(api.admin, path_number(request, "broker_id"), changes)
    return Response(status_code=204)


async def reset_broker_config(api: Api, request: Request) -> Response:
    """Give one config of a broker its default."""
    await cluster_of(api, request)
    await alter_broker_configs(api.admin, path_number(request, "broker_id"), _reset(request))
    return Response(status_code=204)


async def alter_broker(api: Api, request: Request) -> Response:
    """Change configs of a broker, all or none."""
    await cluster_of(api, request)
    changes, validate_only = await _batch(api, request)
    await alter_broker_configs(api.admin, path_number(request, "broker_id"), changes, validate_only)
    return Response(status_code=204)


# --- of all brokers --------------------------------------------------------------------------------------


def _of_cluster(resources: ClusterResources) -> Represent:
    def data(entry: ConfigEntry) -> JsonObject:
        return resources.resource(
            "KafkaClusterConfig",
            ("broker-configs", entry.name),
            f"/broker-config={entry.name}",
            {"config_type": "BROKER", **_content(entry)},
        )

    return data


async def list_cluster_configs(api: Api, request: Request) -> Response:
    """The configs that were set for all brokers."""
    resources = await cluster_of(api, request)
    data = [_of_cluster(resources)(entry) for entry in await cluster_configs(api.admin)]
    return json_answer(resources.collection("KafkaClusterConfigList", ("broker-configs",), data))


async def get_cluster_config(api: Api, request: Request) -> Response:
    """One config that was set for all brokers."""
    resources, name = await cluster_of(api, request), request.path_params["name"]
    return json_answer(_of_cluster(resources)(_named(await cluster_configs(api.admin, name), name)))


async def put_cluster_config(api: Api, request: Request) -> Response:
    """Set one config of all brokers."""
    await cluster_of(api, request)
    await alter_cluster_configs(api.admin, await _set(api, request))
    return Response(status_code=204)


async def reset_cluster_config(api: Api, request: Request) -> Response:
    """No longer set one config of all brokers."""
    await cluster_of(api, request)
    await alter_cluster_configs(api.admin, _reset(request))
    return Response(status_code=204)


async def alter_cluster(api: Api, request: Request) -> Response:
    """Change configs of all brokers, all or none."""
    await cluster_of(api, request)
    changes, validate_only = await _batch(api, request)
    await alter_cluster_configs(api.admin, changes, validate_only)
    return Response(status_code=204)


# --- of all three ----------------------------------------------------------------------------------------


def _content(entry: ConfigEntry) -> JsonObject:
    return {
        "name": entry.name,
        "value": entry.value,
        "is_default": entry.source is ConfigSource.DEFAULT_CONFIG,
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
        "source": entry.source.name,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": synonym.source.name}
            for synonym in entry.synonyms
        ],
    }


def _named(configs: Sequence[ConfigEntry], name: str) -> ConfigEntry:
    for entry in configs:
        if entry.name == name:
            return entry
    raise ApiError(404, 404, f"Config {name} cannot be found.")


async def _set(api: Api, request: Request) -> list[ConfigChange]:
    fields = await read_fields(api, request, ("value",))
    name, value = request.path_params["name"], optional_text_field(fields, "value")
    if value is None:
        # as Kafka's clients treat a null value
        return [ConfigChange(name, AlterOperation.DELETE)]
    return [ConfigChange(name, AlterOperation.SET, value)]


def _reset(request: Request) -> list[ConfigChange]:
    return [ConfigChange(request.path_params["name"], AlterOperation.DELETE)]


async def _batch(api: Api, request: Request) -> tuple[list[ConfigChange], bool]:
    fields = await read_fields(api, request, ("data", "validate_only"))
    if not isinstance(fields.get("data"), list):
        raise bad("data must be a list of changes and is missing")
    changes = [_change(item) for item in list_field(fields, "data")]
    return changes, flag_field(fields, "validate_only")


def _change(item: Any) -> ConfigChange:
    fields = known_fields(item, ("name", "value", "operation"), "data")
    name, value = text_field(fields, "name"), optional_text_field(fields, "value")
    operation = member_of(AlterOperation, optional_text_field(fields, "operation") or "SET", "operation")
    return ConfigChange(name, operation, value)


_ALTER: Final = "AlterConfigBatchRequest"
_UPDATE: Final = "UpdateConfigRequest"


def _described(
    path: str,
    owner: str,
    one: str,
    handlers: Sequence[Callable[[Api, Request], Any]],
) -> tuple[Operation, ...]:
    """The five operations on one kind of configs: list, alter, get, put, reset."""
    listing, alter, get, put, reset = handlers
    named, batch = f"{path}/{{name}}", f"{path}:alter"
    return (
        Operation(
            Description("GET", path, f"List configs of {owner}", {200: f"{one}List"}, errors=(404,)), listing
        ),
        Operation(
            Description(
                "POST", batch, f"Change configs of {owner} together", {204: None}, _ALTER, errors=(404,)
            ),
            alter,
        ),
        Operation(Description("GET", named, f"Get a config of {owner}", {200: one}, errors=(404,)), get),
        Operation(
            Description("PUT", named, f"Set a config of {owner}", {204: None}, _UPDATE, errors=(404,)), put
        ),
        Operation(
            Description("DELETE", named, f"Reset a config of {owner}", {204: None}, errors=(404,)), reset
        ),
    )


OPERATIONS: Final = (
    Operation(
        Description(
            "GET",
            f"{CLUSTER}/topics/-/configs",
            "List configs of all topics",
            {200: "KafkaTopicConfigList"},
            errors=(404,),
        ),
        list_all_topic_configs,
        everything=True,
    ),
    Operation(
        Description(
            "GET",
            f"{CLUSTER}/brokers/-/configs",
            "List configs of every broker",
            {200: "KafkaBrokerConfigList"},
            errors=(404,),
        ),
        list_all_broker_configs,
        everything=True,
    ),
    *_described(
        f"{TOPIC}/configs",
        "a topic",
        "KafkaTopicConfig",
        (list_topic_configs, alter_topic, get_topic_config, put_topic_config, reset_topic_config),
    ),
    Operation(
        Description(
            "GET",
            f"{TOPIC}/default-configs",
            "List the configs that a new topic would have",
            {200: "KafkaTopicConfigList"},
            errors=(404,),
        ),
        list_default_topic_configs,
    ),
    *_described(
        f"{BROKER}/configs",
        "a broker",
        "KafkaBrokerConfig",
        (list_broker_configs, alter_broker, get_broker_config, put_broker_config, reset_broker_config),
    ),
    *_described(
        f"{CLUSTER}/broker-configs",
        "all brokers",
        "KafkaClusterConfig",
        (list_cluster_configs, alter_cluster, get_cluster_config, put_cluster_config, reset_cluster_config),
    ),
)
