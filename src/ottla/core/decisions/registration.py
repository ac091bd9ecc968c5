"""Registration of nodes: BrokerRegistration 0-4, ControllerRegistration 0.

A broker that (re)starts registers with a new incarnation. It is fenced until its heartbeats show that it has
caught up (`heartbeats`). Its broker epoch is the offset of its registration's record, so a later one is
larger. A registration that is repeated (the answer was lost) changes nothing. v2 names the data directories
(KIP-858), v3 the epoch of the last run, if that ended cleanly (KIP-966): without that proof the broker may
lack records that it acknowledged, so it is no longer eligible to lead.

Errors of a whole request are raised as KafkaError.
"""

from __future__ import annotations

from uuid import UUID

from ottla.core.decisions.decision import Decision
from ottla.core.decisions.fencing import restart_broker
from ottla.core.decisions.partition_changes import PartitionChanges, TopicRules
from ottla.core.image.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
)
from ottla.core.image.image import (
    RESERVED_DIRECTORIES,
    BrokerImage,
    ControllerImage,
    EndpointImage,
    MetadataImage,
)
from ottla.protocol.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.broker_registration_request import Listener as BrokerListener
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ottla.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ottla.protocol.messages.controller_registration_request import Listener as ControllerListener
from ottla.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from ottla.protocol.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.protocol.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

#: The first version with the epoch of a last run that ended cleanly.
CLEAN_SHUTDOWN_VERSION = 3


def registered_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The broker that sent a request. Raises StaleBrokerEpoch
    if its epoch is another or it is not registered.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"No broker registration found for broker id {broker_id}")
    if broker.broker_epoch != broker_epoch:
        raise StaleBrokerEpoch(
            f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    rules: TopicRules,
    *,
    cluster_id: str,
    is_alive: bool,
    api_version: int,
) -> Decision[BrokerRegistrationResponse]:
    """Register a broker that starts. `is_alive` is `BrokerHeartbeats.is_alive(image, request.broker_id,
    now_ms)`.

    Raises InconsistentClusterId, DuplicateBrokerRegistration (another incarnation is alive),
    BrokerIdNotRegistered (a broker of a ZooKeeper cluster), UnsupportedVersion (its features don't include
    the cluster's levels), InvalidRegistration (directories, listeners).
    """
    if request.cluster_id != cluster_id:
        raise InconsistentClusterId(
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}"
        )
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegistered("Controller does not support registering ZK brokers.")
    endpoints = _endpoints(request.listeners)
    existing = image.brokers.get(request.broker_id)
    is_same_run = existing is not None and existing.incarnation_id == request.incarnation_id
    if existing is not None and is_alive and not is_same_run:
        raise DuplicateBrokerRegistration(
            "Another broker is registered with that broker id. If the broker was recently restarted this "
            "should self-resolve once the heartbeat manager expires the broker's session."
        )
    _check_directories(image, request)
    _check_features(image, request)
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in endpoints
        ],
        features=[
            BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
        rack=request.rack,
        log_dirs=list(request.log_dirs),
    )
    changes = PartitionChanges(image, rules)
    if existing is not None and is_same_run:
        record.broker_epoch = existing.broker_epoch
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
        record.cordoned_log_dirs = (
            None if existing.cordoned_log_dirs is None else list(existing.cordoned_log_dirs)
        )
        if _says_nothing_new(existing, request, endpoints):
            return Decision([], BrokerRegistrationResponse(broker_epoch=existing.broker_epoch))
    else:
        ended_cleanly = (
            existing is not None
            and api_version >= CLEAN_SHUTDOWN_VERSION
            and existing.broker_epoch == request.previous_broker_epoch
        )
        restart_broker(changes, request.broker_id, ended_cleanly)
        # The offset of the record itself: a broker that has applied it knows of its registration.
        record.broker_epoch = image.last_offset + 1 + len(changes.records)
        record.fenced = True
    changes.records.append(record)
    return Decision(changes.records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def _says_nothing_new(
    existing: BrokerImage, request: BrokerRegistrationRequest, endpoints: tuple[EndpointImage, ...]
) -> bool:
    features = {
        each.name: (each.min_supported_version, each.max_supported_version) for each in request.features
    }
    return (existing.endpoints, existing.rack, existing.log_dirs) == (
        endpoints,
        request.rack,
        tuple(request.log_dirs),
    ) and {name: (smallest, largest) for name, smallest, largest in existing.features} == features


def _endpoints(listeners: list[BrokerListener] | list[ControllerListener]) -> tuple[EndpointImage, ...]:
    """The listeners of a registration. Raises InvalidRegistration for one that no client could reach."""
    if not listeners:
        raise InvalidRegistration("No listeners specified in request")
    if len({each.name for each in listeners}) != len(listeners):
        raise InvalidRegistration("Duplicate listener name in request")
    for each in listeners:
        if not each.name or not each.host or not each.port:
            raise InvalidRegistration(f"Listener {each.name!r} has no name, host or port")
    return tuple(EndpointImage(each.name, each.host, each.port, each.security_protocol) for each in listeners)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise InvalidRegistration("No directories specified in request")
    if any(directory.int < RESERVED_DIRECTORIES for directory in request.log_dirs):
        raise InvalidRegistration("Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise InvalidRegistration("Duplicate directory ID in request")
    taken: dict[UUID, int] = {
        directory: broker.broker_id
        for broker in image.brokers.values()
        if broker.broker_id != request.broker_id
        for directory in broker.log_dirs
    }
    for directory in request.log_dirs:
        if directory in taken:
            raise InvalidRegistration(
                f"Broker {taken[directory]} is already registered with directory {directory}"
            )


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    ranges = {
        each.name: (each.min_supported_version, each.max_supported_version) for each in request.features
    }
    if METADATA_VERSION not in ranges:
        raise InvalidRegistration("Request features do not contain 'metadata.version'")
    # A feature that the cluster has not enabled is at level 0; one that the broker does not name is 0 to 0.
    for name in dict.fromkeys((*ranges, *image.features)):
        if name == KRAFT_VERSION and name not in image.features:
            continue  # its level is not in the metadata but in the quorum's control records
        smallest, largest = ranges.get(name, (0, 0))
        finalized = image.features.get(name, 0)
        if not smallest <= finalized <= largest:
            raise UnsupportedVersion(
                f"Unable to register because the broker does not support finalized version {finalized} of "
                f"{name}. The broker wants a version between {smallest} and {largest}, inclusive."
            )


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Register a controller that starts. Raises InvalidRegistration for invalid listeners."""
    endpoints = _endpoints(request.listeners)
    features = tuple(
        (each.name, each.min_supported_version, each.max_supported_version)
        for each in sorted(request.features, key=lambda feature: feature.name)
    )
    known = ControllerImage(request.controller_id, request.incarnation_id, endpoints, features)
    if image.controllers.get(request.controller_id) == known:
        return Decision([], ControllerRegistrationResponse())
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=smallest, max_supported_version=largest)
            for name, smallest, largest in features
        ],
    )
    return Decision([record], ControllerRegistrationResponse())
