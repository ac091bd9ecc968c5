"""Brokers and controllers, as the active controller hears of them.

BrokerRegistration (API key 62) 0-4, BrokerHeartbeat (63) 0-2, ControllerRegistration (70) 0, UnregisterBroker
(64) 0, UnregisterController (94) 0. Nodes send the first three to a controller; the last two are an
administrator's, which a broker passes on.
The rules are those of `ottla.core.decisions`: `registration`, `heartbeats`, `unregistration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.network.context import RequestContext
from ottla.core.decisions import registration
from ottla.core.security.acls import AclOperation
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ottla.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ottla.protocol.messages.controller_registration_response import ControllerRegistrationResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node
    from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
    from ottla.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
    from ottla.protocol.messages.unregister_controller_request import UnregisterControllerRequest
    from ottla.protocol.messages.unregister_controller_response import UnregisterControllerResponse


async def register_broker(
    node: Node, context: RequestContext, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Register the start of a broker."""
    node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    work = node.controller_work
    # This node's own broker asks without a connection: its last run is over, it has the directory's lock.
    own = context.session.connection is None and request.broker_id == node.node_id
    return await node.controller.submit(
        lambda image: registration.register_broker(
            image,
            request,
            work.rules(image),
            cluster_id=node.cluster_id,
            is_alive=not own and work.is_alive(image, request.broker_id),
            api_version=context.api_version,
        )
    )


async def heartbeat(
    node: Node, context: RequestContext, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Take a broker's heartbeat, with its progress and its wishes."""
    node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    work = node.controller_work
    heartbeats = work.heartbeats
    response = await node.controller.submit(
        lambda image: heartbeats.on_broker_heartbeat(image, request, work.now_ms(), work.rules(image))
    )
    work.heard(request.broker_id, context.session.connection)
    return response


async def register_controller(
    node: Node, context: RequestContext, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    """Register the start of a controller."""
    node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    return await node.controller.submit(lambda image: registration.register_controller(image, request))


async def unregister_broker(
    node: Node, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Remove the registration of a broker that is gone for good."""
    # Imported at the first use, as below: a start must not wait for it.
    from ottla.core.decisions.unregistration import unregister_broker as decide

    node.authorization.require_on_cluster(context, AclOperation.ALTER)
    work = node.controller_work
    return await node.controller.submit(lambda image: decide(image, request, work.rules(image)))


async def unregister_controller(
    node: Node, context: RequestContext, request: UnregisterControllerRequest
) -> UnregisterControllerResponse:
    """Remove the registration of a controller that is gone for good."""
    from ottla.core.decisions.unregistration import unregister_controller as decide

    node.authorization.require_on_cluster(context, AclOperation.ALTER)
    return await node.controller.submit(lambda image: decide(image, request, active_id=node.node_id))


HANDLERS = {ApiKey.UNREGISTER_BROKER: forward, ApiKey.UNREGISTER_CONTROLLER: forward}
CONTROLLER_HANDLERS = {
    ApiKey.BROKER_REGISTRATION: register_broker,
    ApiKey.BROKER_HEARTBEAT: heartbeat,
    ApiKey.CONTROLLER_REGISTRATION: register_controller,
    ApiKey.UNREGISTER_BROKER: unregister_broker,
    ApiKey.UNREGISTER_CONTROLLER: unregister_controller,
}
