"""Quotas of clients: DescribeClientQuotas (API key 48) 0-1, AlterClientQuotas (49) 0-1 (KIP-546, KIP-612).

A broker describes them from its own metadata and passes changes on. The name of an ip entity may be that of a
host: the active controller asks the name service whether there is one, in a thread, for MAX_HOST_NAMES of a
request at the most, and the brokers whose connections it limits ask for its address.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.network.addresses import is_address
from ottla.broker.network.context import RequestContext
from ottla.broker.network.turns import in_turns
from ottla.core.decisions.client_quotas import change_quotas
from ottla.core.decisions.decision import Decision
from ottla.core.image.image import MetadataImage, QuotaEntity, quota_entity
from ottla.core.quotas.entities import IP
from ottla.core.quotas.filters import QuotaFilter
from ottla.core.security.acls import AclOperation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, InvalidRequest, KafkaError
from ottla.protocol.messages import alter_client_quotas_request as alter
from ottla.protocol.messages import alter_client_quotas_response as altered
from ottla.protocol.messages import describe_client_quotas_response as described
from ottla.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from ottla.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from ottla.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from ottla.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

MAX_HOST_NAMES: Final = 100
"""The most names of hosts in one request: each may keep a thread busy for seconds."""


async def describe_client_quotas(
    node: Node, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """The entities that the filter matches, with all of their quotas."""
    node.authorization.require_on_cluster(context, AclOperation.DESCRIBE_CONFIGS)
    wanted = QuotaFilter(request.components, strict=request.strict)
    entries = []
    async for entity, values in in_turns(list(node.image.client_quotas.items())):
        if wanted.matches(entity):
            entries.append(
                described.EntryData(
                    entity=[
                        described.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
                    ],
                    values=[described.ValueData(key=key, value=value) for key, value in values.items()],
                )
            )
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, entries=entries)


async def alter_client_quotas(
    node: Node, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Set and remove quotas; each entity has an answer of its own."""
    node.authorization.require_on_cluster(context, AclOperation.ALTER_CONFIGS)
    unknown_hosts = await _unknown_hosts(request.entries)
    outcomes: dict[QuotaEntity, KafkaError | None] = {}

    def decide(image: MetadataImage) -> Decision[None]:
        records, found = change_quotas(image, request.entries, unknown_hosts)
        outcomes.update(found)
        return Decision([] if request.validate_only else records, None)

    await node.controller.submit(decide)
    return AlterClientQuotasResponse(
        entries=[_altered(entity, outcome) for entity, outcome in outcomes.items()]
    )


def _altered(entity: QuotaEntity, outcome: KafkaError | None) -> altered.EntryData:
    return altered.EntryData(
        error_code=ErrorCode.NONE if outcome is None else outcome.code,
        error_message=None if outcome is None else outcome.message,
        entity=[altered.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


async def _unknown_hosts(entries: Sequence[alter.EntryData]) -> set[str]:
    """The names of ip entities that stand for no address. Raises InvalidRequest for too many names."""
    names = {
        name
        for entry in entries
        for kind, name in quota_entity((part.entity_type, part.entity_name) for part in entry.entity)
        if kind == IP and name and not is_address(name)
    }
    if len(names) > MAX_HOST_NAMES:
        raise InvalidRequest(f"The request names more than {MAX_HOST_NAMES} hosts; addresses are not bounded")
    loop = asyncio.get_running_loop()
    unknown = set()
    for name in names:
        try:
            await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            unknown.add(name)
    return unknown


HANDLERS = {ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas, ApiKey.ALTER_CLIENT_QUOTAS: forward}
CONTROLLER_HANDLERS = {ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas}
