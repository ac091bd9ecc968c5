"""The end of a node's registration, by an administrator: UnregisterBroker 0, UnregisterController 0."""

from __future__ import annotations

from ottla.core.decisions.decision import Decision
from ottla.core.decisions.fencing import remove_broker
from ottla.core.decisions.partition_changes import PartitionChanges, TopicRules
from ottla.core.image.features import CONTROLLER_UNREGISTRATION_METADATA_VERSION, METADATA_VERSION
from ottla.core.image.image import MetadataImage
from ottla.protocol.errors import (
    BrokerIdNotRegistered,
    ControllerIdNotRegistered,
    InvalidRequest,
    UnsupportedVersion,
)
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from ottla.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from ottla.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from ottla.protocol.records.unregister_controller_record import UnregisterControllerRecord


def unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, rules: TopicRules
) -> Decision[UnregisterBrokerResponse]:
    """Remove a broker for good. Raises BrokerIdNotRegistered."""
    if request.broker_id not in image.brokers:
        raise BrokerIdNotRegistered(f"Broker ID {request.broker_id} is not currently registered")
    changes = PartitionChanges(image, rules)
    remove_broker(changes, request.broker_id)
    return Decision(changes.records, UnregisterBrokerResponse())


def unregister_controller(
    image: MetadataImage, request: UnregisterControllerRequest, *, active_id: int
) -> Decision[UnregisterControllerResponse]:
    """Remove the registration of a controller that is gone for good; `active_id` is the deciding controller.

    Raises InvalidRequest for the active controller, UnsupportedVersion below metadata.version 4.4-IV2,
    ControllerIdNotRegistered.
    """
    if request.controller_id == active_id:
        raise InvalidRequest("Controller cannot unregister itself while it is active.")
    if image.features.get(METADATA_VERSION, 0) < CONTROLLER_UNREGISTRATION_METADATA_VERSION:
        raise UnsupportedVersion(
            "The current MetadataVersion is too old to support controller unregistration."
        )
    if request.controller_id not in image.controllers:
        raise ControllerIdNotRegistered(f"Controller ID {request.controller_id} is not currently registered.")
    return Decision(
        [UnregisterControllerRecord(controller_id=request.controller_id)],
        UnregisterControllerResponse(error_message=None),
    )
