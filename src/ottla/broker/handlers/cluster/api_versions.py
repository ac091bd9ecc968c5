"""ApiVersions (API key 18): versions 0 to 5, the APIs that this broker serves and its finalized features.

A version that is not known is answered in version 0 with UNSUPPORTED_VERSION and the range of ApiVersions
itself (KIP-511), so that a newer client can step down. From v3 a client names its software (KIP-511);
v4 may tell of features whose smallest level is 0, older versions leave those out (KAFKA-17011). From v5 a
client names the cluster and the node that it means to reach (KIP-1242): a broker that is another one, and has
the address now, answers REBOOTSTRAP_REQUIRED. Controllers do not compare the two, as in Kafka.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES
from ottla.broker.network.context import RequestContext
from ottla.core.image.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)
from ottla.protocol.apis import ApiKey, advertised_versions
from ottla.protocol.errors import InvalidRequest, RebootstrapRequired
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

FIRST_VERSION_WITH_CLIENT_SOFTWARE = 3
FIRST_VERSION_WITH_FEATURES_FROM_ZERO = 4
FIRST_VERSION_WITH_TARGET = 5
NO_NODE = -1

TELEMETRY_APIS = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""Advertised only where clients' metrics go somewhere, as in Kafka, which answers them all the same."""

#: The features that clients are told of. The metadata finalizes all features that Kafka 4.4 does, so that a
#: directory fits both; a client that saw a feature whose APIs are not served here would use them.
SERVED_FEATURES = (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)

_BROKER_APIS = tuple(sorted(FAMILIES))
_WITHOUT_TELEMETRY = tuple(key for key in _BROKER_APIS if key not in TELEMETRY_APIS)
_CONTROLLER_APIS = tuple(sorted(CONTROLLER_FAMILIES))
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(node: Node, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The APIs that a broker's listeners serve, with the features of the cluster's metadata."""
    _check(context, request)
    if (
        context.api_version >= FIRST_VERSION_WITH_TARGET
        and request.cluster_id is not None
        and (request.cluster_id, request.node_id) != (node.cluster_id, node.node_id)
    ):
        raise RebootstrapRequired(
            f"this is node {node.node_id} of cluster {node.cluster_id}, not node {request.node_id} of "
            f"{request.cluster_id}"
        )
    takes_telemetry = node.telemetry.has_receivers
    return _answer(node, context, _BROKER_APIS if takes_telemetry else _WITHOUT_TELEMETRY)


def controller_api_versions(
    node: Node, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """The same of a controller's listeners."""
    _check(context, request)
    return _answer(node, context, _CONTROLLER_APIS)


def _check(context: RequestContext, request: ApiVersionsRequest) -> None:
    """Refuse a client without a name, or one that gives only half of what it means to reach."""
    version = context.api_version
    if version >= FIRST_VERSION_WITH_TARGET and (request.cluster_id is None) != (request.node_id == NO_NODE):
        raise InvalidRequest("the request has one of cluster id and node id, not both")
    if version >= FIRST_VERSION_WITH_CLIENT_SOFTWARE:
        told = (request.client_software_name, request.client_software_version)
        for software in told:
            if not _SOFTWARE.fullmatch(software):
                raise InvalidRequest(f"client software {software!r} is not a name or version")
        context.session.client_software = told


def _answer(node: Node, context: RequestContext, apis: tuple[ApiKey, ...]) -> ApiVersionsResponse:
    from_zero = context.api_version >= FIRST_VERSION_WITH_FEATURES_FROM_ZERO
    image = node.image
    # The quorum's own version is in its control records, not in the metadata.
    finalized = {**image.features, KRAFT_VERSION: node.quorum.kraft_version}
    return ApiVersionsResponse(
        error_code=0,
        api_keys=_ranges(apis),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=smallest, max_version=largest)
            for name in SERVED_FEATURES
            for smallest, largest in (SUPPORTED_FEATURES[name],)
            if smallest > 0 or from_zero
        ],
        finalized_features_epoch=image.last_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
            if level > 0 and name in SERVED_FEATURES
        ],
    )


@functools.cache
def _ranges(apis: tuple[ApiKey, ...]) -> list[ApiVersion]:
    """The same list each time: every connection of every client begins with this answer."""
    return [
        ApiVersion(api_key=key, min_version=smallest, max_version=largest)
        for key in apis
        for smallest, largest in (advertised_versions(key),)
    ]


HANDLERS = {ApiKey.API_VERSIONS: api_versions}
CONTROLLER_HANDLERS = {ApiKey.API_VERSIONS: controller_api_versions}
