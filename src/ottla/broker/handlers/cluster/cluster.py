"""DescribeCluster (API key 60) 0-2, UpdateFeatures (57) 0-2.

DescribeCluster (KIP-700): v1 asks for brokers or controllers (KIP-919), and a broker answers for brokers
only; v2 can list fenced brokers (KIP-1073). UpdateFeatures is told in
`ottla.core.decisions.feature_updates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import NOT_ASKED
from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.handlers.cluster.metadata import cluster_operations, controller_for_clients
from ottla.broker.network.context import RequestContext
from ottla.core.decisions.feature_updates import update_features as decide_features
from ottla.core.image.features import KRAFT_VERSION
from ottla.core.security.acls import AclOperation
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, MismatchedEndpointType, UnsupportedEndpointType
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from ottla.protocol.messages.update_features_request import UpdateFeaturesRequest
from ottla.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

BROKERS = 1
CONTROLLERS = 2


def describe_cluster(
    node: Node, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """The brokers that clients of this listener can reach."""
    if request.endpoint_type == CONTROLLERS:
        raise MismatchedEndpointType(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    if request.endpoint_type != BROKERS:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
    brokers = []
    reachable = set()
    for broker_id, registered in sorted(node.image.brokers.items()):
        endpoint = registered.endpoint(context.session.listener_name)
        if endpoint is not None and not registered.fenced:
            reachable.add(broker_id)
        if endpoint is not None and (request.include_fenced_brokers or not registered.fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=registered.rack,
                    is_fenced=registered.fenced,
                )
            )
    return DescribeClusterResponse(
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=node.cluster_id,
        controller_id=controller_for_clients(reachable, node.node_id),
        brokers=brokers,
        cluster_authorized_operations=(
            cluster_operations(node, context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def describe_controllers(
    node: Node, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """A controller's answer: the controllers that are registered, and which one leads (KIP-919)."""
    node.authorization.require_on_cluster(context, AclOperation.ALTER)
    if request.endpoint_type == BROKERS:
        raise MismatchedEndpointType(
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
        )
    if request.endpoint_type != CONTROLLERS:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
    controllers: list[DescribeClusterBroker] = []
    for controller_id, registered in sorted(node.image.controllers.items()):
        controllers += [
            DescribeClusterBroker(broker_id=controller_id, host=endpoint.host, port=endpoint.port, rack=None)
            for endpoint in registered.endpoints
            if endpoint.name == context.session.listener_name
        ]
    return DescribeClusterResponse(
        error_message=None,
        endpoint_type=CONTROLLERS,
        cluster_id=node.cluster_id,
        controller_id=node.controller_leader_id,
        brokers=controllers,
        cluster_authorized_operations=(
            cluster_operations(node, context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


async def update_features(
    node: Node, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """New feature levels for the cluster. kraft.version is the quorum's own, and changed alone."""
    node.authorization.require_on_cluster(context, AclOperation.ALTER)
    quorum = node.quorum
    match request.feature_updates:
        case [update] if update.feature == KRAFT_VERSION and update.max_version_level > quorum.kraft_version:
            return await _upgrade_quorum(node, update.max_version_level, request.validate_only)
    return await node.controller.submit(
        lambda image: decide_features(
            image,
            request,
            context.api_version,
            kraft_version=quorum.kraft_version,
            voter_ids=quorum.voters.node_ids,
            min_insync_replicas=node.config[broker_settings.MIN_INSYNC_REPLICAS],
        )
    )


async def _upgrade_quorum(node: Node, level: int, validate_only: bool) -> UpdateFeaturesResponse:
    error, problem = node.quorum.upgrade_kraft_version(level, validate_only)
    if error is not ErrorCode.NONE:
        return UpdateFeaturesResponse(error_code=error, error_message=problem)
    if not validate_only:
        await node.controller.wait_for(node.controller.log_end_offset - 1)
    result = UpdatableFeatureResult(feature=KRAFT_VERSION, error_code=ErrorCode.NONE, error_message=None)
    return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=[result])


HANDLERS = {
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.UPDATE_FEATURES: forward,
}
CONTROLLER_HANDLERS = {
    ApiKey.DESCRIBE_CLUSTER: describe_controllers,
    ApiKey.UPDATE_FEATURES: update_features,
}
