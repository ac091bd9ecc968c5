"""Quotas of users, client ids and addresses (KIP-546, KIP-612): described, set and removed."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.cluster_requests import ClusterRequests, refusal, require_success
from ottla.client.errors import ClusterError
from ottla.protocol.messages import alter_client_quotas_request as altering
from ottla.protocol.messages import describe_client_quotas_request as describing
from ottla.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from ottla.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from ottla.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from ottla.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse

QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


class EntityType(enum.StrEnum):
    """The kinds of entities that quotas are for; user and client id may stand together."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class Match(enum.IntEnum):
    """How a component of a filter is compared."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


Entity = Mapping[EntityType, str | None]
"""The name of each of an entity's parts; None is the default of that kind."""


class Quotas(NamedTuple):
    """An entity with the quotas that are set for it."""

    entity: Entity
    values: Mapping[str, float]


def entity_words(entity: Entity) -> str:
    """The entity in words: `user alice, client-id app`, `default user`."""
    return ", ".join(
        f"default {kind}" if name is None else f"{kind} {name}"
        for kind in EntityType
        if kind in entity
        for name in (entity[kind],)
    )


async def describe_quotas(
    requests: ClusterRequests,
    components: Mapping[EntityType, tuple[Match, str | None]],
    *,
    strict: bool = False,
) -> list[Quotas]:
    """The entities that have these parts. Raises ClusterError.

    strict: no other parts than these; no components and strict is nothing, without strict is all.
    """
    request = DescribeClientQuotasRequest(
        components=[
            describing.ComponentData(entity_type=kind, match_type=match, match=name)
            for kind, (match, name) in components.items()
        ],
        strict=strict,
    )
    answer = await requests.ask(request, DescribeClientQuotasResponse)
    require_success(answer.error_code, answer.error_message)
    known = {each.value for each in EntityType}
    found = [
        Quotas(
            {
                EntityType(part.entity_type): part.entity_name
                for part in entry.entity
                if part.entity_type in known
            },
            {value.key: value.value for value in sorted(entry.values, key=lambda one: one.key)},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda one: [(kind, name or "") for kind, name in sorted(one.entity.items())])


async def alter_quotas(
    requests: ClusterRequests,
    entity: Entity,
    values: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Set quotas of an entity, and remove those whose value is None; all or none. Raises ClusterError."""
    entry = altering.EntryData(
        entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[_op(key, value) for key, value in values.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    answer = await requests.ask_controller(request, AlterClientQuotasResponse)
    problems: Sequence[ClusterError] = [
        refusal(one.error_code, one.error_message, entity_words(entity))
        for one in answer.entries
        if one.error_code
    ]
    if problems:
        raise problems[0]


def _op(key: str, value: float | None) -> altering.OpData:
    if value is None:
        return altering.OpData(key=key, remove=True)
    return altering.OpData(key=key, value=value)
