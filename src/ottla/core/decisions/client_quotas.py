"""Changes of quotas: AlterClientQuotas 0-1 (KIP-546), for users, client ids, both, and addresses (KIP-612).

Each entity succeeds or fails by itself; either all of its changes are made or none. A quota is never 0: a
client that may do nothing is refused by an ACL.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from ottla.core.decisions.decision import MAX_RECORDS_PER_REQUEST
from ottla.core.image.image import MetadataImage, QuotaEntity, quota_entity
from ottla.core.quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from ottla.protocol.errors import InvalidRequest, KafkaError, PolicyViolation
from ottla.protocol.messages.alter_client_quotas_request import EntryData, OpData
from ottla.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.protocol.schema import Message

#: The largest value of each key; None: any number, fractions too.
_CLIENT_KEYS: Final[Mapping[str, float | None]] = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_IP_KEYS: Final[Mapping[str, float | None]] = {CONNECTION_CREATION_RATE: 2**31 - 1}
#: How far a whole number may be from one: a double has no more digits.
_FRACTION: Final = 1e-6


def change_quotas(
    image: MetadataImage, entries: Iterable[EntryData], unknown_hosts: Collection[str]
) -> tuple[list[Message], dict[QuotaEntity, KafkaError | None]]:
    """The records of all changes, and the outcome of each entity.

    `unknown_hosts` are the names of ip entities that are neither addresses nor hosts of the name service.
    Raises PolicyViolation for more changes than one request may have.
    """
    records: list[Message] = []
    outcomes: dict[QuotaEntity, KafkaError | None] = {}
    for entry in entries:
        entity = quota_entity((part.entity_type, part.entity_name) for part in entry.entity)
        try:
            if entity in outcomes:
                raise InvalidRequest("The entity appears more than once; only its first changes are made")
            made = _changes(image, entity, entry.ops, unknown_hosts)
        except KafkaError as error:
            outcomes[entity] = error
            continue
        records += made
        if len(records) > MAX_RECORDS_PER_REQUEST:
            raise PolicyViolation("Too many changes of quotas in one request")
        outcomes[entity] = None
    return records, outcomes


def _changes(
    image: MetadataImage, entity: QuotaEntity, operations: Sequence[OpData], unknown_hosts: Collection[str]
) -> list[Message]:
    if len({operation.key for operation in operations}) < len(operations):
        raise InvalidRequest("A quota of the entity appears more than once")
    _check_entity(entity, unknown_hosts)
    known = _IP_KEYS if entity[0][0] == IP else _CLIENT_KEYS
    before = image.client_quotas.get(entity, {})
    records: list[Message] = []
    for operation in operations:
        key, value = operation.key, operation.value
        if operation.remove:
            if key in before:
                records.append(_record(entity, key, 0.0, remove=True))
            continue
        _check_value(known, key, value)
        if before.get(key) != value:
            records.append(_record(entity, key, value, remove=False))
    return records


def _record(entity: QuotaEntity, key: str, value: float, *, remove: bool) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=remove)


def _check_entity(entity: QuotaEntity, unknown_hosts: Collection[str]) -> None:
    if not entity:
        raise InvalidRequest("The entity of a quota has no user, client id or ip")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Quotas have no entity type {kind}")
        if name == "":
            raise InvalidRequest(f"The name of a {kind} is empty; a default has no name at all")
        if kind == IP and len(entity) > 1:
            raise InvalidRequest("A quota is for an ip, or for a user and client id, not for both")
        if kind == IP and name in unknown_hosts:
            raise InvalidRequest(f"{name} is not an address, nor a host that can be resolved")


def _check_value(known: Mapping[str, float | None], key: str, value: float) -> None:
    if key not in known:
        raise InvalidRequest(f"Entities of this type have no quota {key}")
    if math.isnan(value) or value <= 0:
        raise InvalidRequest(f"{key} must be greater than 0")
    largest = known[key]
    if largest is None:
        return
    if value > largest:
        raise InvalidRequest(f"{key} is too large, {int(largest)} is the most")
    if value % 1 > _FRACTION:
        raise InvalidRequest(f"{key} must be a whole number")
