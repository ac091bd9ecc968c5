"""API v3: configs of topics, of brokers and of all brokers: read, set, reset, changed together."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.admin.cluster_admin import ClusterAdmin
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
from ottla.rest.path_numbers import path_number
from ottla.rest.v3.requests import (
    bad,
    flag_field,
    known_fields,
    list_field,
    member_of,
    optional_text_field,
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


@dataclass(frozen=True, slots=True)
class _Owner:
    """A resource with configs: a topic, a broker, or all brokers together.

    kind: of its configs. path, name: of the list of its configs, as URL and as resource name. fields: the
    fields of a config that name its owner. read: its configs, or the one of a name. alter: makes all changes
    or none, or only validates them.
    """

    kind: str
    path: tuple[str | int, ...]
    name: str
    fields: JsonObject
    read: Callable[[ClusterAdmin, str | None], Awaitable[list[ConfigEntry]]]
    alter: Callable[[ClusterAdmin, Sequence[ConfigChange], bool], Awaitable[None]]

    def config(self, resources: ClusterResources, entry: ConfigEntry) -> JsonObject:
        """One of the configs as a resource."""
        content = {**self.fields, **_content(entry)}
        path, name = (*self.path, entry.name), f"{self.name}={entry.name}"
        return resources.resource(self.kind, path, name, content)


def _topic(topic: str) -> _Owner:
    async def read(admin: ClusterAdmin, name: str | None) -> list[ConfigEntry]:
        return (await topic_configs(admin, [topic], name))[topic]

    async def alter(admin: ClusterAdmin, changes: Sequence[ConfigChange], validate_only: bool) -> None:
        await alter_topic_configs(admin, topic, changes, validate_only)

    path = ("topics", topic, "configs")
    return _Owner("KafkaTopicConfig", path, f"/topic={topic}/config", {"topic_name": topic}, read, alter)


def _broker(broker: int) -> _Owner:
    async def read(admin: ClusterAdmin, name: str | None) -> list[ConfigEntry]:
        return await broker_configs(admin, broker, name)

    async def alter(admin: ClusterAdmin, changes: Sequence[ConfigChange], validate_only: bool) -> None:
        await alter_broker_configs(admin, broker, changes, validate_only)

    path = ("brokers", broker, "configs")
    return _Owner("KafkaBrokerConfig", path, f"/broker={broker}/config", {"broker_id": broker}, read, alter)


_ALL_BROKERS: Final = _Owner(
    "KafkaClusterConfig",
    ("broker-configs",),
    "/broker-config",
    {"config_type": "BROKER"},
    cluster_configs,
    alter_cluster_configs,
)


class _Configs:
    """The five operations on the configs of an owner, which the request names."""

    def __init__(self, owner_of: Callable[[Request], _Owner]) -> None:
        self._owner_of = owner_of

    async def get_all(self, api: Api, request: Request) -> Response:
        """All configs."""
        resources, owner = await cluster_of(api, request), self._owner_of(request)
        data = [owner.config(resources, entry) for entry in await owner.read(api.admin, None)]
        return json_answer(resources.collection(f"{owner.kind}List", owner.path, data))

    async def get(self, api: Api, request: Request) -> Response:
        """One config."""
        resources, owner = await cluster_of(api, request), self._owner_of(request)
        name = request.path_params["name"]
        for entry in await owner.read(api.admin, name):
            if entry.name == name:
                return json_answer(owner.config(resources, entry))
        raise ApiError(404, 404, f"Config {name} cannot be found.")

    async def put(self, api: Api, request: Request) -> Response:
        """Set one config."""
        await cluster_of(api, request)
        return await self._change(api, request, await _set(api, request))

    async def reset(self, api: Api, request: Request) -> Response:
        """Take away the value that one config was given."""
        await cluster_of(api, request)
        deleted = ConfigChange(request.path_params["name"], AlterOperation.DELETE)
        return await self._change(api, request, [deleted])

    async def alter(self, api: Api, request: Request) -> Response:
        """Change several configs, all or none."""
        await cluster_of(api, request)
        changes, validate_only = await _batch(api, request)
        return await self._change(api, request, changes, validate_only)

    async def _change(
        self, api: Api, request: Request, changes: Sequence[ConfigChange], validate_only: bool = False
    ) -> Response:
        await self._owner_of(request).alter(api.admin, changes, validate_only)
        return Response(status_code=204)


async def list_all_topic_configs(api: Api, request: Request) -> Response:
    """The configs of all topics."""
    resources = await cluster_of(api, request)
    found = await topic_configs(api.admin, await api.admin.topic_names())
    entries = ((topic, entry) for topic, configs in found.items() for entry in configs)
    data = await made_of(entries, lambda of: _topic(of[0]).config(resources, of[1]))
    return json_answer(resources.collection("KafkaTopicConfigList", ("topics", "-", "configs"), data))


async def list_default_topic_configs(api: Api, request: Request) -> Response:
    """The configs that a topic would have without any of its own."""
    resources, topic = await cluster_of(api, request), request.path_params["topic_name"]
    # an existing topic has synonyms in other units (hours) and no defaults: ask for a new one
    unknown = NewTopic(f"ottla-rest-default-configs-{uuid.uuid4()}", partitions=1, replication_factor=1)
    configs = (await create_topic(api.admin, unknown, validate_only=True)).configs
    data = [_topic(topic).config(resources, entry) for entry in configs]
    path = ("topics", topic, "default-configs")
    return json_answer(resources.collection("KafkaTopicConfigList", path, data))


async def list_all_broker_configs(api: Api, request: Request) -> Response:
    """The configs of all brokers."""
    resources = await cluster_of(api, request)
    data = [
        _broker(node.id).config(resources, entry)
        for node in (await api.admin.cluster()).nodes
        for entry in await broker_configs(api.admin, node.id)
    ]
    return json_answer(resources.collection("KafkaBrokerConfigList", ("brokers", "-", "configs"), data))


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


async def _set(api: Api, request: Request) -> list[ConfigChange]:
    fields = await read_fields(api, request, ("value",))
    name, value = request.path_params["name"], optional_text_field(fields, "value")
    if value is None:
        # as Kafka's clients treat a null value
        return [ConfigChange(name, AlterOperation.DELETE)]
    return [ConfigChange(name, AlterOperation.SET, value)]


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


def _described(path: str, owner: str, kind: str, configs: _Configs) -> tuple[Operation, ...]:
    """The five operations on one kind of configs."""
    named, batch = f"{path}/{{name}}", f"{path}:alter"

    def description(
        method: str, place: str, summary: str, status: int, answer: str | None, body: str | None = None
    ) -> Description:
        return Description(method, place, summary, {status: answer}, body, errors=(404,))

    return (
        Operation(description("GET", path, f"List configs of {owner}", 200, f"{kind}List"), configs.get_all),
        Operation(
            description("POST", batch, f"Change configs of {owner} together", 204, None, _ALTER),
            configs.alter,
        ),
        Operation(description("GET", named, f"Get a config of {owner}", 200, kind), configs.get),
        Operation(description("PUT", named, f"Set a config of {owner}", 204, None, _UPDATE), configs.put),
        Operation(description("DELETE", named, f"Reset a config of {owner}", 204, None), configs.reset),
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
        _Configs(lambda request: _topic(request.path_params["topic_name"])),
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
        _Configs(lambda request: _broker(path_number(request, "broker_id"))),
    ),
    *_described(
        f"{CLUSTER}/broker-configs",
        "all brokers",
        "KafkaClusterConfig",
        _Configs(lambda request: _ALL_BROKERS),
    ),
)
